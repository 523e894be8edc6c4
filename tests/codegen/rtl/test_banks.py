"""Lanes and banks, by trying all of them."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.rtl.banks import bank_depth, free_of_conflicts, least_banks, visited_banks
from kilotune.codegen.rtl.nests import Reach, StepNest


@given(st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 8), st.integers(-9, 9), st.integers(0, 20))
def test_no_two_lanes_meet_at_different_addresses(banks: int, lanes: int, stride: int, first: int) -> None:
    elements = {first + lane * stride for lane in range(lanes)}
    meet = len({element % banks for element in elements}) < len(elements)
    assert free_of_conflicts(banks, lanes, stride) == (not meet)


def test_the_least_banks_suit_everybody() -> None:
    assert least_banks([]) == 1
    assert least_banks([(3, 1), (8, 1)]) == 8
    assert least_banks([(4, 2)]) == 8  # every other element of eight
    assert least_banks([(10, 0)]) == 1  # all read the same
    assert least_banks([(200, 1)]) is None


@given(st.data())
def test_the_banks_that_lanes_visit(data: st.DataObject) -> None:
    extents = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    strides = tuple(data.draw(st.integers(-6, 6)) for _ in extents)
    factor, start, count = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 2)), data.draw(st.integers(1, 3))
    reach = Reach("v", ir.Affine(40, (("i", factor),)), strides, lane_stride=data.draw(st.integers(-3, 3)))
    nest, banks = StepNest(extents, 0, (reach,), reach, axis=0, lanes=3), data.draw(st.sampled_from([1, 2, 8]))
    seen: list[set[int]] = [set(), set(), set()]
    for i in range(start, start + count):
        for place in itertools.product(*(range(e) for e in extents)):
            element = 40 + factor * i + sum(p * s for p, s in zip(place, strides, strict=True))
            for lane in range(3):
                seen[lane].add((element + lane * reach.lane_stride) % banks)
    assert [set(b) for b in visited_banks(reach, nest, {"i": (start, count)}, banks)] == seen


def test_elements_are_dealt_to_banks() -> None:
    assert [bank_depth(10, 4, bank) for bank in range(4)] == [3, 3, 2, 2]
    assert [bank_depth(2, 4, bank) for bank in range(4)] == [1, 1, 0, 0]
