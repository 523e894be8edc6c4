"""Placements from below, one after the other, each a variation of the best one so far.

The skyline heuristic of strip packing (Burke, Kendall and Whitwell 2004; for buffers of neural networks Sekiyama, Imai, Negishi and
Kawachiya 2018): the lowest stretch between higher neighbours gets one of the buffers that are live within it, and rises to its lower
neighbour when there is none. Here the buffer is the one of most worth (its life and size, with noise) less what it leaves unused at its
sides; a byte left unused counts the weight of its section, and sections weigh more the nearer their live sum is to the largest one.

The noise makes it a search: what lies below some height of the best placement keeps its noise, and so mostly its place; the others get
new noise. A fifth of the placements begin from nothing.

A placement takes n log n steps and memory in proportion to n, so this is the search where there are too many buffers for lists of which
conflict.
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
QUICK_BUFFERS = 5_000
"""So many are placed within some hundredths of a second, about what a thread takes to start."""

WORK_OF_A_BUFFER = 50
"""What placing one takes beside the looks at candidates, in such looks; some nanoseconds each."""

FIRST_LOOKS, LATER_LOOKS = 64, (1024, 256, 4096)
"""Buffers that are compared for a place in the first placement, and in later ones, in turns: which number does best hangs on the
buffers, and the variations of the best placement keep it."""

STEEPNESS = 20.0
"""A section whose live sum is a share s below the largest one weighs exp(-STEEPNESS * s)."""

LEAST_LOG_WEIGHT = -12.0

SIZE_POWER = 0.5
"""A buffer's worth is its weighed life times this power of its size."""

FRESH_SHARE = 0.2
"""The share of placements that begin from nothing."""

LEAST_KEPT = 0.3
"""The least share of the best placement's height below which noise is kept."""


@dataclass(frozen=True)
class SkylineRule:
    """What counts beside the logarithm of a buffer's worth: `waste` is taken off for as many unused weighed bytes as it has itself, `flush`
    is added for an end of its life that is one of the valley's. `noise` is the spread of the logarithm of worth."""

    waste: float
    flush: float
    noise: float


RULES = (SkylineRule(30.0, 0.0, 0.1), SkylineRule(3.0, 1.0, 0.5))
"""For buffers at random, and for those that once filled a memory."""

(_KernelProblem,) = structures(Path(__file__).with_name("skyline.c"), "SkylineProblem")


@cache
def load_skyline() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("skyline.c"))
    if loaded is None:
        return None
    library, pointer = loaded.library, ctypes.c_void_p
    library.kilotune_skyline.argtypes = [ctypes.POINTER(_KernelProblem), pointer, pointer]
    library.kilotune_skyline.restype = ctypes.c_int
    return library


@dataclass(frozen=True)
class _NoisyPlacement:
    rule: SkylineRule
    looks: int  # buffers compared for a place
    noise: FloatArray  # shape (buffers,)
    offsets: IntArray
    peak: int


class SkylineSearch:
    """The search of buffers of positive sizes; it needs `load_skyline()`."""

    def __init__(self, buffers: BufferArrays, seed: int) -> None:
        self.spent = 0
        """Work so far, in candidates looked at."""
        self._buffers = buffers
        self._random = np.random.default_rng(seed)
        live = buffers.section_bytes
        weight = np.exp(np.maximum(STEEPNESS * (live / live.max() - 1.0), LEAST_LOG_WEIGHT))
        self._weight_before: FloatArray = np.concatenate([[0.0], np.cumsum(weight)])
        begins, ends, _ = buffers.sections
        life = self._weight_before[ends] - self._weight_before[begins]
        self._worth: FloatArray = np.log(life) + SIZE_POWER * np.log(buffers.size)
        self._fresh = 0
        self._best: _NoisyPlacement | None = None

    def placement(self, seconds: float = math.inf) -> IntArray | None:
        """The next placement, in bytes, shape (buffers,); None: not done after `seconds`. Raises `MemoryError`."""
        rule, looks, noise = self._varied()
        offsets = self._placed(rule, looks, noise, seconds)
        if offsets is None:
            return None
        peak = int((offsets + self._buffers.size).max())
        if self._best is None or peak <= self._best.peak:
            self._best = _NoisyPlacement(rule, looks, noise, offsets, peak)
        return offsets

    def _varied(self) -> tuple[SkylineRule, int, FloatArray]:
        best, count = self._best, len(self._buffers)
        if best is None:
            return RULES[0], LATER_LOOKS[0], np.zeros(count)
        if self._fresh < len(RULES) * len(LATER_LOOKS) or self._random.random() < FRESH_SHARE:
            rule = RULES[(self._fresh + 1) % len(RULES)]
            looks = LATER_LOOKS[self._fresh // len(RULES) % len(LATER_LOOKS)]
            self._fresh += 1
            return rule, looks, rule.noise * self._random.standard_normal(count)
        above = best.offsets > self._random.uniform(LEAST_KEPT, 1.0) * best.peak
        noise = best.noise.copy()
        noise[above] = best.rule.noise * self._random.standard_normal(int(above.sum()))
        return best.rule, best.looks, noise

    def _placed(self, rule: SkylineRule, looks: int, noise: FloatArray, seconds: float) -> IntArray | None:
        library = load_skyline()
        assert library is not None
        buffers = self._buffers
        begins, ends, count = buffers.sections
        worth = self._worth + noise
        columns = (begins, ends, buffers.size, buffers.alignment, self._weight_before, worth)
        flag = StopFlag()
        looks_a_place = FIRST_LOOKS if self._best is None else looks
        limit_ns = int(max(seconds, 0.0) * 1e9) if seconds < LONGEST_S else UNLIMITED_NS
        limits = (rule.waste, rule.flush, looks_a_place, limit_ns, flag.address)
        problem = _KernelProblem(len(buffers), count, *(column.ctypes.data for column in columns), *limits)
        offsets, looked = np.zeros(len(buffers), dtype=np.int64), np.zeros(1, dtype=np.int64)

        def call() -> int:
            return int(library.kilotune_skyline(ctypes.byref(problem), offsets.ctypes.data, looked.ctypes.data))

        status = call() if len(buffers) <= QUICK_BUFFERS else interruptible(call, flag.set)
        self.spent += int(looked[0]) + WORK_OF_A_BUFFER * len(buffers)
        if status not in (0, 2):
            raise MemoryError("The placement of buffers ran out of memory.")
        return offsets if status == 0 else None
