"""Loose gluing wastes no more than it may, never at the busiest point, and its placements are placements of all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.loose_gluing import Looseness, loosely_glued
from kilotune.spaces.memory.loose_search import LooseSearch
from kilotune.spaces.memory.native import load_ejection
from kilotune.spaces.memory.orders import best_greedy, place_in_order
from tests.spaces.memory.problems import guillotine, instances, make


def occupied(instance: Instance) -> tuple[Instance, BufferArrays]:
    kept = Instance("kept", tuple(b for b in instance.buffers if b.size))
    return kept, BufferArrays.of(kept)


@settings(max_examples=200)
@given(
    instances(most=12), st.integers(0, 99), st.floats(0, 0.5), st.sampled_from([0.0, 4.0]), st.sampled_from([0.0, 0.3])
)
def test_what_it_glues_is_a_placement_of_all(
    instance: Instance, seed: int, waste: float, power: float, noise: float
) -> None:
    kept, buffers = occupied(instance)
    found = loosely_glued(buffers, Looseness(waste, power, noise), seed) if len(buffers) else None
    if found is None:
        return
    assert found.buffers.section_bytes.max() == buffers.section_bytes.max()
    order = np.random.default_rng(seed).permutation(len(found.buffers)).astype(np.int32)
    offsets = place_in_order(found.buffers, order)
    named = zip((b.id for b in kept.buffers), found.spread(offsets).tolist(), strict=True)
    assert check_placement(kept, Placement(dict(named))) <= int((offsets + found.buffers.size).max())


@settings(max_examples=100)
@given(instances(most=12, aligned=False), st.floats(0, 0.5))
def test_waste_is_at_most_its_share(instance: Instance, waste: float) -> None:
    """In bytes times sections, of the sections of all buffers, each of weight 1."""
    _, buffers = occupied(instance)
    found = loosely_glued(buffers, Looseness(waste, 0), 0) if len(buffers) else None
    if found is not None:
        begins, ends, _ = buffers.sections
        before = int((buffers.size * (ends - begins)).sum())
        after = int((found.buffers.size * (found.buffers.upper - found.buffers.lower)).sum())
        assert before <= after <= before * (1 + waste) + 1e-6


def test_a_pair_that_would_rise_above_the_live_sum_is_passed_over() -> None:
    """4 and 1 bytes on each other waste one, but above the live sum of 8; 4 and 1 behind one another waste three, and fill the rest."""
    buffers = BufferArrays.of(make((0, 4, 4), (0, 3, 4), (3, 4, 1)))
    found = loosely_glued(buffers, Looseness(3 / 13, 0), 0)
    assert found is not None
    assert (found.buffers.size.tolist(), sorted(found.shift[1:].tolist())) == ([8], [found.shift[1]] * 2)
    assert loosely_glued(buffers, Looseness(2.9 / 13, 0), 0) is None


def test_alignments_that_would_leave_gaps_are_left_alone() -> None:
    loose = Looseness(0.5, 0)
    assert loosely_glued(BufferArrays.of(make((0, 4, 6, 4), (0, 4, 6, 4))), loose, 0) is None
    assert loosely_glued(BufferArrays.of(make((0, 4, 8, 4), (0, 4, 8))), loose, 0) is None
    found = loosely_glued(BufferArrays.of(make((0, 4, 8, 4), (0, 4, 8, 4))), loose, 0)
    assert found is not None
    assert (found.buffers.size.tolist(), found.buffers.alignment.tolist()) == ([16], [4])


@pytest.mark.skipif(load_ejection() is None, reason="no C compiler")
def test_tiles_with_some_missing_come_closer_than_any_greedy_order() -> None:
    """A rectangle of 2^20 bytes cut from edge to edge, without every tenth tile."""
    instance = guillotine(400, 5)
    kept = Instance("kept", tuple(b for i, b in enumerate(instance.buffers) if i % 10))
    buffers = BufferArrays.of(kept)
    bound = int(buffers.section_bytes.max())
    greedy = int((best_greedy(buffers)[1] + buffers.size).max())
    search, best = LooseSearch(buffers, 0), math.inf
    for _ in range(60):
        offsets = search.improve(bound, math.inf)
        assert offsets is not None
        named = zip((b.id for b in kept.buffers), offsets.tolist(), strict=True)
        best = min(best, check_placement(kept, Placement(dict(named))))
    assert best < 1.02 * bound < greedy


def test_where_nothing_can_be_glued_the_search_says_so() -> None:
    search = LooseSearch(BufferArrays.of(make((0, 4, 6, 4), (0, 4, 6, 2))), 0)
    assert search.improve(12, math.inf) is None
    assert search.exhausted
