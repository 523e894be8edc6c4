"""A C header with the addresses of buffers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGEST_NAME = 40
"""Letters of a buffer's name in a constant: C compilers need not tell apart what begins with the same 63."""


@dataclass(frozen=True)
class PlacedBlock:
    """`size` bytes at `offset` of an arena, from program point `lower` to before `upper`."""

    name: str
    arena: str
    offset: int
    size: int
    lower: int
    upper: int


def placement_header(name: str, arenas: Sequence[tuple[str, int, int]], blocks: Iterable[PlacedBlock]) -> str:
    """Constants that begin with `name`: how large each arena is and to what it must be aligned, and the offset of each block, in bytes.

    `arenas`: the name of each, which may be empty, its bytes and its alignment. What is no letter or digit of C becomes an underscore, of
    a long name the end is kept, and one that is there already gets a number behind.
    """
    prefix = identifier(name)
    taken: set[str] = set()

    def named(*parts: str) -> str:
        plain = "_".join(identifier(part) for part in parts if part)
        chosen, k = plain, 1
        while chosen in taken:
            k += 1
            chosen = f"{plain}_{k}"
        taken.add(chosen)
        return chosen

    lines = [
        f"/* Addresses of the buffers of {_comment(name)}. */",
        f"#ifndef {prefix}_PLACEMENT_H",
        f"#define {prefix}_PLACEMENT_H",
        "",
    ]
    for arena, size, alignment in arenas:
        lines.append(f"#define {named(prefix, arena, 'ARENA_BYTES')} {size}u")
        lines.append(f"#define {named(prefix, arena, 'ARENA_ALIGNMENT')} {alignment}u")
    lines.append("")
    for block in blocks:
        life = f"{block.size} bytes, alive in [{block.lower}, {block.upper}): {_comment(block.name)}"
        lines.append(f"#define {named(prefix, block.arena, 'OFFSET', block.name)} {block.offset}u /* {life} */")
    return "\n".join([*lines, "", "#endif", ""])


def identifier(text: str) -> str:
    """In capitals; a digit does not come first."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", text)[-LONGEST_NAME:].strip("_").upper() or "BUFFER"
    return f"B_{plain}" if plain[0].isdigit() else plain


def _comment(text: str) -> str:
    """What cannot end a comment, continue a line or begin a trigraph."""
    printable = "".join(c if c.isascii() and c.isprintable() and c != "\\" else "?" for c in text)
    return printable.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
