"""What kernels have in common is computed once, and what takes too many registers is computed twice."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.naive import naive_plan
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed
from kilotune.codegen.scamp.registers import allocate, needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.recomputing import recomputed
from kilotune.spaces.reverse_split.scheduling import least_registers
from kilotune.spaces.reverse_split.sharing import MOST_TERMS, shared_plans

TARGETS = ("auke", "scamp5")
kernels = st.dictionaries(
    st.tuples(st.integers(-2, 2), st.integers(-2, 2)), st.integers(-9, 9).filter(bool), min_size=2, max_size=7
).map(Sum.of)


@given(st.lists(kernels, min_size=1, max_size=4, unique=True), st.integers(0, 3), st.sampled_from(TARGETS))
@settings(max_examples=80, deadline=None)
def test_shared_programs_compute_their_sums(totals: list[Sum], depth: int, target: str) -> None:
    for plan in shared_plans(totals, depth, target):
        assert plan.depth == depth
        assert computed(plan) == tuple(totals)


@pytest.mark.parametrize("target", TARGETS)
def test_a_part_of_several_kernels_is_computed_once(target: str) -> None:
    """A cross of five pixels in four places: 5 shifted sums at most, where each kernel by itself has 4 additions."""
    cross = Sum.of({(0, 0): 1, (0, 1): 1, (1, 0): -1, (0, -1): 1, (-1, 0): 1})
    totals = [cross.shifted((x, y)) + Sum.of({(3 * x - 7, 3 * y): 1}) for x, y in ((0, 0), (2, 0), (0, 2), (-1, -2))]
    (plan,) = shared_plans(totals, 0, target)
    additions = [step for step in plan.steps if step.op.startswith(("add", "sub"))]
    assert len(additions) <= 8
    assert len(plan.steps) < len(naive_plan(totals, 0, target).steps) / 2


def test_kernels_of_too_many_digits_are_left_alone() -> None:
    many = Sum.of({(x, 0): 1 for x in range(MOST_TERMS + 1)})
    assert not list(shared_plans([many], 0, "auke"))


def wide(count: int) -> Plan:
    """As many shifts of the image as that, all of them in every one of three sums, and in each in another order."""
    steps = [PlanStep("movx", (0,), ("east",))]
    steps += [PlanStep("movx", (number,), ("east" if number % 2 else "north",)) for number in range(1, count)]
    numbers, results = list(range(1, count + 1)), []
    for order in (numbers, numbers[::-1], numbers[count // 2 :] + numbers[: count // 2]):
        total = order[0]
        for number in order[1:]:
            steps.append(PlanStep("sub" if number % 2 else "add", (total, number)))
            total = len(steps)
        results.append(total)
    return Plan("scamp5", 0, tuple(steps), tuple(results))


@pytest.mark.parametrize("kept", [True, False])
def test_values_that_have_to_go_are_computed_again(kept: bool) -> None:
    plan = wide(7)
    assert least_registers(plan, 20, kept) > 6
    found = recomputed(plan, 6, kept)
    assert found is not None
    assert needed_registers(found, kept) <= 6
    assert computed(found) == computed(plan)
    assert len(found.steps) > len(plan.steps)
    assert len(allocate(found, 6, kept).operations) == len(found.steps)


def test_the_more_registers_the_less_is_computed_again() -> None:
    plan = wide(7)
    lengths = [len(found.steps) for registers in range(5, 13) if (found := recomputed(plan, registers)) is not None]
    assert len(lengths) > 5
    assert lengths[-1] == len(plan.steps) < lengths[0]


def test_what_fits_no_registers_at_all_is_given_up() -> None:
    assert recomputed(wide(7), 2) is None
    assert recomputed(wide(7), 3, kept=True) is None


@given(
    st.lists(kernels, min_size=1, max_size=3, unique=True), st.sampled_from(TARGETS), st.booleans(), st.integers(4, 7)
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_found_fits_and_computes_the_same(
    totals: list[Sum], target: str, kept: bool, registers: int
) -> None:
    for plan in shared_plans(totals, 0, target):
        found = recomputed(plan, registers, kept, seed=random.Random(registers).randrange(9), draws=3)
        if found is not None:
            assert needed_registers(found, kept) <= registers
            assert computed(found) == computed(plan)
