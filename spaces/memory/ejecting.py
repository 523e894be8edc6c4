"""Local search for instances that are too large to be searched exactly: guided ejection.

Given a placement and a capacity below its peak, what reaches above the capacity is taken out and put back where the least
weight of other buffers has to make way; these are put back in turn (Nagata and Braysy 2009 do so with routes of vehicles).
A buffer weighs its size times its life, times how often it could not be put back without ejecting others. The capacity asked
for is a share of the way from the best peak to the goal, smaller after every failure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.native import UNLIMITED_NS, load_ejection

LONGEST_S = 1e8
WORK = 20_000_000
"""Looks at edges of neighbours in one step, sorting them included; some nanoseconds each."""

LARGEST_SHARE, SMALLEST_SHARE = 0.1, 0.004
"""The largest and the smallest share of the way to the goal that one step aims at."""

AFTER_SUCCESS, AFTER_FAILURE = 1.2, 0.7

WEIGHT_UNIT = 100
"""What a buffer of average size and life weighs."""


class Ejection:
    """The search of one connected set of buffers, of positive sizes. MemoryError when its lists do not fit."""

    def __init__(self, buffers: BufferArrays, seed: int, work: int = WORK) -> None:
        self._buffers, self._work = buffers, work
        self._share = LARGEST_SHARE
        count = len(buffers)
        self._start = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(buffers.conflicts, out=self._start[1:])
        self._neighbours: npt.NDArray[np.int32] = np.zeros(int(self._start[-1]) + 1, dtype=np.int32)
        self._worth = np.maximum(np.round(WEIGHT_UNIT * buffers.area / buffers.area.mean()), 1).astype(np.int64)
        self._random = np.array([(seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D) % (1 << 64) or 1], dtype=np.uint64)
        kernel = load_ejection()
        if kernel is not None:
            columns = (buffers.lower, buffers.upper, self._start, self._neighbours)
            kernel.kilotune_neighbours(count, *(column.ctypes.data for column in columns))

    def improve(self, offsets: IntArray, goal_bytes: int, seconds: float) -> IntArray | None:
        """A lower placement than this one, or None: not found within the step's work, or `seconds`."""
        kernel = load_ejection()
        buffers = self._buffers
        peak = int((offsets + buffers.size).max())
        if kernel is None or peak <= goal_bytes:
            return None
        target = max(goal_bytes, min(peak - 1, peak - round((peak - goal_bytes) * self._share)))
        target = max(target, int(buffers.size.max()))
        lowered, penalty = offsets.copy(), np.ones(len(buffers), dtype=np.int64)
        columns = (buffers.size, buffers.alignment, self._start, self._neighbours, self._worth)
        flag = StopFlag()
        limit_ns = int(max(seconds, 0.0) * 1e9) if seconds < LONGEST_S else UNLIMITED_NS
        given = tuple(column.ctypes.data for column in columns)
        changed = tuple(column.ctypes.data for column in (self._random, lowered, penalty))

        def call() -> int:
            return int(
                kernel.kilotune_eject(len(buffers), *given, target, self._work, limit_ns, *changed, flag.address)
            )

        status = interruptible(call, flag.set)
        if status == 0 and target < peak:
            self._share = min(self._share * AFTER_SUCCESS, LARGEST_SHARE)
            return lowered
        if status not in (0, 2):
            raise MemoryError("The placement of buffers ran out of memory.")
        self._share = max(self._share * AFTER_FAILURE, SMALLEST_SHARE)
        return None
