"""The search of placing.c in plain Python, step by step the same: where there is no C compiler, and for the tests."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.fit_result import FitResult, FitStatus
from kilotune.spaces.memory.orders import PlacementOrder

FRAMES_A_BUFFER = 3
"""Calls within one another for each buffer that is placed."""

OffsetAndRank = tuple[int, int]
"""(offset in bytes, rank)."""


def fits_within_reference(buffers: BufferArrays, rank: PlacementOrder, capacity: int, work_limit: int) -> FitResult:
    """See `fitting.fits_within`."""
    search = _ReferenceSearch(buffers, [int(r) for r in rank], capacity, work_limit)
    everything = [int(b) for b in np.argsort(rank)]
    with _room_for_calls(FRAMES_A_BUFFER * len(buffers)):
        status = search.solve(everything, (-1, 0))
    offsets = np.array([search.floor[b] for b in range(len(buffers))], dtype=np.int64)
    least = search.least_peak if math.isfinite(search.least_peak) else np.iinfo(np.int64).max
    return FitResult(status, offsets, int(least), search.nodes, np.array(search.blame, dtype=np.int64))


@contextmanager
def _room_for_calls(frames: int) -> Iterator[None]:
    """So many calls within one another besides those that Python permits: its 1000 are those of some hundreds of buffers."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@dataclass
class _ReferenceSearch:
    buffers: BufferArrays
    rank: list[int]
    capacity: int
    work_limit: int
    work: int = 0
    nodes: int = 0
    least_peak: float = math.inf
    floor: list[int] = field(default_factory=list)  # of a placed buffer: its offset
    waiting: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        n = len(self.buffers)
        begins, ends, count = self.buffers.sections
        self.blame = [0] * count
        self.begins, self.ends = begins.tolist(), ends.tolist()
        self.size, self.alignment = self.buffers.size.tolist(), self.buffers.alignment.tolist()
        self.floor, self.waiting = [0] * n, set(range(n))

    def meets(self, b: int, c: int) -> bool:
        return b != c and bool(self.begins[b] < self.ends[c] and self.begins[c] < self.ends[b])

    def life(self, b: int) -> range:
        return range(self.begins[b], self.ends[b])

    def aligned(self, b: int, address: int) -> int:
        return int(-(-address // self.alignment[b]) * int(self.alignment[b]))

    def cut(self, peak: int, sections: range) -> bool:
        """Whether a branch of at least this peak is cut, and `sections` are to blame."""
        if peak > self.capacity:
            for section in sections:
                self.blame[section] += 1
            self.least_peak = min(self.least_peak, peak)
        return peak > self.capacity

    def solve(self, members: list[int], last: OffsetAndRank) -> FitStatus:
        if not members:
            return FitStatus.FITS
        self.nodes += 1
        self.work += len(members)
        if self.work > self.work_limit:
            return FitStatus.STOPPED
        keys = self.lowest_places(members, last)
        if keys is None or not self.sections_fit(keys):
            return FitStatus.FAILS
        sole = self.sole(keys, last)
        least_top = min(self.floor[b] + self.size[b] for b in members)
        for lowest, rank, b in keys if sole is None else [sole]:
            if self.floor[b] != lowest or (lowest, rank) <= last:
                continue
            if sole is None and lowest >= least_top:
                break
            before = {c: self.floor[c] for c in members if self.meets(b, c)}
            status = self.solve_above(b, keys, before, (lowest, rank) if sole is None else last)
            if status is not FitStatus.FAILS:
                return status
            self.waiting.update(members)
            for c, floor in before.items():
                self.floor[c] = floor
            if not before or sole is not None:
                break
        return FitStatus.FAILS

    def lowest_places(self, members: list[int], last: OffsetAndRank) -> list[tuple[int, int, int]] | None:
        """(lowest offset, rank, buffer) of all, in order; None where one of them has no place any more."""
        is_open = {b: (self.floor[b], self.rank[b]) > last for b in members}
        least_open_top = min((self.floor[b] + self.size[b] for b in members if is_open[b]), default=None)
        if least_open_top is None:
            return None
        keys: list[tuple[int, int, int]] = []
        for b in members:
            lowest = self.floor[b] if is_open[b] else self.waiting_floor(b, last, least_open_top)
            if self.cut(lowest + self.size[b], self.life(b)):
                return None
            keys.append((lowest, self.rank[b], b))
        return sorted(keys)

    def solve_above(
        self, b: int, keys: list[tuple[int, int, int]], before: dict[int, int], last: OffsetAndRank
    ) -> FitStatus:
        """With `b` on its floor. `before`: the floors of its neighbours."""
        self.waiting.remove(b)
        if not self.raise_neighbours(b, before):
            return FitStatus.FAILS
        return self.solve_parts([c for _, _, c in keys if c != b], last)

    def waiting_floor(self, b: int, last: OffsetAndRank, least_open_top: int) -> int:
        tops = []
        for c in self.waiting:
            if self.meets(b, c):
                is_open = (self.floor[c], self.rank[c]) > last
                tops.append((self.floor[c] if is_open else max(self.floor[c], least_open_top)) + self.size[c])
        return self.aligned(b, min(tops)) if tops else self.capacity

    def sections_fit(self, keys: list[tuple[int, int, int]]) -> bool:
        lowest_of: dict[int, int] = {}
        total: dict[int, int] = {}
        for lowest, _, b in keys:
            for section in range(self.begins[b], self.ends[b]):
                lowest_of.setdefault(section, lowest)
                total[section] = total.get(section, 0) + self.size[b]
        return not any(self.cut(lowest_of[s] + total[s], range(s, s + 1)) for s in total)

    def sole(self, keys: list[tuple[int, int, int]], last: OffsetAndRank) -> tuple[int, int, int] | None:
        """A buffer that no other one can want to be below: the rest stays above its top anyway."""
        for key in keys:
            lowest, rank, b = key
            if self.floor[b] != lowest or (lowest, rank) <= last:
                continue
            if all(other >= lowest + self.size[b] for other, _, c in keys if self.meets(b, c)):
                return key
        return None

    def raise_neighbours(self, b: int, neighbours: dict[int, int]) -> bool:
        fits = True
        for c, floor in neighbours.items():
            self.floor[c] = max(floor, self.aligned(c, self.floor[b] + self.size[b]))
            fits = not self.cut(self.floor[c] + self.size[c], self.life(c)) and fits
        return fits

    def solve_parts(self, rest: list[int], last: OffsetAndRank) -> FitStatus:
        """`rest`, cut where none of it crosses any more."""
        saved = {c: self.floor[c] for c in rest}
        rest_by_begin = sorted(rest, key=lambda c: self.begins[c])
        parts: list[list[int]] = []
        reach = -1
        for c in rest_by_begin:
            if self.begins[c] >= reach:
                parts.append([])
            parts[-1].append(c)
            reach = max(reach, self.ends[c])
        for part in sorted(parts, key=len):
            wanted = set(part)
            status = self.solve([c for c in rest if c in wanted], last)
            if status is not FitStatus.FITS:
                self.floor = [saved.get(c, floor) for c, floor in enumerate(self.floor)]
                return status
        return FitStatus.FITS
