"""Is a placement one? Written against the definition, with nothing from the solvers: it is run on all that they return.

A residence is a stretch of a buffer's life at one address. A placement without migrations has one residence a buffer;
with migrations, the residences of a buffer cover its live range without gap or overlap.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.spaces.memory.instance import Instance, Placement


@dataclass(frozen=True)
class Residence:
    """Buffer `id` is at `offset` (bytes) in the half-open range [lower, upper) of program points."""

    id: str
    lower: int
    upper: int
    offset: int


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
    """The same where buffers may move."""
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
    return peak_bytes


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
