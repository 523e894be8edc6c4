"""The one RAM array that holds all temporaries, and the typed pointers into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kilotune.codegen.emit.context import Scratch
from kilotune.codegen.emit.storage import Storage
from kilotune.codegen.first_fit import Block, find_overlap, first_fit
from kilotune.codegen.live_ranges import LiveRange, live_ranges


@dataclass(frozen=True)
class Layout:
    """Offsets of temporaries, the size of the array, and the C that declares it."""

    offsets: Mapping[str, int]
    size_bytes: int
    typedefs: list[str]
    array: list[str]
    pointers: list[str]


def ram_blocks(storage: Storage, scratches: Mapping[int, Scratch]) -> dict[str, Block]:
    """What must be placed: temporaries while they are live, and scratch arrays during their operation."""
    blocks = {}
    for name, live in live_ranges(storage.program).items():
        width = storage.bits[name] // 8
        blocks[name] = Block(storage.program.variable(name).size * width, live, width)
    for row, scratch in scratches.items():
        blocks[scratch.name] = Block(scratch.size_bytes, LiveRange(row + 1, row + 1), scratch.bits // 8)
    return blocks


def lay_out(storage: Storage, scratches: Mapping[int, Scratch], placement: Mapping[str, int]) -> Layout:
    """Place what `placement` does not name, check the whole, and declare it. ValueError for a placement that is wrong."""
    blocks = ram_blocks(storage, scratches)
    placed = first_fit(blocks, placement)
    _check(blocks, placed.offsets)
    widths = {name: storage.bits[name] for name in blocks if name in storage.bits}
    widths |= {scratch.name: scratch.bits for scratch in scratches.values()}
    names = dict(storage.names) | {s.name: f"kt_scratch{s.row}" for s in scratches.values()}
    pointers = []
    for name, offset in placed.offsets.items():
        note = storage.describe(name) if name in storage.bits else "scratch"
        kind = f"kt_int{widths[name]}"
        pointers.append(f"    {kind} *const {names[name]} = ({kind} *)(kt_ram.bytes + {offset}); /* {note} */")
    typedefs = [f"typedef int{bits}_t KT_ALIAS kt_int{bits};" for bits in sorted(set(widths.values()))]
    array = [
        "/* All temporaries, each where nothing else lives at the same time. */\n"
        f"static union {{\n    int32_t alignment;\n    uint8_t bytes[{placed.peak_bytes}];\n}} kt_ram;"
    ]
    kept = {name: placed.offsets[name] for name in blocks}
    return Layout(kept, placed.peak_bytes, ["\n".join(typedefs)] if blocks else [], array if blocks else [], pointers)


def _check(blocks: Mapping[str, Block], offsets: Mapping[str, int]) -> None:
    for name, offset in offsets.items():
        if offset < 0 or offset % blocks[name].alignment:
            raise ValueError(f"{name} is placed at byte {offset}, which is no multiple of {blocks[name].alignment}")
    overlap = find_overlap(blocks, offsets)
    if overlap is not None:
        raise ValueError(f"{overlap[0]} and {overlap[1]} are live at the same time and share bytes of RAM")
