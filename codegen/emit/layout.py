"""The one RAM array that holds all temporaries, and the typed pointers into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen.emit.context import Scratch
from kilotune.codegen.emit.fusion import OperationChain
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.first_fit import Block, FirstFitPlacement, find_overlap, first_fit
from kilotune.codegen.interference import Interference, find_interference
from kilotune.codegen.live_ranges import LiveRange, live_ranges
from kilotune.codegen.placement import Placer


@dataclass(frozen=True)
class TemporaryLayout:
    """Offsets of temporaries, the size of the array, how much of it variables reach into, and the C that declares it;
    of `pointers` with the names that they declare. `live_bytes`: of the array, by row, those that hold values while it runs."""

    offsets: Mapping[str, int]
    size_bytes: int
    variable_bytes: int
    typedefs: list[str]
    array: list[str]
    pointers: list[tuple[str, str]]
    live_bytes: tuple[int, ...]


@dataclass(frozen=True)
class PlacedTemporaries:
    """Where the temporaries of a program lie, in bytes, and which of them may share some. `backward`: rows of operations that may do so
    only from their last place to the first."""

    interference: Interference
    offsets: Mapping[str, int]
    peak_bytes: int
    backward: frozenset[int]


def place_temporaries(
    storage: VariableStorage, placement: Mapping[str, int], in_place: bool, *, with_input: bool = False
) -> PlacedTemporaries:
    """Place what `placement` does not name, as `codegen.placement` does for the search too; `with_input`: the input among them. ValueError
    for a placement that is wrong."""
    interference = find_interference(storage.program, in_place, with_input=with_input)
    placer = Placer(interference)
    fixed = {name: offset for name, offset in placement.items() if name in interference.names}
    variables = placer.place(storage.bits, fixed)
    _check(_blocks(storage, interference, {}), {**variables.offsets, **placement})
    clash = placer.find_clash(storage.bits, variables.offsets)
    if clash is not None:
        raise ValueError(f"{clash[0]} and {clash[1]} are live at the same time and share bytes of RAM")
    backward = placer.backward(storage.bits, variables.offsets)
    return PlacedTemporaries(interference, variables.offsets, variables.peak_bytes, backward)


def lay_out(
    storage: VariableStorage,
    variables: PlacedTemporaries,
    scratches: Mapping[int, Scratch],
    placement: Mapping[str, int],
    chains: Mapping[int, OperationChain],
    unstored: str | None = None,
) -> TemporaryLayout:
    """Fit scratch arrays around the variables, and declare all; `unstored` lies among them in tracing builds alone. ValueError for one that
    `placement` puts where it may not be."""
    interference = variables.interference
    blocks = _blocks(storage, interference, scratches)
    _check(blocks, {**variables.offsets, **placement})
    held = _around(interference, chains)
    offsets = _place_scratches(blocks, held, scratches, {**placement, **variables.offsets})
    peak = max((offsets[name] + block.size_bytes for name, block in blocks.items()), default=0)
    placed = FirstFitPlacement({name: offsets[name] for name in blocks}, peak)
    widths = {name: storage.bits[name] for name in blocks if name in storage.bits}
    widths |= {scratch.name: scratch.bits for scratch in scratches.values()}
    names = {name: storage.name(name) for name in interference.names}
    names |= {s.name: f"kt_scratch{s.row}" for s in scratches.values()}
    pointers, kinds = [], {}
    for name, offset in placed.offsets.items():
        note = storage.describe(name) if name in storage.bits else "scratch"
        kind = storage.pointed_type(name) if name in storage.bits else f"kt_int{widths[name]}"
        if kind.startswith("kt_"):  # the input's, where it lies here, is the caller's
            kinds[kind] = "float" if kind == "kt_float" else f"int{widths[name]}_t"
        pointer = f"    {kind} *const {names[name]} = ({kind} *)(kt_ram.bytes + {offset}); /* {note} */"
        if name == unstored:
            own = f"    int{widths[name]}_t {names[name]}[1]; /* {note} */"
            pointer = f"#if defined(KT_TRACED)\n{pointer}\n#else\n{own}\n#endif"
        pointers.append((names[name], pointer))
    read = storage.program.input
    if read is not None:  # functions read the input as they read temporaries
        kinds["kt_float" if storage.real else f"kt_int{storage.bits[read.name]}"] = storage.type_of(read.name)
    typedefs = [f"typedef {kind} KT_ALIAS {alias};" for alias, kind in sorted(kinds.items())]
    array = [
        "/* All temporaries, each where nothing else lives at the same time. */\n"
        f"static union {{\n    int32_t alignment;\n    uint8_t bytes[{placed.peak_bytes}];\n}} kt_ram;"
    ]
    kept = {name: placed.offsets[name] for name in blocks}
    live = _live_bytes(blocks, offsets, held, scratches)
    declared = ["\n".join(typedefs)] if typedefs else []
    return TemporaryLayout(
        kept, placed.peak_bytes, variables.peak_bytes, declared, array if blocks else [], pointers, live
    )


def _blocks(storage: VariableStorage, interference: Interference, scratches: Mapping[int, Scratch]) -> dict[str, Block]:
    """What must be placed: variables, then scratch arrays, which live during their operation."""
    ranges, blocks = live_ranges(storage.program, with_input=True), {}
    for name in interference.names:
        width = storage.bits[name] // 8
        blocks[name] = Block(interference.elements[name] * width, ranges[name], width)
    for row, scratch in scratches.items():
        blocks[scratch.name] = Block(scratch.size_bytes, LiveRange(row + 1, row + 1), scratch.bits // 8)
    return blocks


def _around(interference: Interference, chains: Mapping[int, OperationChain]) -> list[frozenset[str]]:
    """By row, what holds values while it runs: in a chain, while any of its operations does."""
    held = list(interference.rows)
    for chain in chains.values():
        together = frozenset(name for row in chain.rows for name in interference.rows[row]) - chain.registers
        held[chain.rows.start : chain.rows.stop] = [together] * len(chain.rows)
    return held


def _live_bytes(
    blocks: Mapping[str, Block],
    offsets: Mapping[str, int],
    held: Sequence[frozenset[str]],
    scratches: Mapping[int, Scratch],
) -> tuple[int, ...]:
    """By row, how many bytes hold values or scratch while it runs; those that two variables share count once."""
    result = []
    for row, names in enumerate(held):
        also = {scratches[row].name} if row in scratches else set()
        ends, total = 0, 0
        for start, size in sorted((offsets[name], blocks[name].size_bytes) for name in names | also):
            total += max(start + size - max(start, ends), 0)
            ends = max(ends, start + size)
        result.append(total)
    return tuple(result)


def _place_scratches(
    blocks: Mapping[str, Block],
    held: Sequence[frozenset[str]],
    scratches: Mapping[int, Scratch],
    offsets: Mapping[str, int],
) -> dict[str, int]:
    """All offsets, with each scratch array clear of what holds values during its operation."""
    result = dict(offsets)
    for row, scratch in scratches.items():
        around = {name: blocks[name] for name in held[row]}
        alone = {name: Block(b.size_bytes, LiveRange(0, 0), b.alignment) for name, b in around.items()}
        alone[scratch.name] = Block(scratch.size_bytes, LiveRange(0, 0), scratch.bits // 8)
        result[scratch.name] = first_fit(alone, {n: result[n] for n in alone if n in result}).offsets[scratch.name]
        clash = next((n for n in around if _meet(alone, result, n, scratch.name)), None)
        if clash is not None:
            raise ValueError(f"{clash} and {scratch.name} are live at the same time and share bytes of RAM")
    return result


def _meet(blocks: Mapping[str, Block], offsets: Mapping[str, int], a: str, b: str) -> bool:
    return find_overlap({a: blocks[a], b: blocks[b]}, offsets) is not None


def _check(blocks: Mapping[str, Block], offsets: Mapping[str, int]) -> None:
    for name, block in blocks.items():
        offset = offsets.get(name, 0)
        if offset < 0 or offset % block.alignment:
            raise ValueError(f"{name} is placed at byte {offset}, which is no multiple of {block.alignment}")
