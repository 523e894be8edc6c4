"""Placements from below over few points of time: of the choices that `spaces.memory.skyline` takes once, a beam search follows several.

Where there are few points, many buffers live equally long or nearly so, and what fills a gap between two others is a matter of sizes. A
state is a placement of some buffers from below. Its lowest valley gets one of the buffers that are live within it, or rises to its lower
neighbour; what is left beside the buffer, and holds nothing that waits, rises too. Of all that follows so from a number of states, the best
ones are the next states (beam search, Lowerre 1976; for strip packing Bortfeldt and Jungmann 2012): twice as many as are kept are made, and
the filter is what each must leave unused in its valleys, which all that waits and is live within them cannot fill (filtered beam search, Ow
and Morton 1988).

A state is worth the credits of what it has placed less what it leaves unused. A byte left unused counts the more, the higher its section
will reach when all of it is placed, and no section may reach as high as the peaks that are kept. Large buffers and long lives have more
credit than their bytes: they would lie unevenly at the end.

Credits have noise, so that it is a search: a placement begins from what lies below some height of one of the best so far, or from nothing.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.native import UNLIMITED_NS

LONGEST_S = 1e8
MOST_SECTIONS = 300
"""Sections above which it is not tried: each state has a height of each."""

FEWEST_AT_A_SECTION = 8
"""Buffers for each section below which it is not tried: of fewer, gluing finds out who lay beside whom."""

MOST_BUFFERS = 20_000
"""Buffers above which it is not tried: a placement would take seconds."""

WIDTH, LOOKED_AHEAD, CHILDREN, RAISES = 40, 80, 3, 1
"""States at a time; children that are looked at for them; buffers tried for a valley;
how many valleys of a state may rise though something fits in."""

STEEPNESS = 50.0
"""A byte left unused counts exp(STEEPNESS * s) in a section that will reach a share s above the largest live sum."""

CREDIT, LIFE_POWER, NOISE = 0.1, 1.5, 0.1
"""A buffer's credit is that share of its bytes times this power of its sections, with noise of this spread on its logarithm."""

KEPT_PLACEMENTS = 4
"""The best placements, one of which the next one begins from."""

PATIENCE = 200
"""Placements in a row none of which is kept, after which all that is kept is forgotten: it is much alike."""

FRESH_SHARE = 0.2
"""The share of placements that begin from nothing."""

LEAST_KEPT = 0.5
"""The least share of a placement's height below which buffers stay where they are."""

(_KernelProblem,) = structures(Path(__file__).with_name("skyline_beam.c"), "BeamProblem")


@cache
def load_beam() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("skyline_beam.c"))
    if loaded is None:
        return None
    library, pointer = loaded.library, ctypes.c_void_p
    library.kilotune_beam.argtypes = [ctypes.POINTER(_KernelProblem), pointer, pointer]
    library.kilotune_beam.restype = ctypes.c_int
    return library


def has_few_points(buffers: BufferArrays) -> bool:
    """Whether the search is for these."""
    sections = buffers.sections[2]
    return len(buffers) <= MOST_BUFFERS and sections <= min(MOST_SECTIONS, len(buffers) // FEWEST_AT_A_SECTION)


@dataclass(frozen=True)
class _KeptPlacement:
    peak: int
    offsets: IntArray


class BeamSearch:
    """The search of buffers of positive sizes; it needs `load_beam()`."""

    def __init__(self, buffers: BufferArrays, seed: int) -> None:
        self.spent = 0
        """Work so far, in buffers and sections looked at."""
        self._buffers = buffers
        self._random = np.random.default_rng(seed)
        begins, ends, _ = buffers.sections
        self._order = np.argsort(begins, kind="stable")
        self._credit: FloatArray = CREDIT * buffers.size * (ends - begins).astype(np.float64) ** LIFE_POWER
        self._kept: list[_KeptPlacement] = []
        self._in_vain = 0  # placements in a row that were not kept
        self._least = math.inf  # peak of all that were

    def placement(self, best: IntArray, seconds: float = math.inf) -> IntArray | None:
        """The next placement, where the best one so far is this one; bytes, shape (buffers,) each. None: it would be higher than all that
        are kept, or was not done after `seconds`. Raises `MemoryError`."""
        peak = self._peak(best)
        if peak < self._least < math.inf:
            self._keep(best)  # others lowered it
        offsets = self._placed(self._beginning(), self._capacity(peak), seconds)
        self._in_vain += 1
        if offsets is not None:
            self._keep(offsets)
        elif self._in_vain >= PATIENCE:
            self._kept, self._in_vain = [], 0
        return offsets

    def _keep(self, offsets: IntArray) -> None:
        found = _KeptPlacement(self._peak(offsets), offsets)
        self._in_vain, self._least = 0, min(self._least, found.peak)
        self._kept = sorted([*self._kept, found], key=lambda kept: kept.peak)[:KEPT_PLACEMENTS]

    def _peak(self, offsets: IntArray) -> int:
        return int((offsets + self._buffers.size).max())

    def _capacity(self, peak_bytes: int) -> int:
        """Below the highest of what is kept; at first twice as high as the best placement of others."""
        return self._kept[-1].peak - 1 if len(self._kept) == KEPT_PLACEMENTS else 2 * peak_bytes

    def _beginning(self) -> IntArray:
        """The offsets from which a placement begins; -1: the buffer waits."""
        count = len(self._buffers)
        if not self._kept or self._random.random() < FRESH_SHARE:
            return np.full(count, -1)
        kept = self._kept[int(self._random.integers(len(self._kept)))]
        height = self._random.uniform(LEAST_KEPT, 1.0) * kept.peak
        return np.where(kept.offsets < height, kept.offsets, -1)

    def _placed(self, beginning: IntArray, capacity: int, seconds: float) -> IntArray | None:
        library = load_beam()
        assert library is not None
        buffers, order = self._buffers, self._order
        begins, ends, count = buffers.sections
        credit = self._credit * np.exp(NOISE * self._random.standard_normal(len(buffers)))
        live = np.ascontiguousarray(buffers.section_bytes)
        sorted_ones = (begins, ends, buffers.size, buffers.alignment, beginning, credit)
        columns = [np.ascontiguousarray(column[order]) for column in sorted_ones]
        flag = StopFlag()
        limit_ns = int(max(seconds, 0.0) * 1e9) if seconds < LONGEST_S else UNLIMITED_NS
        limits = (STEEPNESS, int(live.max()), capacity, WIDTH, LOOKED_AHEAD, CHILDREN, RAISES, limit_ns, flag.address)
        addresses = (column.ctypes.data for column in columns)
        problem = _KernelProblem(len(buffers), count, live.ctypes.data, *addresses, *limits)
        found, looks = np.zeros(len(buffers), dtype=np.int64), np.zeros(1, dtype=np.int64)
        status = interruptible(
            lambda: int(library.kilotune_beam(ctypes.byref(problem), found.ctypes.data, looks.ctypes.data)), flag.set
        )
        self.spent += int(looks[0])
        if status not in (0, 1, 2):
            raise MemoryError("The placement of buffers ran out of memory.")
        if status != 0:
            return None
        offsets = np.zeros(len(buffers), dtype=np.int64)
        offsets[order] = found
        return offsets
