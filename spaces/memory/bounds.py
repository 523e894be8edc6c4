"""What no placement can beat: the largest sum of live sizes, with the buffers that prove it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

import numpy as np

from kilotune.codegen.counts import counted
from kilotune.spaces.memory.instance import Buffer, Instance

NAMED_BUFFERS = 8
"""How many buffers of a clique a message lists."""


@dataclass(frozen=True)
class LiveSum:
    """What a bound rests on: at program point `point` all of `buffers` are live, and take `peak_bytes` together.

    Where all of them are aligned to multiples of some number, their sizes but one are rounded up to it.
    """

    peak_bytes: int
    point: int
    buffers: tuple[Buffer, ...]

    def sentence(self) -> str:
        """For a user whose capacity is smaller."""
        if not self.buffers:
            return "no buffer takes any byte"
        largest = sorted(self.buffers, key=lambda b: -b.size)
        named = ", ".join(f"{b.id} ({b.size})" for b in largest[:NAMED_BUFFERS])
        others = f" and {len(largest) - NAMED_BUFFERS} more" if len(largest) > NAMED_BUFFERS else ""
        live = (
            f"buffer {named} is live"
            if len(largest) == 1
            else f"{len(largest)} buffers {named}{others} are live together"
        )
        return f"at program point {self.point} the {live} and take{'s' if len(largest) == 1 else ''} {counted(self.peak_bytes, 'byte')}"


def largest_live_sum(instance: Instance) -> LiveSum:
    """The bound, in O(n log n). Without buffers it is 0 bytes at point 0."""
    best, point = _sweep(instance.buffers)
    live = tuple(b for b in instance.buffers if b.lower <= point < b.upper and b.size)
    unaligned = LiveSum(best, point, live)
    step = reduce(gcd, (b.alignment for b in instance.buffers if b.size), 0)
    if step <= 1:
        return unaligned
    # Every offset is a multiple of `step`, so all but the topmost buffer take whole steps: sum of the rounded sizes,
    # less what the rounding added to the buffer that may lie on top.
    aligned, at = _aligned_sweep(instance.buffers, step)
    live = tuple(b for b in instance.buffers if b.lower <= at < b.upper and b.size)
    return max(unaligned, LiveSum(aligned, at, live), key=lambda found: found.peak_bytes)


def _aligned_sweep(buffers: Sequence[Buffer], step: int) -> tuple[int, int]:
    """The largest sum of sizes that are rounded up to `step`, less the largest rounding among them, and the first point that has it."""
    ends = sorted((b.upper, -(-b.size // step) * step) for b in buffers)
    roundings: list[tuple[int, int]] = []  # of what is live, largest first, and until when it is
    best = total = point = ended = 0
    for b in sorted(buffers, key=lambda b: b.lower):
        while ends[ended][0] <= b.lower:
            total -= ends[ended][1]
            ended += 1
        if b.size:
            heapq.heappush(roundings, (-(-b.size % step), b.upper))
        total += -(-b.size // step) * step
        while roundings and roundings[0][1] <= b.lower:
            heapq.heappop(roundings)
        if roundings and total + roundings[0][0] > best:
            best, point = total + roundings[0][0], b.lower
    return best, point


def _sweep(buffers: Sequence[Buffer]) -> tuple[int, int]:
    """The largest sum and the first point that has it."""
    columns = np.array([(b.lower, b.upper, b.size) for b in buffers], dtype=np.int64).reshape(-1, 3)
    lower, upper, size = columns.T
    points, changes = np.concatenate([lower, upper]), np.concatenate([size, -size])
    order = np.lexsort((changes, points))  # what ends at a point (negative) goes before what begins there
    totals = np.cumsum(changes[order])
    best = int(totals.argmax()) if totals.size else 0
    return (int(totals[best]), int(points[order[best]])) if totals.size and totals[best] > 0 else (0, 0)
