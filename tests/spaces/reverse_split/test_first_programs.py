"""What the search gives at once for any kernel, ties, the front, and kernels that need more registers than there are."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.registers import allocate
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.spaces.reverse_split import deepening, depth_first, front, programs, search
from kilotune.spaces.reverse_split.candidates import METHOD, PROGRAM, SPLITS
from kilotune.spaces.reverse_split.exact import first_plans
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.native import load_kernel
from kilotune.spaces.reverse_split.space import ReverseSplitSpace
from tests.spaces.reverse_split.kernels import GAUSS3, SOBEL, Rows, box, kernels

compiled = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")
TARGETS = ("auke", "scamp5")
cells = st.tuples(st.integers(-3, 3), st.integers(-3, 3))
sums = st.dictionaries(cells, st.integers(-(1 << 12), 1 << 12).filter(bool), min_size=1, max_size=8).map(Sum.of)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(sums, min_size=1, max_size=3, unique=True), st.integers(0, 6), st.sampled_from(TARGETS))
def test_there_is_a_program_for_any_kernels_in_four_registers_and_one_for_each_that_waits(
    totals: list[Sum], depth: int, target: str
) -> None:
    registers = 3 + len(totals)
    plans = list(first_plans(totals, target, depth, registers))
    assert plans
    for plan in plans:
        assert computed(plan) == tuple(totals)
    shortest = min(plans, key=lambda plan: len(plan.steps))
    prove(format_program(allocate(shortest, registers)), totals, depth)


def random_rows(size: int) -> Rows:
    generator = random.Random(size)
    return tuple(tuple(generator.randint(-16, 16) for _ in range(size)) for _ in range(size))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [random_rows(7), random_rows(9), ((1 << 20, 3, -777_777), (0, 1_000_001, 5)), box(20)])
@pytest.mark.parametrize("target", TARGETS)
def test_the_first_step_of_the_search_has_a_program(rows: Rows, target: str) -> None:
    one = ReverseSplitSpace(SplitProblem(kernels(rows), target))
    first = next(iter(one.exact_search(0, lambda: 1.0)))
    assert first.candidate is not None
    metrics = one.evaluate([first.candidate])[0].metrics
    assert one.least <= metrics["instructions"] < 10 * sum(bool(weight) for row in rows for weight in row) + 60


def test_a_kernel_that_needs_more_registers_says_how_many_would_do() -> None:
    roberts = (((1, 0), (0, -1)), ((0, 1), (-1, 0)))
    one = ReverseSplitSpace(SplitProblem(kernels(*roberts), "scamp5", registers=2))
    first = next(iter(one.exact_search(0, lambda: 1.0)))
    assert first.candidate is not None
    failure = one.evaluate([first.candidate])[0].failure
    assert failure == "The program needs more than the 2 registers given; 3 would do."


@compiled
@pytest.mark.parametrize(("rows", "waits"), [(((37, -91, 113), (5, 67, -29), (-53, 11, 83)), True), (GAUSS3, False)])
def test_kernels_whose_weights_hardly_repeat_are_walked_from_before_they_are_split(rows: Rows, waits: bool) -> None:
    one = ReverseSplitSpace(SplitProblem(kernels(rows), "auke"))
    found = [step.candidate for step in islice(one.exact_search(0, lambda: 60.0), 3)]
    methods = [candidate[METHOD] for candidate in found if candidate is not None]
    assert methods[0] == PROGRAM
    assert (SPLITS in methods) is not waits


@pytest.mark.slow
@compiled
@pytest.mark.parametrize(
    ("goal", "rows", "instructions", "transfers"),
    [
        (KernelGoal.INSTRUCTIONS, SOBEL, 5, 10),
        (KernelGoal.TRANSFERS, SOBEL, 5, 10),
        (KernelGoal.INSTRUCTIONS, ((-1, 0, 1),) * 3, 4, 9),
    ],
)
def test_of_equally_cheap_programs_the_one_that_is_cheaper_in_the_other_cost(
    goal: KernelGoal, rows: Rows, instructions: int, transfers: int
) -> None:
    one = ReverseSplitSpace(SplitProblem(kernels(rows), "scamp5", goal=goal))
    best = (float("inf"),) * 3
    steps = list(one.exact_search())
    for step in steps:
        if step.candidate is not None:
            metrics = one.evaluate([step.candidate])[0].metrics
            best = min(best, tuple(objective.loss(metrics) for objective in one.objectives))
    assert steps[-1].complete
    assert sorted(best[:2]) == sorted((instructions, transfers))


@pytest.mark.slow
@compiled
@pytest.mark.parametrize(("rows", "divisor", "points"), [(SOBEL, 1, 2), (GAUSS3, 16, 1)])
def test_the_front_does_not_end_with_the_fewest_transfers(rows: Rows, divisor: int, points: int) -> None:
    one = ReverseSplitSpace(SplitProblem(kernels(rows, divisor=divisor), "scamp5", goal=KernelGoal.FRONT))
    found = set()
    for step in islice(one.exact_search(), 150):
        assert not step.complete
        if step.candidate is not None and (metrics := one.evaluate([step.candidate])[0].metrics):
            found.add((metrics["bus_transfers"], metrics["noise_percent"]))
    front = [p for p in found if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in found)]
    assert len(front) >= points
    assert len(found) > points


def test_without_a_compiler_the_front_is_of_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (programs, depth_first, front, search):
        monkeypatch.setattr(module, "load_kernel", lambda: None)
    one = ReverseSplitSpace(SplitProblem(kernels(SOBEL), "scamp5", goal=KernelGoal.FRONT))
    found = set()
    for step in islice(one.exact_search(), 60):
        if step.candidate is not None and (metrics := one.evaluate([step.candidate])[0].metrics):
            found.add((metrics["bus_transfers"], metrics["noise_percent"]))
    assert len(found) > 2
    assert min(found)[0] <= 14, "what the paper's procedure has"


@compiled
def test_a_long_program_is_walked_on_from_the_start_and_no_proof_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proof reaches 30 macros, and a round of splits takes a second: neither comes before the walks."""
    tried: list[int] = []
    advance = deepening.Proof.advance
    monkeypatch.setattr(deepening.Proof, "advance", lambda *given: tried.append(1) or advance(*given))
    one = ReverseSplitSpace(SplitProblem(kernels(random_rows(4)), "scamp5"))
    steps = [step for step in islice(one.exact_search(0, lambda: 0.05), 12) if step.candidate is not None]
    assert {step.candidate[METHOD] for step in steps if step.candidate} == {PROGRAM}
    assert not tried
