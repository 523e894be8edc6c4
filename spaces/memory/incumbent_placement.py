"""The exact search of `spaces.memory.exact` with a limit of its own instead of the clock's: the same answer every time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.search_note import work_of


@dataclass(frozen=True)
class IncumbentPlacement:
    """Offsets in bytes, their peak, and a peak that no placement of these rectangles beats. `work`: in buffers looked at."""

    offsets: IntArray
    peak_bytes: int
    bound_bytes: int
    work: int = 0

    def fits(self, capacity: int | None) -> bool:
        """Whether the question is answered with a placement: within the capacity, or of the least peak."""
        return self.peak_bytes <= (self.bound_bytes if capacity is None else capacity)

    def refuted(self, capacity: int | None) -> bool:
        """Whether no placement is within the capacity."""
        return capacity is not None and self.bound_bytes > capacity


def best_within(
    arrays: BufferArrays,
    capacity: int | None,
    questions: int,
    work_unit: int | None = None,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> IncumbentPlacement:
    """The best placement after at most so many questions, or when no seconds are left; it may stop before the least peak is
    proved."""
    live = int(arrays.section_bytes.max(initial=0))
    standings = minimise_peak(arrays, live, capacity, seconds_left=seconds_left, work_unit=work_unit)
    standing = next(standings)
    for _ in range(questions):
        if standing.done or seconds_left() <= 0.0:
            break
        following = next(standings, None)
        if following is None:
            break
        standing = following
    return IncumbentPlacement(standing.offsets, standing.peak_bytes, standing.bound_bytes, work_of(standing.progress))
