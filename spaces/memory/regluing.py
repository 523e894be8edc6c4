"""Who lay beside whom, by ruin and recreate: what is glued comes apart here and there, and is glued anew.

`spaces.memory.succession` glues what is surest and never looks back. Where cuts meet by chance, blocks of equal lives are stacked that
never lay on each other, and a single one of them stops all that would be glued above it. Here some blocks that meet at a few points come
apart, some levels deep, and what lies there is glued in another order: the same kinds of groups (stacks, pairs, wheels of five), the
surest first, with noise and some left out (large neighbourhood search, Shaw 1998; ruin and recreate, Schrimpf et al. 2000). A trial is
kept when fewer blocks are left than before, groups that are doubtful or of unequal sizes counted as a part of a block; another one now
and then, less and less often (simulated annealing). Thousands of buffers that once filled a memory come down to a single block.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.gluing import MOST_LEFT, GluedBuffers
from kilotune.spaces.memory.native import UNLIMITED_NS

LONGEST_S = 1e8
WARMTH = 1.0
"""By how many blocks a trial may make it worse, at first, so that it is kept one time in three."""

MOST_BYTES = 1 << 62
(_KernelProblem,) = structures(Path(__file__).with_name("regluing.c"), "RegluingProblem")


@cache
def load_regluing() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("regluing.c"))
    if loaded is None:
        return None
    library, pointer = loaded.library, ctypes.c_void_p
    library.kilotune_reglue.argtypes = [ctypes.POINTER(_KernelProblem), ctypes.c_uint64, *[pointer] * 4]
    library.kilotune_reglue.restype = ctypes.c_int
    return library


@dataclass(frozen=True)
class RegluingLimits:
    """`most_bytes`: what the live sum of the blocks may rise to. `looks` at candidates, some nanoseconds each, and `seconds`, after which
    the search ends with what it has."""

    looks: int
    most_bytes: float = math.inf
    seconds: float = math.inf


@dataclass(frozen=True)
class Reglued:
    """`whole`: None when hardly any buffers belong together. `looks` at candidates that it took."""

    whole: GluedBuffers | None
    looks: int


def can_reglue(buffers: BufferArrays) -> bool:
    """Whether it can be tried: blocks of one alignment, whose sizes are multiples of it, leave no gaps between them."""
    if not len(buffers):
        return False
    alignment = int(buffers.alignment[0])
    aligned = not (buffers.alignment != alignment).any() and not (buffers.size % alignment).any()
    return aligned and load_regluing() is not None


def share_with_exact_mates(buffers: BufferArrays) -> float:
    """The share of the buffers of which one of exactly their size ends where they begin, or begins where they end."""
    ends, begins = (
        np.array(list(zip(times.tolist(), buffers.size.tolist(), strict=True)), dtype=[("point", "i8"), ("size", "i8")])
        for times in (buffers.upper, buffers.lower)
    )
    return float((np.isin(ends, begins) | np.isin(begins, ends)).mean()) if len(buffers) else 0.0


def reglued(buffers: BufferArrays, limits: RegluingLimits, seed: int, likeness: float = 1.0) -> Reglued:
    """The fewest blocks that were found. Sizes are positive, and `can_reglue`. `likeness`: how much sizes differ that lay beside each
    other, as a share of what they do where all shrank by up to a tenth or a fifth. Raises `MemoryError`."""
    library = load_regluing()
    assert library is not None
    count = len(buffers)
    points = np.unique(np.concatenate([buffers.lower, buffers.upper]))
    begins, ends = (np.searchsorted(points, times).astype(np.int32) for times in (buffers.lower, buffers.upper))
    flag = StopFlag()
    limit_ns = int(max(limits.seconds, 0.0) * 1e9) if limits.seconds < LONGEST_S else UNLIMITED_NS
    most = int(min(limits.most_bytes, MOST_BYTES))
    columns = (begins.ctypes.data, ends.ctypes.data, buffers.size.ctypes.data)
    bounds = (most, limits.looks, limit_ns, int(MOST_LEFT * count), likeness, WARMTH)
    problem = _KernelProblem(count, len(points), *columns, *bounds, flag.address)
    group, shift = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int64)
    left, report = np.zeros(1, dtype=np.int32), np.zeros(2, dtype=np.int64)
    found = tuple(column.ctypes.data for column in (group, shift, left, report))
    status = interruptible(
        lambda: int(library.kilotune_reglue(ctypes.byref(problem), seed % (1 << 64), *found)), flag.set
    )
    if status not in (0, 2):
        raise MemoryError("The gluing of buffers ran out of memory.")
    if left[0] > MOST_LEFT * count:
        return Reglued(None, int(report[0]))
    return Reglued(_blocks(buffers, group.astype(np.int64), shift, int(left[0])), int(report[0]))


def _blocks(buffers: BufferArrays, group: IntArray, shift: IntArray, count: int) -> GluedBuffers:
    lower = np.full(count, np.iinfo(np.int64).max)
    upper, size = np.full(count, np.iinfo(np.int64).min), np.zeros(count, dtype=np.int64)
    np.minimum.at(lower, group, buffers.lower)
    np.maximum.at(upper, group, buffers.upper)
    np.maximum.at(size, group, shift + buffers.size)
    return GluedBuffers(BufferArrays(lower, upper, size, np.full(count, int(buffers.alignment[0]))), group, shift)
