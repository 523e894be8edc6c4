"""Overlapping buffers that push one another aside: all placements are valid and lower, small ones the lowest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory import separating
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.ejecting import WORK, Ejection
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.native import load_ejection
from kilotune.spaces.memory.separating import SeparationSearch, is_separable, load_separation, unit_of
from tests.spaces.memory.problems import instances, least_peak, make, random_instance
from tests.spaces.memory.test_regluing import few_points
from tests.spaces.memory.test_skyline_beam import pile

if load_separation() is None or load_ejection() is None:
    pytest.skip("no C compiler", allow_module_level=True)


def peak_of(buffers: BufferArrays, offsets: IntArray) -> int:
    return int((offsets + buffers.size).max())


def lowered(buffers: BufferArrays, offsets: IntArray, goal: int, attempts: int, seed: int = 0) -> IntArray:
    """Each answer is lower than the one before."""
    search = SeparationSearch(buffers, seed)
    for _ in range(attempts):
        if peak_of(buffers, offsets) <= goal:
            break
        found = search.improve(offsets, goal, math.inf)
        if found is not None:
            assert peak_of(buffers, found) < peak_of(buffers, offsets)
            offsets = found
    return offsets


def checked_peak(instance: Instance, offsets: IntArray) -> int:
    named = zip((buffer.id for buffer in instance.buffers), offsets.tolist(), strict=True)
    return check_placement(instance, Placement(dict(named)))


@settings(max_examples=80, deadline=None)
@given(instances(), st.sampled_from((1, 3, 64)))
def test_small_ones_come_down_to_the_least_peak_of_all_orders(instance: Instance, times: int) -> None:
    """Alignments, gaps in time and sizes that are multiples of something included."""
    instance = make(*((b.lower, b.upper, b.size * times, b.alignment) for b in instance.buffers if b.size))
    assume(instance.buffers)
    buffers, least = BufferArrays.of(instance), least_peak(instance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(separating, "LOOKS_A_BUFFER", 200)
        found = lowered(buffers, pile(buffers), least, 200)
    assert checked_peak(instance, found) == least


@pytest.mark.parametrize("aligned", [False, True])
def test_answers_are_placements_and_repeat_themselves(aligned: bool) -> None:
    instance = random_instance(3, 150, aligned)
    buffers = BufferArrays.of(instance)
    live = int(buffers.section_bytes.max())
    found, again, other = (lowered(buffers, pile(buffers), live, 30, seed) for seed in (1, 1, 2))
    assert checked_peak(instance, found) == peak_of(buffers, found)
    assert (found == again).all()
    assert (found != other).any()


def test_over_few_points_it_comes_lower_than_ejection_with_the_same_work() -> None:
    buffers = few_points(300, 30, 1)
    live = int(buffers.section_bytes.max())
    search, ejection = SeparationSearch(buffers, 0), Ejection(buffers, 0, WORK // 10)
    low = ejected = pile(buffers)
    for _ in range(20):
        better = ejection.improve(ejected, live, math.inf)
        ejected = ejected if better is None else better
    while search.spent < 20 * WORK // 10:
        found = search.improve(low, live, math.inf)
        low = low if found is None else found
    assert peak_of(buffers, low) - live < 0.8 * (peak_of(buffers, ejected) - live)


def test_what_sums_have_no_room_for_is_not_tried() -> None:
    """Sizes count in their unit, which alignments do not keep from where they divide it."""
    large = 1 << 40
    assert is_separable(BufferArrays.of(make((0, 2, large, 64), (1, 3, 3 * large))))
    assert not is_separable(BufferArrays.of(make((0, 2, large), (1, 3, 3 * large + 1))))
    assert unit_of(BufferArrays.of(make((0, 2, 9, 2), (1, 3, 6)))) == 1
    assert unit_of(BufferArrays.of(make((0, 2, 12, 2), (1, 3, 6)))) == 6
    assert np.array_equal(lowered(BufferArrays.of(make((0, 1, 5))), np.array([7]), 5, 1), [0])


def test_so_many_pairs_that_weighing_them_takes_gigabytes_are_not_tried() -> None:
    assert is_separable(BufferArrays.of(make(*[(0, 2, 8)] * 1900)))
    assert not is_separable(BufferArrays.of(make(*[(0, 2, 8)] * 2100)))
