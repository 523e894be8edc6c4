"""Is a placement one? Written against the definition, with nothing from the solvers: it is run on all that they return.

A residence is a stretch of a buffer's life at one address. A placement without migrations has one residence a buffer;
with migrations, the residences of a buffer cover its live range without gap or overlap.

The moves at a program point run one after another before its instruction, each a memmove: a buffer's own source and target
may share bytes (the paper's ShiftVars), but no move may write where another buffer still has its bytes. What dies at the
point is gone, what begins there has nothing yet. So some order of the moves must exist in which every target is free of the
sources that are still to be read; two buffers that change places have none.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kilotune.codegen.counts import counted
from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.instance import Buffer, Instance, Placement


@dataclass(frozen=True)
class Residence:
    """Buffer `id` is at `offset` (bytes) of a bank in the half-open range [lower, upper) of program points."""

    id: str
    lower: int
    upper: int
    offset: int
    bank: str = ""


@dataclass(frozen=True)
class Migration:
    """One tuple of a migrateList: before `point`, the `size` bytes of `id` move from `source` to `target`."""

    point: int
    id: str
    source: int
    target: int
    size: int
    bank: str = ""


@dataclass(frozen=True)
class CostBreakdown:
    """What a placement costs: peaks by bank, bytes moved, and the cost in bytes of peak."""

    peak_bytes: Mapping[str, int]
    bytes_migrated: int
    cost: Fraction


class PlacementError(AssertionError):
    """A placement that breaks the definition; the message is a sentence that says where."""


def check_placement(instance: Instance, placement: Placement, capacity_bytes: int | None = None) -> int:
    """The peak in bytes, if the placement is valid. PlacementError otherwise."""
    known = {b.id for b in instance.buffers}
    for name in placement.offsets:
        if name not in known:
            raise PlacementError(f"{name} is placed, and the instance has no such buffer.")
    residences = [
        Residence(b.id, b.lower, b.upper, placement.offsets[b.id])
        for b in instance.buffers
        if b.id in placement.offsets
    ]
    return check_residences(instance, residences, capacity_bytes)


def check_residences(instance: Instance, residences: Sequence[Residence], capacity_bytes: int | None = None) -> int:
    """The peak in bytes of a placement in one bank in which buffers may move. PlacementError where it breaks the definition."""
    buffers = {b.id: b for b in instance.buffers}
    by_buffer: dict[str, list[Residence]] = defaultdict(list)
    peak_bytes = 0
    for r in residences:
        if r.id not in buffers:
            raise PlacementError(f"{r.id} is placed, and the instance has no such buffer.")
        b = buffers[r.id]
        by_buffer[r.id].append(r)
        if isinstance(r.offset, bool) or not isinstance(r.offset, int) or r.offset < 0:
            raise PlacementError(f"{r.id} lies at {r.offset!r}, which is no address.")
        if r.offset % b.alignment:
            raise PlacementError(f"{r.id} lies at {r.offset}, which is no multiple of its alignment {b.alignment}.")
        peak_bytes = max(peak_bytes, r.offset + b.size)
        if capacity_bytes is not None and r.offset + b.size > capacity_bytes:
            raise PlacementError(f"{r.id} ends at {r.offset + b.size}, above the capacity of {capacity_bytes} bytes.")
    for b in instance.buffers:
        at = b.lower
        for r in sorted(by_buffer[b.id], key=lambda r: r.lower):
            if r.lower != at or r.upper <= r.lower:
                raise PlacementError(f"{b.id} has no single address at program point {min(r.lower, at)}.")
            at = r.upper
        if at != b.upper:
            raise PlacementError(f"{b.id} has no single address at program point {at}.")
    _check_disjoint(instance, residences)
    migrations_in_order(instance, residences)
    return peak_bytes


def check_costs(
    instance: Instance, memory: MemoryMap, residences: Sequence[Residence], within_capacities: bool = True
) -> CostBreakdown:
    """The cost of a placement in banks. PlacementError: a bank that may not hold a buffer, a buffer that changes its bank
    or moves too often, and all that a placement in one bank may have wrong."""
    home = _homes(instance, memory, residences)
    peaks = {
        bank.name: _bank_peak(instance, bank, home, residences, within_capacities=within_capacities)
        for bank in memory.banks
    }
    moves = migrations_in_order(instance, residences)
    _check_moves(memory, moves)
    moved = sum(m.size for m in moves)
    cost = (memory.migration_price or Fraction(0)) * moved
    cost += sum(peaks[bank.name] for bank in memory.banks if bank.peak_counts)
    cost += sum(memory.by_name[home[b.id]].price * b.size for b in instance.buffers)
    return CostBreakdown(peaks, moved, cost)


def _homes(instance: Instance, memory: MemoryMap, residences: Sequence[Residence]) -> dict[str, str]:
    """The bank of every buffer, by id. PlacementError: it may not hold the buffer, or there are several, or none."""
    buffers = {b.id: b for b in instance.buffers}
    home: dict[str, str] = {}
    for r in residences:
        if r.id not in buffers:
            raise PlacementError(f"{r.id} is placed, and the instance has no such buffer.")
        b = buffers[r.id]
        if r.bank not in memory.by_name:
            raise PlacementError(f"{r.id} lies in {r.bank!r}, and there is no such bank.")
        if b.banks and r.bank not in b.banks:
            raise PlacementError(f"{r.id} lies in {r.bank}, and it may only be in {' or '.join(b.banks)}.")
        if memory.by_name[r.bank].read_only and not b.constant:
            raise PlacementError(f"{r.id} lies in {r.bank}, which is read-only, and it is no constant.")
        if home.setdefault(r.id, r.bank) != r.bank:
            raise PlacementError(f"{r.id} lies in {home[r.id]} and in {r.bank}: a buffer keeps its bank.")
    for b in instance.buffers:
        if b.id not in home:
            raise PlacementError(f"{b.id} has no single address at program point {b.lower}.")
    return home


def _bank_peak(
    instance: Instance,
    bank: Bank,
    home: Mapping[str, str],
    residences: Sequence[Residence],
    *,
    within_capacities: bool,
) -> int:
    """The peak of one bank in bytes. PlacementError: what is in it is no placement."""
    inside = tuple(b for b in instance.buffers if home[b.id] == bank.name)
    there = [r for r in residences if r.bank == bank.name]
    if bank.read_only:
        inside, there = _for_ever(instance, bank, inside, there)
    capacity = bank.capacity_bytes if within_capacities else None
    return check_residences(Instance(instance.name, inside), there, capacity)


def _for_ever(
    instance: Instance, bank: Bank, inside: Sequence[Buffer], there: Sequence[Residence]
) -> tuple[tuple[Buffer, ...], list[Residence]]:
    """Buffers of a read-only bank, and where they lie, for the whole program: what is there stays. PlacementError: one moves."""
    first = min((b.lower for b in instance.buffers), default=0)
    last = max((b.upper for b in instance.buffers), default=1)
    alive = {b.id: (b.lower, b.upper) for b in inside}
    if len(there) > len(inside):
        raise PlacementError(f"A buffer moves within {bank.name}, which is read-only.")
    for r in there:
        if (r.lower, r.upper) != alive[r.id]:
            raise PlacementError(f"{r.id} has no single address at program point {alive[r.id][0]}.")
    whole = tuple(replace(b, lower=first, upper=last) for b in inside)
    return whole, [replace(r, lower=first, upper=last) for r in there]


def _check_moves(memory: MemoryMap, moves: Sequence[Migration]) -> None:
    """PlacementError: something moves that may not, or too often."""
    if moves and memory.migration_price is None:
        raise PlacementError(f"{moves[0].id} moves at program point {moves[0].point}, and nothing may move.")
    for name, often in Counter(m.id for m in moves).items():
        if memory.most_moves is not None and often > memory.most_moves:
            raise PlacementError(
                f"{name} moves {counted(often, 'time')}, at most {counted(memory.most_moves, 'time')} allowed."
            )


def migrations_in_order(instance: Instance, residences: Sequence[Residence]) -> list[Migration]:
    """All moves of a placement, by program point and in an order that can be executed. PlacementError: there is none."""
    size = {b.id: b.size for b in instance.buffers}
    by_buffer: dict[str, list[Residence]] = defaultdict(list)
    for r in residences:
        by_buffer[r.id].append(r)
    at_point: dict[int, list[Migration]] = defaultdict(list)
    for name, own in by_buffer.items():
        own.sort(key=lambda r: r.lower)
        for before, after in itertools.pairwise(own):
            if size[name] and before.offset != after.offset:
                move = Migration(after.lower, name, before.offset, after.offset, size[name], after.bank)
                at_point[after.lower].append(move)
    ordered: list[Migration] = []
    for point in sorted(at_point):
        waiting = at_point[point]
        while waiting:
            ready = next((m for m in waiting if not any(o is not m and _writes_over(m, o) for o in waiting)), None)
            if ready is None:
                names = ", ".join(m.id for m in waiting[:8])
                raise PlacementError(f"No order of memmoves executes the moves of {names} at program point {point}.")
            waiting.remove(ready)
            ordered.append(ready)
    return ordered


def _writes_over(move: Migration, other: Migration) -> bool:
    """Whether the move's target covers bytes that the other has not moved yet."""
    return (
        move.bank == other.bank and move.target < other.source + other.size and other.source < move.target + move.size
    )


def _check_disjoint(instance: Instance, residences: Sequence[Residence]) -> None:
    """Sweep over time: the live blocks, sorted by address, must not reach into their successors."""
    size = {b.id: b.size for b in instance.buffers}
    live: list[tuple[int, int, str]] = []  # start, end, id
    ends: list[tuple[int, tuple[int, int, str]]] = []
    for r in sorted((r for r in residences if size[r.id]), key=lambda r: r.lower):
        while ends and ends[0][0] <= r.lower:
            _, gone = heapq.heappop(ends)
            live.pop(bisect_left(live, gone))
        block = (r.offset, r.offset + size[r.id], r.id)
        at = bisect_left(live, block)
        for other in live[max(at - 1, 0) : at + 1]:
            if other[0] < block[1] and block[0] < other[1]:
                raise PlacementError(
                    f"{other[2]} and {r.id} share bytes {max(block[0], other[0])} to {min(block[1], other[1]) - 1} "
                    f"at program point {r.lower}."
                )
        insort(live, block)
        heapq.heappush(ends, (r.upper, block))
