"""Weights of many digits, made of the image by sums of three values: what programs compute, how long they are, when there are any."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.exact import shortest_program
from kilotune.spaces.reverse_split.large_weights import (
    LEAST_WEIGHT,
    MOST_WEIGHT,
    SPREADS,
    large_weight_plans,
    weight_macros,
)
from kilotune.spaces.reverse_split.scheduling import fitted

DEPTH = 3
CENTRE = (0, 0)
GROWTH = 1.8393
"""Of values that are each the sum of the three before."""


def single(weight: int, depth: int = DEPTH) -> Sum:
    return Sum.of({CENTRE: weight << depth})


def executed(weight: int, spread: float) -> int:
    """What the macros come to, each on what the ones before it have made."""
    there, last = {1}, 1
    for macro in weight_macros(weight, spread):
        assert set(macro.operands) <= there
        assert len(set(macro.operands)) == len(macro.operands) <= 3
        if macro.subtracts:
            last = macro.operands[0] - macro.operands[1]
        else:
            last = sum(macro.operands) if len(macro.operands) > 1 else -macro.operands[0]
        assert last == macro.value
        there.add(last)
    return last


@settings(max_examples=20)
@given(st.integers(LEAST_WEIGHT, 1 << 24), st.sampled_from((1, -1)), st.sampled_from(SPREADS))
@example(778_258, 1, 60.0)  # one of few that subtract a large value
def test_macros_make_the_weight(weight: int, sign: int, spread: float) -> None:
    if weight_macros(sign * weight, spread):
        assert executed(sign * weight, spread) == sign * weight


@pytest.mark.parametrize("weight", [33, 64, 555, 1777, 65521, 122819, 1000003, 1 << 20, MOST_WEIGHT - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_there_are_hardly_more_than_the_growth_takes(weight: int, sign: int) -> None:
    most = math.log(weight, GROWTH) + 4.0 + 1.0 * max(0, weight.bit_length() - 20)
    found = [len(weight_macros(sign * weight, spread)) for spread in SPREADS]
    assert 0 < min(length for length in found if length) <= most


def test_a_large_prime() -> None:
    """29 macros were found in minutes, 27 by hand."""
    plans = list(large_weight_plans([single(1_000_003)], DEPTH, "scamp5"))
    assert min(len(plan.steps) for plan in plans) <= 25
    first = next(itertools.islice(shortest_program([single(1_000_003)], "scamp5", DEPTH), 1, None))
    assert first.cost <= 25


def test_several_kernels_start_from_sums() -> None:
    """From doublings these three began at 108 macros."""
    sums = [single(77_777), single(54_321), single(123_457)]
    plans = list(large_weight_plans(sums, DEPTH, "scamp5"))
    assert {computed(plan) for plan in plans} == {tuple(sums)}
    first = next(itertools.islice(shortest_program(sums, "scamp5", DEPTH), 1, None))
    assert first.cost <= 60


@pytest.mark.parametrize(
    "sums",
    [
        [single(1777)],
        [single(-1777)],
        [Sum.of({CENTRE: 1777})],
        [Sum.of({(2, -1): 1777 << DEPTH})],
        [Sum.of({CENTRE: 1 << DEPTH, (1, 0): 40_000 << DEPTH, (0, 2): -3 << DEPTH})],
        [single(1777), single(-901)],
    ],
    ids=["whole", "negative", "eighths", "off the centre", "beside others", "two"],
)
def test_plans_compute_the_kernels_in_a_few_registers(sums: list[Sum]) -> None:
    plans = list(large_weight_plans(sums, DEPTH, "scamp5"))
    assert plans
    for plan in plans:
        assert computed(plan) == tuple(sums)
        assert fitted(plan, 6) is not None
    if len(sums) == 1 and len(sums[0].terms) == 1:
        assert any(fitted(plan, 4) is not None for plan in plans)


@pytest.mark.parametrize(
    ("sums", "target"),
    [
        ([single(1777)], "auke"),
        ([single(LEAST_WEIGHT - 1)], "scamp5"),
        ([single(MOST_WEIGHT)], "scamp5"),
        ([single(1777), single(3)], "scamp5"),
        ([Sum.of({(x, 0): (300 + x) << DEPTH for x in range(3)})], "scamp5"),
    ],
)
def test_other_kernels_have_none(sums: list[Sum], target: str) -> None:
    assert not list(large_weight_plans(sums, DEPTH, target))
