"""Kernels of many digits: no recursion, no search that Python is too slow for, none that cannot be ended."""

from __future__ import annotations

import inspect
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.kernel import ApproximatedSet, Kernel, KernelSet
from kilotune.codegen.scamp.plan import Plan, computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split import reference_search as plain_search_module
from kilotune.spaces.reverse_split.depth_first import SplitLimits, search_splits
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.native import load_kernel
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.pairs import largest_splits
from kilotune.spaces.reverse_split.plans import plan_of_splits
from kilotune.spaces.reverse_split.procedure import first_descent
from kilotune.spaces.reverse_split.reference_search import reference_search
from kilotune.spaces.reverse_split.space import ReverseSplitSpace
from kilotune.spaces.reverse_split.splits import Sums, Transformation, after_split, from_image, named_split, start_sums

compiled = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")


def approximated(rows: list[list[int | Fraction]], depth: int) -> ApproximatedSet:
    return KernelSet((Kernel.of_rows(rows),)).approximate(depth).reduced()


NINTHS = approximated([[Fraction(1, 9), 2], [3, -1]], 24)
"""Weights of 26 bits: their descents take more than a hundred splits."""

DEEP = approximated([[Fraction(1, 9), 2]], 24)
"""Two cells, whose descent goes digit by digit."""

SPARE = 4

LARGE = approximated([[Fraction(7 * y * y + 3 * x * y + 11 * x - 64, 128) for x in range(7)] for y in range(7)], 7)


@pytest.mark.slow
def test_descents_are_no_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of kernels with more digits are deeper than Python's recursion may be."""
    frames = []

    def recorded(sums: Sums, depth: int) -> Transformation | None:
        frames.append(len(inspect.stack(0)))
        return from_image(sums, depth)

    monkeypatch.setattr(plain_search_module, "from_image", recorded)
    found = reference_search(DEEP.sums, DEEP.depth, 6, OrderWeights(), 60)
    assert found is not None
    assert len(found.splits) > 16
    assert max(frames) - min(frames) <= 1
    made = plan_of_splits(DEEP.sums, DEEP.depth, found.splits)
    exact = Plan(made.target, made.depth + SPARE, made.steps, made.results)
    assert computed(exact) == tuple(total.scaled(1 << SPARE) for total in DEEP.sums)


def test_the_plain_search_ends_with_its_time() -> None:
    answers = iter([1.0] * 5 + [0.0] * 100)
    assert reference_search(NINTHS.sums, NINTHS.depth, 6, OrderWeights(), 250, lambda: next(answers)) is None
    assert len(list(answers)) == 99


@compiled
def test_weights_of_many_digits_are_searched_compiled() -> None:
    report = search_splits(NINTHS.sums, NINTHS.depth, SplitLimits(2_000), OrderWeights())
    assert report is not None
    assert report.plans
    made = plan_of_splits(NINTHS.sums, NINTHS.depth, report.plans[0].splits)
    exact = Plan(made.target, made.depth + SPARE, made.steps, made.results)
    assert computed(exact) == tuple(total.scaled(1 << SPARE) for total in NINTHS.sums)


@compiled
def test_a_search_ends_with_its_time() -> None:
    limits = SplitLimits(1 << 40, 6)
    report = search_splits(LARGE.sums, LARGE.depth, limits, OrderWeights(), seconds_left=lambda: 0.0)
    assert report is not None
    assert not report.complete
    assert report.nodes < search_splits(LARGE.sums, LARGE.depth, limits, OrderWeights()).nodes  # type: ignore[union-attr]


@pytest.mark.slow
@compiled
def test_the_procedure_answers_for_a_large_kernel() -> None:
    """It took more than a minute, outside any budget, and its answer fits no chip."""
    space = ReverseSplitSpace(SplitProblem(LARGE))
    answer = next(space.procedure())[0]
    assert space.evaluate([answer])[0].failure is not None


cells = st.tuples(st.integers(0, 3), st.integers(0, 3))
sums = st.dictionaries(cells, st.integers(-9, 9).filter(bool), min_size=2, max_size=9).map(Sum.of)


@compiled
@settings(max_examples=40)
@given(sums, st.integers(2, 3))
def test_a_descent_keeps_to_the_registers_where_a_split_does(total: Sum, registers: int) -> None:
    kernels = KernelSet((Kernel.of_sum(total, 2),)).approximate(2)
    problem = SplitProblem(kernels, registers=registers)
    names = first_descent(problem)
    assert names is not None
    state = start_sums(problem.wanted)
    for name in names:
        after = after_split(state, named_split(state, name))
        assert len(after) <= registers or not largest_splits(state, registers, paper=True)
        state = after
    assert from_image(state, problem.depth) is not None


def test_large_kernels_have_a_program_at_once_and_small_ones_need_none() -> None:
    space = ReverseSplitSpace(SplitProblem(LARGE))
    fallback = space.fallback()
    assert fallback is not None
    assert space.evaluate([fallback])[0].metrics["instructions"] > 0
    assert ReverseSplitSpace(SplitProblem(approximated([[1, 2, 1]], 0))).fallback() is None
