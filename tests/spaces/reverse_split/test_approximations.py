"""The front of instructions against the error of the weights: its approximations, and that a program computes the one that it says."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.few_digits import digits_of
from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.spaces.reverse_split.approximations import (
    DIGITS,
    ERROR,
    MOST_APPROXIMATIONS,
    ApproximationSpace,
    approximations,
)
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.programs import load_kernel
from kilotune.spaces.reverse_split.space import ReverseSplitSpace

ROWS = [[3, -1], [2, 1]]
KERNELS = KernelSet((Kernel.of_rows(ROWS),))
weights = st.lists(st.integers(-127, 127), min_size=9, max_size=9).filter(any)


@given(st.lists(weights, min_size=1, max_size=3), st.floats(0.01, 0.9))
@settings(max_examples=40, deadline=None)
def test_approximations_go_from_exact_kernels_to_the_permitted_error(drawn: list[list[int]], error: float) -> None:
    kernels = KernelSet(tuple(Kernel.of_rows([flat[:3], flat[3:6], flat[6:]]) for flat in drawn))
    found = approximations(kernels, 0, error)
    assert 1 <= len(found) <= MOST_APPROXIMATIONS
    assert found[0].kernels.sums == kernels.approximate(0).reduced().sums
    assert found[0].error == 0.0
    assert [one.digits for one in found] == sorted({one.digits for one in found}, reverse=True)
    for one in found:
        assert one.digits == digits_of(one.kernels)
        for kernel, made in zip(kernels.kernels, one.kernels.sums, strict=True):
            size = sum(weight**2 for _, weight in kernel.weights)
            exact = dict(kernel.weights)
            off = {cell: made.weight(cell) / 2**one.kernels.depth - weight for cell, weight in exact.items()}
            assert math.sqrt(sum(value**2 for value in off.values()) / size) <= min(one.error, error) + 1e-12
            assert bool(made) == bool(kernel.weights)


def test_as_many_approximations_as_offered_reach_from_all_digits_to_the_fewest() -> None:
    rows = [[37, -91, 22], [64, 113, -18], [-55, 7, 101]]
    found = approximations(KernelSet((Kernel.of_rows(rows),)), 0, 0.9)
    assert len(found) == MOST_APPROXIMATIONS
    assert found[0].digits == 25
    assert found[-1].digits < 5


@pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")
def test_every_point_of_the_front_is_the_shortest_program_of_its_approximation() -> None:
    """Each approximation by itself, by the search for the shortest program, which proves it for kernels as small as these."""
    offered = approximations(KERNELS, 0, 0.5)
    space = ApproximationSpace(offered, "scamp5", 6)
    best: dict[int, float] = {}
    bound = complete = None
    for step in itertools.islice(space.exact_search(0), 400):
        bound, complete = step.bound, step.complete
        if step.candidate is None:
            continue
        (measurement,) = space.evaluate([step.candidate])
        digits = int(step.candidate[DIGITS])
        one = space.offered[digits]
        assert measurement.metrics[ERROR] == 100 * one.error
        prove(space.program(step.candidate).text, one.kernels.sums, one.kernels.depth)
        best[digits] = min(best.get(digits, math.inf), measurement.metrics["instructions"])
        if complete:
            break
    assert complete
    assert bound == min(best.values())
    for one in offered:
        alone = ReverseSplitSpace(SplitProblem(one.kernels, "scamp5", 6, KernelGoal.INSTRUCTIONS))
        steps = list(itertools.islice(alone.exact_search(0), 400))
        assert steps[-1].complete
        assert steps[-1].bound == best[one.digits]
    lengths = [best[one.digits] for one in offered]
    assert lengths[0] > lengths[-1]


def test_candidates_of_all_searches_carry_their_digits() -> None:
    space = ApproximationSpace(approximations(KERNELS, 0, 0.5), "scamp5", 6)
    state = space.start()
    for option in (space.decision.options[-1], "splits"):
        state = state.take(option)
    assert state.assignment == {DIGITS: space.decision.options[-1], "method": "splits"}
    with pytest.raises(ValueError, match=DIGITS):
        space.start().take(1000)
    answers = {"1": "x", "method": "program", DIGITS: space.decision.options[0]}
    assert list(space.in_order(answers)) == [DIGITS, "method", "1"]
    assert space.kernels_of(answers) == KERNELS.approximate(0).reduced()
