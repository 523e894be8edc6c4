"""Lower placements by way of buffers that overlap: guided local search in a memory that is lower than the best placement.

What reaches above the new capacity is pushed below it, onto others. Buffers that overlap then move one after the other, each to where it
overlaps the others least; bytes that two share count as often as the two have overlapped so far, and more where they are live together
for long (fast neighbourhood search for packing, Egeblad, Nielsen and Odgaard 2007; a strip's, Umetani et al. 2009). Many small overlaps
so push aside what lies around them, and room that is scattered over many gaps comes together; in `spaces.memory.ejecting`, each overlap
throws a whole buffer out. When no buffer overlaps any more, all fall (`spaces.memory.falling`), and a lower capacity is asked for.

What does not come apart soon mostly never does: then the search begins again from the best placement, with other random numbers, or from
another one that is not much higher: how low it comes depends on who lies beside whom in the first place.
"""

from __future__ import annotations

import ctypes
from functools import cache, reduce
from math import gcd
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.capacity_question import luby
from kilotune.spaces.memory.falling import fallen
from kilotune.spaces.memory.native import UNLIMITED_NS, load_ejection

LONGEST_S = 1e8
LOOKS_A_BUFFER = 200_000
"""Looks at edges for each buffer, after which the search begins again; some nanoseconds each. Multiplied as `luby` says."""

MOST_LOOKS = 2_000_000_000
"""Looks of all buffers together, after which it begins again."""

SHARES = (1 / 16, 1 / 32, 1 / 8)
"""Shares of the way to the goal that are asked for in turns."""

FAR_ABOVE = 2.0
"""So many times as far above the goal as the best placement, others are not begun from."""

ATTEMPTS = 2
"""In vain, after which one that is not the best is given up."""

LIFE_POWER, WEIGHT_UNIT = 1.5, 4.0
"""A byte in which two overlap counts so often for each of this power of the sections at which both live."""

MOST_UNITS = 1 << 28
"""The largest live sum, in units of which all sizes are multiples, above which it is not tried: sums have 63 bits, addresses 32."""

MOST_SECTIONS = 300
"""Sections that count of those at which a pair is live together, for the same reason."""

MOST_PAIRS = 4_000_000
"""That are live together, each counted from both, above which it is not tried: what weighs them takes forty bytes each for a moment."""

ADDRESS_BITS = 32

(_KernelProblem,) = structures(Path(__file__).with_name("separating.c"), "SeparationProblem")


@cache
def load_separation() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("separating.c"))
    if loaded is None:
        return None
    library, pointer = loaded.library, ctypes.c_void_p
    library.kilotune_separate.argtypes = [ctypes.POINTER(_KernelProblem), *[pointer] * 3]
    library.kilotune_separate.restype = ctypes.c_int
    return library


def unit_of(buffers: BufferArrays) -> int:
    """Bytes. Placements at multiples of it are as low as any."""
    unit: int = reduce(gcd, buffers.size.tolist())
    with_alignments: int = reduce(gcd, buffers.alignment.tolist(), unit)
    return with_alignments if (unit % buffers.alignment).any() else unit


def is_separable(buffers: BufferArrays) -> bool:
    """Whether the search is for these, of positive sizes: sums must have room, and pairs memory."""
    has_room = int(buffers.section_bytes.max()) // unit_of(buffers) <= MOST_UNITS
    return has_room and int(buffers.conflicts.sum()) <= MOST_PAIRS


class SeparationSearch:
    """The search of one connected set of buffers, of positive sizes; it needs `load_separation()`, and `load_ejection()` for who is live
    together."""

    def __init__(self, buffers: BufferArrays, seed: int) -> None:
        self.spent = 0
        """Work so far, in edges looked at."""
        self._buffers = buffers
        self._tried = 0  # attempts in vain since the last placement was found
        self._other: IntArray | None = None
        self._tried_other = 0
        self._unit = unit_of(buffers)
        count = len(buffers)
        self._start = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(buffers.conflicts, out=self._start[1:])
        self._neighbours: npt.NDArray[np.int32] = np.zeros(int(self._start[-1]) + 1, dtype=np.int32)
        self._random = np.array([(seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D) % (1 << 64) or 1], dtype=np.uint64)
        kernel = load_ejection()
        assert kernel is not None
        columns = (buffers.lower, buffers.upper, self._start, self._neighbours)
        kernel.kilotune_neighbours(count, *(column.ctypes.data for column in columns))
        self._together = self._weights()

    def suggest(self, offsets: IntArray) -> None:
        """A placement that is not the best one, from which the search may come lower than from that; bytes, shape (buffers,)."""
        if self._other is None or self._peak(offsets) < self._peak(self._other):
            self._other, self._tried_other = offsets, 0

    def improve(self, offsets: IntArray, goal_bytes: int, seconds: float) -> IntArray | None:
        """A lower placement than this one, or None: not found within the looks of this attempt, or `seconds`. Raises `MemoryError`."""
        if self._other is not None and self._peak(self._other) - goal_bytes < FAR_ABOVE * (
            self._peak(offsets) - goal_bytes
        ):
            return self._lowered_other(self._other, offsets, goal_bytes, seconds)
        found = self._lower(offsets, goal_bytes, self._tried, seconds)
        self._tried = self._tried + 1 if found is None else 0
        return found

    def _lowered_other(self, other: IntArray, offsets: IntArray, goal_bytes: int, seconds: float) -> IntArray | None:
        """The placement that was suggested, lowered; None: it is not below the best one yet, or is given up."""
        found = self._lower(other, goal_bytes, self._tried_other, seconds)
        self._tried_other = self._tried_other + 1 if found is None else 0
        if found is not None and self._peak(found) >= self._peak(offsets):
            self._other = found
            return None
        if found is not None or self._tried_other >= ATTEMPTS:
            self._other = None
        return found

    def _lower(self, offsets: IntArray, goal_bytes: int, tried: int, seconds: float) -> IntArray | None:
        peak = self._peak(offsets)
        share = SHARES[tried % len(SHARES)]
        target = max(
            goal_bytes, int(self._buffers.size.max()), min(peak - 1, peak - round((peak - goal_bytes) * share))
        )
        if target >= peak or peak // self._unit >= 1 << ADDRESS_BITS:
            self.spent += self._work_of_a_fall
            return None
        looks = min(LOOKS_A_BUFFER * len(self._buffers) * luby(tried + 1), MOST_LOOKS)
        found = self._separated(offsets, target - target % self._unit, looks, seconds)
        if found is None:
            return None
        self.spent += self._work_of_a_fall
        return fallen(self._buffers, found)

    def _peak(self, offsets: IntArray) -> int:
        return int((offsets + self._buffers.size).max())

    def _weights(self) -> npt.NDArray[np.int32]:
        """What an overlapping byte of each pair costs."""
        begins, ends, _ = self._buffers.sections
        first = np.repeat(np.arange(len(self._buffers)), np.diff(self._start))
        second = self._neighbours[:-1]
        together = np.minimum(ends[first], ends[second]) - np.maximum(begins[first], begins[second])
        weights = np.rint(WEIGHT_UNIT * np.minimum(together, MOST_SECTIONS) ** LIFE_POWER)
        return np.append(weights, 0).astype(np.int32)

    def _separated(self, offsets: IntArray, capacity: int, looks: int, seconds: float) -> IntArray | None:
        library = load_separation()
        assert library is not None
        buffers, unit = self._buffers, self._unit
        limit_ns = int(max(seconds, 0.0) * 1e9) if seconds < LONGEST_S else UNLIMITED_NS
        alignment = buffers.alignment // np.gcd(buffers.alignment, unit)
        columns = (buffers.size // unit, alignment, self._start, self._neighbours, self._together)
        flag = StopFlag()
        addresses = (column.ctypes.data for column in columns)
        problem = _KernelProblem(len(buffers), *addresses, capacity // unit, looks, limit_ns, flag.address)
        moved, taken = offsets // unit, np.zeros(1, dtype=np.int64)
        changed = (moved.ctypes.data, self._random.ctypes.data, taken.ctypes.data)
        status = interruptible(lambda: int(library.kilotune_separate(ctypes.byref(problem), *changed)), flag.set)
        self.spent += int(taken[0])
        if status not in (0, 2):
            raise MemoryError("The placement of buffers ran out of memory.")
        return moved * unit if status == 0 else None

    @property
    def _work_of_a_fall(self) -> int:
        return len(self._buffers) * 500
