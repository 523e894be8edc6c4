"""Shrunken and thinned tilings come down by the blocks that follow one another; where nothing follows, the search is over."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.component_search import ComponentSearch
from kilotune.spaces.memory.gluing import GluedBuffers
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.native import load_kernel
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.memory.succession import SuccessionRule, glued_by_succession
from kilotune.spaces.memory.succession_search import MOST_BUFFERS, MOST_PAIRS, TRIES, SuccessionSearch, _Gluing
from tests.spaces.memory.problems import make, shrunk, thinned

if load_kernel() is None:
    pytest.skip("no C compiler", allow_module_level=True)


def exact(blocks: BufferArrays, offsets: IntArray, seed: int) -> ComponentSearch:
    return ComponentSearch(blocks, offsets, seed, succession=False)


def glue(instance: Instance) -> GluedBuffers:
    whole = glued_by_succession(BufferArrays.of(instance), SuccessionRule(), np.random.default_rng(0))
    assert whole is not None
    return whole


def least_peak(instance: Instance, steps: int) -> tuple[float, float]:
    """The best greedy order's peak and the best one of so many steps, as multiples of the live sum; all that come are checked."""
    buffers = BufferArrays.of(instance)
    search, bound = SuccessionSearch(buffers, 0, exact), int(buffers.section_bytes.max())
    greedy = peak = int((best_greedy(buffers)[1] + buffers.size).max())
    for _ in range(steps):
        offsets = search.improve(peak, bound, math.inf)
        if offsets is not None:
            named = zip((b.id for b in instance.buffers), offsets.tolist(), strict=True)
            peak = min(peak, check_placement(instance, Placement(dict(named))))
    return greedy / bound, peak / bound


@pytest.mark.parametrize(("seed", "most"), [(8, 1.003), (10, 1.017), (11, 1.007)])
def test_a_tiling_whose_sizes_shrank_comes_back(seed: int, most: float) -> None:
    greedy, found = least_peak(shrunk(300, seed), 12)
    assert found <= most < 1.25 < greedy


@pytest.mark.parametrize(("seed", "most"), [(1, 1.01), (2, 1.01), (3, 1.01)])
def test_a_tiling_of_which_a_tenth_is_missing_comes_back(seed: int, most: float) -> None:
    greedy, found = least_peak(thinned(300, seed), 60)
    assert found <= most < 1.15 < greedy


def test_where_nothing_follows_anything_the_search_is_exhausted() -> None:
    lonely = SuccessionSearch(BufferArrays.of(make((0, 4, 6), (1, 5, 6), (2, 6, 9))), 0, exact)
    assert lonely.improve(21, 21, math.inf) is None
    assert lonely.exhausted
    lower, ones = np.arange(MOST_BUFFERS + 1, dtype=np.int64), np.ones(MOST_BUFFERS + 1, dtype=np.int64)
    assert SuccessionSearch(BufferArrays(lower, lower + 1, ones, ones), 0, exact).exhausted
    crowd = ones[: math.isqrt(MOST_PAIRS) + 2]
    assert SuccessionSearch(BufferArrays(crowd * 0, crowd, crowd, crowd), 0, exact).exhausted
    assert not SuccessionSearch(BufferArrays(lower[:-1], lower[1:], ones[:-1], ones[:-1]), 0, exact).exhausted


@dataclass
class Still:
    """A search that finds nothing."""

    bound: int
    peak: int
    offsets: IntArray
    spent: int = 0

    def step(self, goal: int, seconds: float) -> None:
        self.spent += 1


@pytest.mark.parametrize(("bound", "hopeful"), [(13, True), (15, False), (18, False)])
def test_blocks_whose_bound_is_above_the_peak_go_on_as_far_as_all_fall_from_there(bound: int, hopeful: bool) -> None:
    """The live sum is 10. From blocks of 18 all fell to 12, a quarter of the way above it: from 13 to 10.75 and from 15 to 11.25, where 11
    is known."""
    instance = make((0, 4, 6), (4, 9, 10), (9, 12, 8))
    whole = glue(instance)
    search = SuccessionSearch(BufferArrays.of(instance), 0, exact)
    search._peak = 11
    blocks = _Gluing((math.inf, 0.0), whole, Still(bound, 18, whole.buffers.size), least=12, fallen_from=18)
    assert search._is_open(blocks) == hopeful


def test_it_is_given_up_where_others_are_far_below() -> None:
    search = SuccessionSearch(BufferArrays.of(make((0, 4, 6), (4, 9, 6), (0, 9, 3))), 0, exact)
    found = [search.improve(9, 9, math.inf) for _ in itertools.takewhile(lambda _: search.is_promising(1), range(99))]
    assert len(found) == TRIES
    assert found[0] is not None
    assert (found[0] + [6, 6, 3]).max() == 9
    assert search.is_promising(9)
    assert not search.is_promising(8)
