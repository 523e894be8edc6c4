"""What no placement can beat: the largest sum of live sizes, with the buffers that prove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd

from kilotune.spaces.memory.instance import Buffer, Instance

NAMED_BUFFERS = 8
"""How many buffers of a clique a message lists."""


@dataclass(frozen=True)
class LiveSum:
    """The certificate of a bound: at program point `point` all of `buffers` are live, and take `peak_bytes` together.

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
        return f"at program point {self.point} the {live} and take{'s' if len(largest) == 1 else ''} {self.peak_bytes} bytes"


def largest_live_sum(instance: Instance) -> LiveSum:
    """The bound, in O(n log n). Without buffers it is 0 bytes at point 0."""
    best, point = _sweep(instance.buffers, [b.size for b in instance.buffers])
    live = tuple(b for b in instance.buffers if b.lower <= point < b.upper and b.size)
    unaligned = LiveSum(best, point, live)
    step = reduce(gcd, (b.alignment for b in instance.buffers if b.size), 0)
    if step <= 1:
        return unaligned
    # Every offset is a multiple of `step`, so all but the topmost buffer take whole steps: sum of the rounded sizes,
    # less what the rounding added to the buffer that may lie on top.
    rounded = [-(-b.size // step) * step for b in instance.buffers]
    total, aligned_point = _sweep(instance.buffers, rounded)
    aligned_live = tuple(b for b in instance.buffers if b.lower <= aligned_point < b.upper and b.size)
    slack = max((-b.size % step for b in aligned_live), default=0)
    return max(unaligned, LiveSum(total - slack, aligned_point, aligned_live), key=lambda found: found.peak_bytes)


def _sweep(buffers: Sequence[Buffer], sizes: Sequence[int]) -> tuple[int, int]:
    """The largest sum and the first point that has it."""
    events = [(b.lower, size) for b, size in zip(buffers, sizes, strict=True)]
    events += [(b.upper, -size) for b, size in zip(buffers, sizes, strict=True)]
    events.sort()  # what ends at a point (negative) goes before what begins there
    best = total = point = 0
    for at, change in events:
        total += change
        if total > best:
            best, point = total, at
    return best, point
