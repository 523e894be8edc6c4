"""Who follows whom tells where a tiling was cut, whatever the sizes: its placements are placements of all, and come down to what it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.memory.succession import MOST_BUFFERS, TRIES, SuccessionSearch
from tests.spaces.memory.problems import guillotine, instances, make


def checked_peak(instance: Instance, search: SuccessionSearch) -> int | None:
    offsets = search.placement()
    if offsets is None:
        return None
    named = zip((b.id for b in instance.buffers), offsets.tolist(), strict=True)
    return check_placement(instance, Placement(dict(named)))


@settings(max_examples=100)
@given(instances(most=12), st.integers(0, 99))
def test_all_placements_are_valid(instance: Instance, seed: int) -> None:
    kept = Instance("kept", tuple(b for b in instance.buffers if b.size))
    if not kept.buffers:
        return
    search = SuccessionSearch(BufferArrays.of(kept), seed)
    for _ in range(5):
        checked_peak(kept, search)


def slack(seed: int) -> Instance:
    """A tiling of 300 cut from edge to edge, every tile smaller by up to a tenth: no two sizes fit any more."""
    rng = np.random.default_rng(seed)
    tiles = guillotine(300, seed).buffers
    return Instance("slack", tuple(replace(b, size=max(1, int(b.size * (1 - rng.random() / 10)))) for b in tiles))


@pytest.mark.parametrize(("seed", "most"), [(8, 1.002), (10, 1.016), (11, 1.007)])
def test_a_tiling_whose_sizes_shrank_comes_back(seed: int, most: float) -> None:
    """To what its live sum allows, or nearly so; the best greedy order ends 30 to 36 % above it."""
    instance = slack(seed)
    buffers = BufferArrays.of(instance)
    search, bound = SuccessionSearch(buffers, 0), int(buffers.section_bytes.max())
    best = min(checked_peak(instance, search) or 1 << 30 for _ in range(3))
    greedy = int((best_greedy(buffers)[1] + buffers.size).max())
    assert best <= most * bound < 1.25 * bound < greedy


def test_where_nothing_follows_anything_the_search_is_exhausted() -> None:
    lonely = SuccessionSearch(BufferArrays.of(make((0, 4, 6), (1, 5, 6), (2, 6, 9))), 0)
    assert lonely.placement() is None
    assert lonely.exhausted
    many = np.ones(MOST_BUFFERS + 1, dtype=np.int64)
    assert SuccessionSearch(BufferArrays(many * 0, many, many, many), 0).exhausted


def test_alignments_that_do_not_divide_each_other_are_not_glued() -> None:
    """One place for both would have to be a multiple of 6, which is neither's own: nothing is left to glue."""
    search = SuccessionSearch(BufferArrays.of(make((0, 4, 6, 2), (4, 9, 6, 3))), 0)
    assert search.placement() is None


def test_it_is_given_up_where_others_are_far_below() -> None:
    instance = make((0, 4, 6), (4, 9, 6), (0, 9, 3))
    search = SuccessionSearch(BufferArrays.of(instance), 0)
    for _ in range(TRIES):
        assert search.is_promising(1)
        assert checked_peak(instance, search) == 9
    assert search.is_promising(9)
    assert not search.is_promising(8)
