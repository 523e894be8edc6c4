"""What the search gives at once for any kernel, ties, the front, and kernels that need more registers than there are."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.kernel import ApproximatedSet, Approximation
from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.registers import allocate
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.spaces.reverse_split import deepening, depth_first, front, programs, search
from kilotune.spaces.reverse_split.candidates import METHOD, PROGRAM, SPLITS
from kilotune.spaces.reverse_split.exact import EARLY_PROOF_WORK
from kilotune.spaces.reverse_split.first_program import first_plan, first_plans
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.native import load_kernel
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.serial import serial_plans
from kilotune.spaces.reverse_split.space import ReverseSplitSpace
from kilotune.spaces.reverse_split.trivial_results import distinct
from tests.effort import effort
from tests.spaces.reverse_split.kernels import GAUSS3, SOBEL, Rows, box, kernels

compiled = pytest.mark.skipif(load_kernel() is None, reason="no C compiler")
TARGETS = ("auke", "scamp5")
cells = st.tuples(st.integers(-3, 3), st.integers(-3, 3))
sums = st.dictionaries(cells, st.integers(-(1 << 12), 1 << 12).filter(bool), min_size=1, max_size=8).map(Sum.of)

small_sums = st.dictionaries(
    st.tuples(st.integers(-1, 1), st.integers(-1, 2)),
    st.one_of(st.integers(-4, 4), st.sampled_from([-40, 23, 64])).filter(bool),
    min_size=1,
    max_size=5,
).map(Sum.of)


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


def quarters(*totals: Sum) -> ApproximatedSet:
    """Kernels of which the sums are in units of a quarter."""
    return ApproximatedSet(2, tuple(Approximation(total, 2, {}) for total in totals))


@settings(max_examples=effort(40, 400), deadline=None)
@given(
    st.lists(st.one_of(small_sums, st.sampled_from([Sum(), Sum.image(2)])), min_size=1, max_size=7),
    st.integers(2, 6),
    st.sampled_from(TARGETS),
    st.sampled_from(KernelGoal),
)
def test_the_first_program_of_any_kernels_fits_any_registers_but_one(
    totals: list[Sum], registers: int, target: str, goal: KernelGoal
) -> None:
    one = ReverseSplitSpace(SplitProblem(quarters(*totals), target, registers, goal))
    program = one.program(one.program_candidate(one.first_plan)).program
    assert len(program.registers) <= registers
    read_at_the_end = not program.read_after
    assert read_at_the_end is (len(set(totals)) < max(2, registers))


def test_one_kernel_takes_two_registers_of_macros_and_five_that_wait_six() -> None:
    """A macro cannot double or halve a value within its register: the image is added as often as the weight says."""
    rows = ((3, -5, 0), (127, 1, -2), (0, 0, 64))
    problem = SplitProblem(kernels(rows, divisor=4), "scamp5", registers=2)
    one = ReverseSplitSpace(problem)
    assert one.evaluate([one.program_candidate(one.first_plan)])[0].metrics["instructions"] < 202 + 15
    several = [tuple(tuple((k + 2) * weight + k for weight in row) for row in rows) for k in range(5)]
    five = ReverseSplitSpace(SplitProblem(kernels(*several), "scamp5"))
    metrics = five.evaluate([five.program_candidate(five.first_plan)])[0].metrics
    assert metrics["registers"] == 6


wide_sums = st.dictionaries(
    st.tuples(st.integers(-1, 1), st.integers(-1, 1)),
    st.integers(-(1 << 20), 1 << 20).filter(bool),
    min_size=1,
    max_size=4,
).map(Sum.of)


@settings(max_examples=effort(8, 80), deadline=None)
@given(st.lists(st.one_of(small_sums, wide_sums), min_size=2, max_size=5, unique=True))
def test_beside_a_result_that_waits_the_last_kernel_takes_no_more_macros_than_its_digits(totals: list[Sum]) -> None:
    """That result and the total are multiplied by the golden ratio and back, so that no weight needs as many additions as it says."""
    wanted = distinct(totals, 2)
    registers = len(wanted) + 1
    for plan in serial_plans(wanted, 2, "scamp5"):
        assert computed(plan) == wanted
    if len(wanted) > 1:
        *_, separate = serial_plans(wanted, 2, "scamp5")
        digits = sum(abs(weight).bit_length() for total in wanted for _, weight in total)
        assert len(separate.steps) < 12 * digits + 200
        fitting = fitted(separate, registers)
        assert fitting is not None
        prove(format_program(allocate(fitting, registers)), wanted, 2)


def test_a_result_that_is_computed_again_waits_from_then_on() -> None:
    """Its register was in use in between: the program has the earlier value too, which would take one more."""
    rows = [tuple(tuple(9_973 * (k + 2) * (x + 1) ** 2 - 31 * y for x in range(2)) for y in range(2)) for k in range(5)]
    five = ReverseSplitSpace(SplitProblem(kernels(*rows), "scamp5"))
    metrics = five.evaluate([five.program_candidate(five.first_plan)])[0].metrics
    assert metrics["registers"] == 6
    assert metrics["instructions"] < 900


def test_two_registers_of_macros_are_refused_large_weights() -> None:
    large = kernels(((1_000_001, -777_777), (3, 65_536)))
    with pytest.raises(ValueError, match=r"2 registers of macros .* at most 20000 additions, or one register more"):
        first_plan(SplitProblem(large, "scamp5", registers=2))
    for target, registers in (("scamp5", 3), ("auke", 2)):
        one = ReverseSplitSpace(SplitProblem(large, target, registers))
        assert one.evaluate([one.program_candidate(one.first_plan)])[0].metrics["registers"] == registers


def test_a_small_kernel_in_few_registers_falls_back_on_its_constructed_program() -> None:
    """The procedure's plan does not fit two registers, and strategies that only sample find none for seconds."""
    rows = ((1, 0, -1), (1, 1, 2), (-1, 1, 0))
    one = ReverseSplitSpace(SplitProblem(kernels(rows), "scamp5", registers=2))
    fallback = one.fallback()
    assert fallback is not None
    assert one.evaluate([fallback])[0].metrics["registers"] == 2
    assert ReverseSplitSpace(SplitProblem(kernels(rows), "scamp5")).fallback() is None


def one_in(target: str, *totals: Sum) -> ReverseSplitSpace:
    return ReverseSplitSpace(SplitProblem(quarters(*totals), target, registers=1))


def test_one_register_holds_the_image_moved_and_nothing_else() -> None:
    east, south, half = Sum((((1, 0), 4),)), Sum((((0, -2), 4),)), Sum((((0, 0), -2),))
    for target, totals in (("scamp5", (east, Sum(), south)), ("auke", (east, half, Sum(), south.scaled(4)))):
        one = one_in(target, *totals)
        assert len(one.program(one.program_candidate(one.first_plan)).program.registers) == 1
    for target, total, said in (
        ("scamp5", half, "One register can only hold the image moved; a program of these kernels takes at least 2."),
        ("auke", east + half, "One register can only hold the image moved, doubled, halved or negated; a program"),
        ("auke", half.scaled(3), "takes at least 2."),
    ):
        with pytest.raises(ValueError, match=said):
            one_in(target, total)


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
def test_a_long_program_is_walked_on_from_the_start_and_a_proof_has_but_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No proof reaches 30 macros, and a round of splits takes a second: neither comes before the walks, but for first bounds."""
    tried: list[int] = []
    advance = deepening.Proof.advance
    monkeypatch.setattr(deepening.Proof, "advance", lambda *given: tried.append(given[2]) or advance(*given))
    one = ReverseSplitSpace(SplitProblem(kernels(random_rows(4)), "scamp5"))
    steps = [step for step in islice(one.exact_search(0, lambda: 0.05), 12) if step.candidate is not None]
    assert {step.candidate[METHOD] for step in steps if step.candidate} == {PROGRAM}
    assert sum(tried) <= EARLY_PROOF_WORK
