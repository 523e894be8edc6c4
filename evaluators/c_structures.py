"""Structures that C functions are called with, as ctypes has them: read from the C source, where they stand once."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

NUMBERS = {
    **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "int": ctypes.c_int,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DEFINITION = re.compile(r"typedef\s+struct\s*(?:\w+\s*)?\{([^{}]*)\}\s*(\w+)\s*;")
DECLARATION = re.compile(r"(?:(?:const|volatile)\s+)*(\w+)\b(.*)", re.DOTALL)
DECLARATOR = re.compile(
    r"(?P<pointer>[\s*]*\*(?:[\s*]|const\b|volatile\b)*)?\s*(?P<name>\w+)\s*(?:\[(?P<count>\d+)\])?\s*"
)


def structures(source: Path, *names: str) -> tuple[type[ctypes.Structure], ...]:
    """The structures that a C file defines as `typedef struct { ... } NAME;`, in the order of `names`.

    Members are numbers of <stdint.h>, int, float or double, other structures of the file, arrays of a literal length of those,
    and pointers, which become `c_void_p`: an address, whatever is there. No other attributes can be set. ValueError for a
    name that the file does not define and for a member of another kind.
    """
    text = COMMENT.sub(" ", source.read_text())
    bodies = {name: body for body, name in DEFINITION.findall(text)}
    made: dict[str, type[ctypes.Structure]] = {}

    def structure(name: str) -> type[ctypes.Structure]:
        if name not in bodies:
            raise ValueError(f"{source.name}: expected a structure {name}, found {', '.join(sorted(bodies)) or 'none'}")
        if name not in made:
            made[name] = type(name, (ctypes.Structure,), {"__slots__": (), "_fields_": fields(name)})
        return made[name]

    def fields(name: str) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for declaration in filter(None, map(str.strip, bodies[name].split(";"))):
            parts = DECLARATION.fullmatch(declaration)
            for declarator in parts[2].split(",") if parts else [""]:
                member = DECLARATOR.fullmatch(declarator)
                if parts is None or member is None:
                    raise ValueError(
                        f"{source.name}: {name}: expected a number, an array or a pointer, found {declaration!r}"
                    )
                kind: Any = ctypes.c_void_p
                if not member["pointer"]:
                    kind = NUMBERS.get(parts[1]) or structure(parts[1])
                found.append((member["name"], kind * int(member["count"]) if member["count"] else kind))
        return found

    return tuple(structure(name) for name in names)
