"""How many bytes are live at each program point, and up to which address memory is in use."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.checker import Residence


@dataclass(frozen=True)
class StepFunction:
    """`values[i]` holds from `points[i]` until before `points[i + 1]`; the last one is 0. Both of the same length, ascending."""

    points: IntArray
    values: IntArray

    @property
    def largest(self) -> int:
        """0 for a function without points."""
        return int(self.values.max(initial=0))


def live_bytes(size: Mapping[str, int], residences: Sequence[Residence]) -> StepFunction:
    """The sum of the sizes of what is live."""
    change: dict[int, int] = {}
    for r in residences:
        change[r.lower] = change.get(r.lower, 0) + size[r.id]
        change[r.upper] = change.get(r.upper, 0) - size[r.id]
    points = sorted(change)
    return StepFunction(_integers(points), np.cumsum(_integers([change[p] for p in points])))


def used_bytes(size: Mapping[str, int], residences: Sequence[Residence]) -> StepFunction:
    """One past the highest used address, added up over banks."""
    banks = dict.fromkeys(r.bank for r in residences)
    parts = [_extent(size, [r for r in residences if r.bank == bank]) for bank in banks]
    points = np.unique(np.concatenate([part.points for part in parts])) if parts else _integers([])
    total = np.zeros(len(points), dtype=np.int64)
    for part in parts:
        at = np.searchsorted(part.points, points, side="right") - 1
        total += np.where(at >= 0, part.values[np.maximum(at, 0)], 0)
    return StepFunction(points, total)


def _extent(size: Mapping[str, int], residences: Sequence[Residence]) -> StepFunction:
    """The largest end of what is live in one bank, over time."""
    points = sorted({r.lower for r in residences} | {r.upper for r in residences})
    waiting = sorted(residences, key=lambda r: r.lower)
    live: list[tuple[int, int]] = []  # end of the block, negative; upper
    values, following = [], 0
    for point in points:
        while following < len(waiting) and waiting[following].lower <= point:
            r = waiting[following]
            heapq.heappush(live, (-r.offset - size[r.id], r.upper))
            following += 1
        while live and live[0][1] <= point:
            heapq.heappop(live)
        values.append(-live[0][0] if live else 0)
    return StepFunction(_integers(points), _integers(values))


def _integers(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
