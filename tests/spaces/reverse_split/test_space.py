"""The space: every candidate that can be walked to has a proved program or says why not; bounds hold; searches prove."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.scamp5.symbolic import execute, prove
from kilotune.search.budget import Budget
from kilotune.search.candidates import complete, first_candidate, random_candidate
from kilotune.search.procedure import run_procedure
from kilotune.search.space import FlatSpace, HasExactSearch, HasModel, HasProcedure, SolveLimit, Space
from kilotune.search.study import Study
from kilotune.spaces.reverse_split.candidates import METHOD, PROGRAM, SPLITS
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.native import load_kernel
from kilotune.spaces.reverse_split.space import ReverseSplitSpace
from kilotune.spaces.reverse_split.states import ProgramState
from tests.spaces.reverse_split.kernels import GAUSS3, LAPLACIAN, SOBEL, Rows, box, kernels

compiled = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")
pictures = st.lists(st.lists(st.integers(-2, 2), min_size=2, max_size=3), min_size=1, max_size=2).filter(
    lambda rows: len({len(row) for row in rows}) == 1
)


def space(
    *rows: Rows, target: str = "auke", registers: int = 6, goal: KernelGoal = KernelGoal.INSTRUCTIONS, divisor: int = 1
) -> ReverseSplitSpace:
    return ReverseSplitSpace(SplitProblem(kernels(*rows, divisor=divisor), target, registers, goal))


def test_abilities() -> None:
    one = space(SOBEL)
    assert isinstance(one, Space)
    assert isinstance(one, HasProcedure)
    assert isinstance(one, HasModel)
    assert isinstance(one, HasExactSearch)
    assert isinstance(one.flat_view(), FlatSpace)


@settings(max_examples=40)
@given(pictures, st.sampled_from(["auke", "scamp5"]), st.integers(0, 1000))
def test_every_walk_over_splits_ends_in_a_proved_program(rows: Rows, target: str, seed: int) -> None:
    wanted = kernels(rows)
    one = ReverseSplitSpace(SplitProblem(wanted, target))
    rng = np.random.default_rng(seed)
    state = one.start().take(SPLITS)
    candidate = complete(state, lambda decision: decision.options[int(rng.integers(len(decision.options)))])
    assert json.loads(json.dumps(candidate)) == candidate
    measurement = one.evaluate([candidate])[0]
    assert measurement.failure is None or "registers" in measurement.failure
    if measurement.failure is None:
        program = prove(one.program(candidate).text, wanted.sums, wanted.depth)
        assert program.instructions == measurement.metrics["instructions"] >= one.least
        assert len(program.registers) <= 6


@settings(max_examples=40)
@given(st.sampled_from(["auke", "scamp5"]), st.integers(0, 10_000), st.integers(1, 3))
def test_no_program_is_shorter_than_the_bound(target: str, seed: int, length: int) -> None:
    """Whatever random instructions compute, the bound of that is at most their number."""
    rng = np.random.default_rng(seed)
    state = ProgramState(space(((1, 1, 1),), target=target))
    for _ in range(length):
        assert state.decision is not None
        state = state.take(state.decision.options[int(rng.integers(len(state.decision.options)))])
    value = state._values[-1]
    reached = ReverseSplitSpace(SplitProblem(_as_kernel(value), target, 6))
    assert reached.least <= length


def _as_kernel(value: Sum) -> object:
    from kilotune.codegen.scamp.kernel import Kernel, KernelSet

    exact = KernelSet((Kernel.of_sum(value, 4),))
    return exact.approximate(exact.exact_depth() or 0)


def test_written_programs_are_candidates_that_no_split_leads_to() -> None:
    """The Laplacian in 5 chip macros, as the facts about other tools have it."""
    one = space(LAPLACIAN, target="scamp5")
    steps = ("subx 0 0 east", "subx 0 0 north", "subx 2 1 east", "subx 2 1 south", "subx 3 4 west")
    candidate = {METHOD: PROGRAM, **{str(k): step for k, step in enumerate(steps, start=1)}}
    found = one.evaluate([candidate])[0]
    assert found.metrics["instructions"] == 5
    shorter = {METHOD: PROGRAM, "1": "add 0 0"}
    assert one.evaluate([shorter])[0].failure is not None
    nonsense = {METHOD: PROGRAM, "1": "fly 0"}
    assert one.evaluate([nonsense])[0].failure is not None


@pytest.mark.parametrize("target", ["auke", "scamp5"])
def test_trivial_kernels(target: str) -> None:
    nothing, identity = space(((0, 0),), target=target), space(((1,),), target=target)
    for one, length in ((nothing, 1), (identity, 0)):
        for candidate in (first_candidate(one), next(iter(one.exact_search())).candidate):
            assert candidate is not None
            assert one.evaluate([candidate])[0].metrics["instructions"] == length


def test_several_kernels_keep_their_order_and_repetitions() -> None:
    one = space(SOBEL, box(2), SOBEL)
    text = one.program(first_candidate(one)).text
    results, depth = execute(text)
    assert list(results) == [total.scaled(1 << depth) for total in one.problem.wanted]


@pytest.mark.parametrize(
    ("rows", "divisor", "registers", "instructions"),
    [
        (SOBEL, 1, 3, 7),
        (box(3), 1, 3, 8),
        (box(5), 1, 3, 14),
        (GAUSS3, 16, 6, 12),
        (box(4), 1, 6, 10),
        (box(8), 1, 6, 20),
    ],
)
@compiled
def test_the_procedure_reaches_what_the_paper_s_tool_does(
    rows: Rows, divisor: int, registers: int, instructions: int
) -> None:
    answer = run_procedure(space(rows, registers=registers, divisor=divisor))
    assert answer is not None
    assert answer.measurement.metrics["instructions"] == instructions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "target", "instructions"),
    [(SOBEL, "auke", 7), (box(3), "auke", 8), (LAPLACIAN, "auke", 9), (SOBEL, "scamp5", 5), (box(3), "scamp5", 6)],
)
@compiled
def test_exhaustive_proves_short_programs(rows: Rows, target: str, instructions: int) -> None:
    one = space(rows, target=target)
    result = Study(one, "exhaustive").run(InProcessExecutor(one), Budget(trials=200))
    assert result.best is not None
    assert result.proved
    assert result.best.measurement.metrics["instructions"] == result.bound == instructions


@compiled
def test_settings_of_the_order_find_programs_too() -> None:
    one = space(box(5))
    view = one.flat_view()
    assert one.evaluate([first_candidate(view)])[0].metrics["instructions"] == 14
    candidate = random_candidate(view, np.random.default_rng(3))
    assert one.evaluate([candidate]) == space(box(5)).flat_view().evaluate([candidate])


def test_front_has_noise_and_transfers() -> None:
    one = space(SOBEL, target="scamp5", goal=KernelGoal.FRONT)
    metrics = one.evaluate([first_candidate(one)])[0].metrics
    assert [objective.metric for objective in one.objectives] == ["bus_transfers", "noise_percent"]
    assert 0.0 < metrics["noise_percent"] < 100.0


def test_constraint_model_finds_and_proves_a_short_program() -> None:
    one = space(box(2))
    answer = one.model([]).solve(1, [], 0, SolveLimit(30.0))
    assert answer.bound == 4
    assert [one.evaluate([c])[0].metrics["instructions"] for c in answer.candidates] == [4]


def test_constraint_model_answers_before_it_solves_where_the_procedure_has_no_answer() -> None:
    one = space(*(box(n) for n in range(2, 8)))  # results that are consumed as they finish
    assert not list(one.paper_candidates())
    answer = one.model([]).solve(1, [], 0, SolveLimit(1e-9))
    assert [one.evaluate([c])[0].failure for c in answer.candidates] == [None]


def test_problems_that_no_machine_has_are_refused() -> None:
    with pytest.raises(ValueError, match="instruction set"):
        SplitProblem(kernels(SOBEL), "avr")
    with pytest.raises(ValueError, match="registers"):
        SplitProblem(kernels(SOBEL), registers=0)


def test_results_are_consumed_where_the_registers_cannot_keep_them() -> None:
    assert SplitProblem(kernels(SOBEL, box(2)), registers=2).consumed  # none would be left for the image
    assert not SplitProblem(kernels(SOBEL, box(2)), registers=3).consumed
    assert not SplitProblem(kernels(((0, 1, 0),)), registers=1).consumed
    assert not SplitProblem(kernels(*(box(n) for n in range(2, 7)))).consumed
    assert SplitProblem(kernels(*(box(n) for n in range(2, 8)))).consumed
