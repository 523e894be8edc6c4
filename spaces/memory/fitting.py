"""Does a connected set of buffers fit within a capacity? Branch and bound, after MiniMalloc (Moffitt, ASPLOS 2023).

Among all placements that fit, one with the least sum of offsets is looked for: each buffer rests on the floor or on another
one (canonical offsets), and buffers are placed in ascending order of (offset, rank), so that each placement is met once. What is cut:

- monotonic floor: what waits goes no lower than what was placed last; a buffer that was passed over waits for a neighbour
  to rest on, so it goes above the lowest of its neighbours' tops;
- unallocated floor: in every section, all that waits must fit above the lowest floor of what waits there;
- dominance: no buffer is placed where another one would fit below it whole; and a buffer that all its neighbours stay
  above anyway is put on its floor without an alternative;
- hatless buffers: where nothing waits above the buffer just placed, a failure is not its fault;
- sections solved apart: where no waiting buffer crosses, the parts are searched by themselves.

A search that fails within its limit says the least peak at which something was cut: a bound for the next question.
"""

from __future__ import annotations

import math

import numpy as np

from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.fit_result import FitResult, FitStatus
from kilotune.spaces.memory.native import UNLIMITED_NS, load_kernel
from kilotune.spaces.memory.orders import PlacementOrder
from kilotune.spaces.memory.reference_search import fits_within_reference

LONGEST_S = 1e8
KEY_BITS = 62
"""What a capacity and the number of buffers may take together: placing.c orders by both in one integer."""

QUICK_WORK = 10_000_000
"""Buffers looked at, in some hundredths of a second; a longer question can be ended from outside."""


def fits_within(
    buffers: BufferArrays, rank: PlacementOrder, capacity: int, work_limit: int, seconds: float = math.inf
) -> FitResult:
    """Ask the compiled search, or the plain one where there is no compiler. Sizes must be positive. After `seconds` the
    compiled one stops; the plain one only knows its work limit. STOPPED at once where the capacity is too large for the compiled one:
    `2**KEY_BITS` bytes, divided by a power of two that is no less than the buffers are."""
    kernel = load_kernel()
    if kernel is None:
        return fits_within_reference(buffers, rank, capacity, work_limit)
    begins, ends, count = buffers.sections
    rank = np.ascontiguousarray(rank, dtype=np.int32)
    offsets, report = np.zeros(len(buffers), dtype=np.int64), np.zeros(2, dtype=np.int64)
    blame = np.zeros(count, dtype=np.int64)
    if capacity >= 1 << KEY_BITS - (len(buffers) - 1).bit_length():
        return FitResult(FitStatus.STOPPED, offsets, np.iinfo(np.int64).max, 0, blame)
    columns = (begins, ends, buffers.size, buffers.alignment, rank)
    flag = StopFlag()
    limit_ns = int(max(seconds, 0.0) * 1e9) if seconds < LONGEST_S else UNLIMITED_NS
    given = tuple(column.ctypes.data for column in columns)
    found = tuple(column.ctypes.data for column in (offsets, blame, report))

    def call() -> int:
        return int(
            kernel.kilotune_search(len(buffers), count, *given, capacity, work_limit, limit_ns, *found, flag.address)
        )

    # A thread takes longer to start than most questions to answer.
    status = call() if work_limit <= QUICK_WORK else interruptible(call, flag.set)
    if status == FitStatus.NO_MEMORY:
        raise MemoryError("The exact search ran out of memory.")
    return FitResult(FitStatus(status), offsets, int(report[1]), int(report[0]), blame)
