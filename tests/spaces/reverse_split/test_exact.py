"""The search for shortest programs: against all short programs, known optima, and exact execution of the text."""

from __future__ import annotations

import itertools
import random

import pytest

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed, evaluate
from kilotune.codegen.scamp.registers import allocate, needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.spaces.reverse_split.bounds import chain_length, lower_bound
from kilotune.spaces.reverse_split.construction import divided, factorised, separated, starting_plans
from kilotune.spaces.reverse_split.exact import IncumbentProgram, shortest_program
from kilotune.spaces.reverse_split.first_program import first_plans
from kilotune.spaces.reverse_split.improvement import ProgramWalk, plan_cost
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import (
    BUS_TRANSFERS,
    INSTRUCTIONS,
    Costs,
    ProgramQuery,
    Searcher,
    load_kernel,
    residue,
    verified,
)
from kilotune.spaces.reverse_split.space import ReverseSplitSpace
from kilotune.spaces.reverse_split.trivial_results import with_trivial, without_trivial
from tests.spaces.reverse_split.small_programs import brute_force, random_plan

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")
MOST_STEPS = 200


def kernel(*rows: tuple[int, ...]) -> Sum:
    middle = len(rows) // 2
    return Sum.of(
        ((x - (len(row) - 1) // 2, middle - y), weight) for y, row in enumerate(rows) for x, weight in enumerate(row)
    )


def box(size: int) -> Sum:
    return kernel(*((1,) * size,) * size)


SOBEL = kernel((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))
PREWITT = kernel((-1, 0, 1), (-1, 0, 1), (-1, 0, 1))
LAPLACIAN = kernel((0, -1, 0), (-1, 4, -1), (0, -1, 0))
LAPLACIAN8 = kernel((-1, -1, -1), (-1, 8, -1), (-1, -1, -1))
SHARPEN = kernel((0, -1, 0), (-1, 5, -1), (0, -1, 0))
GAUSS3 = kernel((1, 2, 1), (2, 4, 2), (1, 2, 1))


def searched(
    targets: tuple[Sum, ...], target: str, depth: int = 0, objective: str = "instructions", length: int = 0
) -> IncumbentProgram:
    """The standing where the search ends, or has found a program of `length`. Its text is proved."""
    for found in itertools.islice(shortest_program(targets, target, depth, objective), MOST_STEPS):
        if found.complete or (found.plan is not None and found.cost <= length):
            break
    assert found.plan is not None
    assert found.bound <= found.cost
    prove(format_program(allocate(found.plan)), targets, depth)
    return found


@pytest.mark.parametrize(
    ("target", "costs", "most"),
    [("auke", INSTRUCTIONS, 3), ("scamp5", INSTRUCTIONS, 2), ("scamp5", BUS_TRANSFERS, 5)],
)
def test_all_short_programs_agree(target: str, costs: Costs, most: int) -> None:
    depth = 3
    least = brute_force(target, depth, costs, most)
    sums = sorted(least, key=lambda total: total.terms)
    chosen = random.Random(0).sample(sums, 250)
    for total in chosen:
        searcher = Searcher(ProgramQuery(target, depth, (total,), costs))
        assert lower_bound((total,), depth, target, costs) <= least[total]
        for budget in range(least[total]):
            assert searcher.ask(budget, 1 << 30).status is ProgramStatus.EXHAUSTED
        answer = searcher.ask(least[total], 1 << 30)
        assert answer.plan is not None
        assert plan_cost(answer.plan, costs) == least[total]
        (result,) = computed(answer.plan)
        assert result == total.scaled(1 << (answer.plan.depth - depth))


@pytest.mark.parametrize(("target", "length"), [("auke", 6), ("scamp5", 4)])
def test_never_longer_than_the_program_that_made_it(target: str, length: int) -> None:
    generator = random.Random(1)
    for _ in range(25):
        plan = random_plan(target, length, 4, generator)
        totals = computed(plan)
        assert lower_bound(totals, 4, target) <= length
        searcher = Searcher(ProgramQuery(target, 4, totals))
        answers = [searcher.ask(budget, 1 << 30) for budget in range(1, length + 1)]
        assert any(answer.status is ProgramStatus.FOUND for answer in answers)


def test_several_sums_at_once_never_cost_more_than_the_program_of_them_all() -> None:
    generator = random.Random(2)
    for _ in range(15):
        plan = random_plan("auke", 5, 3, generator)
        values = [value for value in dict.fromkeys(evaluate(plan)[1:]) if value and value != Sum.image(3)]
        chosen = tuple(generator.sample(values, min(2, len(values))))
        searcher = Searcher(ProgramQuery("auke", 3, chosen))
        assert any(searcher.ask(budget, 1 << 30).status is ProgramStatus.FOUND for budget in range(1, 6))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("total", "target", "optimum"),
    [
        (SOBEL, "auke", 7),
        (box(3), "auke", 8),
        (LAPLACIAN, "auke", 9),
        (kernel((0, 1, 0), (1, 0, 1), (0, 1, 0)), "auke", 6),  # (x + y)(1 + 1/xy): two values wait for one addition
        (PREWITT, "scamp5", 4),
        (SOBEL, "scamp5", 5),
        (LAPLACIAN, "scamp5", 5),
        (SHARPEN, "scamp5", 5),
        (box(3), "scamp5", 6),
    ],
)
def test_known_optima_are_found_and_proved(total: Sum, target: str, optimum: int) -> None:
    found = searched((total,), target)
    assert found.complete
    assert found.proved
    assert found.cost == optimum == len(found.plan.steps if found.plan else ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("total", "depth", "target", "length"),
    [
        (box(5), 0, "auke", 14),
        (GAUSS3, 4, "auke", 12),
        (SHARPEN, 0, "auke", 10),
        (LAPLACIAN8, 0, "auke", 12),
        (box(5), 0, "scamp5", 8),
        (GAUSS3, 4, "scamp5", 10),
    ],
)
def test_longer_programs_are_as_short_as_known(total: Sum, depth: int, target: str, length: int) -> None:
    assert searched((total,), target, depth, length=length).cost <= length


@pytest.mark.parametrize("registers", [3, 4, 5, 6])
def test_the_number_of_registers_does_not_matter(registers: int) -> None:
    steps = shortest_program((box(3),), "auke", 0, registers=registers)
    last = next(found for found in itertools.islice(steps, MOST_STEPS) if found.complete)
    assert last.plan is not None
    assert last.cost == 8
    assert needed_registers(last.plan) <= registers or len(allocate(last.plan, registers).operations) == 8


@pytest.mark.slow
def test_a_question_goes_on_where_it_stopped() -> None:
    searcher = Searcher(ProgramQuery("auke", 0, (LAPLACIAN,)))
    whole = searcher.ask(8, 1 << 40)
    assert whole.status is ProgramStatus.EXHAUSTED
    path: tuple[int, ...] = ()
    work = slices = 0
    while True:
        answer = searcher.ask(8, 100_000, path)
        work, slices, path = work + answer.work, slices + 1, answer.path
        if answer.status is not ProgramStatus.STOPPED:
            break
    assert answer.status is ProgramStatus.EXHAUSTED
    assert slices > 5
    assert whole.work <= work < 1.1 * whole.work


def test_trivial_and_repeated_kernels() -> None:
    image, zero = Sum.image(2), Sum()
    assert searched((image,), "auke", 2).cost == 0
    assert searched((zero,), "scamp5", 2).cost == 1
    shifted = image.shifted((1, 0))
    found = searched((shifted, image, zero, shifted), "scamp5", 2)
    assert found.cost == 2
    assert found.plan is not None
    assert computed(found.plan) == (shifted, image, zero, shifted)


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    runs = [list(itertools.islice(shortest_program((LAPLACIAN8,), "auke", 0, seed=5), 6)) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_walk_keeps_the_results_and_never_gets_dearer() -> None:
    plan = max(starting_plans((GAUSS3,), 4, "auke"), key=lambda start: len(start.steps))
    walk = ProgramWalk(plan, (GAUSS3,), INSTRUCTIONS, seed=3)
    costs = [walk.cost]
    for _ in range(3):
        assert computed(walk.advance(20_000)) == (GAUSS3,)
        costs.append(walk.cost)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


@pytest.mark.parametrize("target", ["auke", "scamp5"])
def test_starts_compute_their_sums(target: str) -> None:
    for total, depth in ((GAUSS3, 4), (SHARPEN, 0), (LAPLACIAN8, 0), (box(4), 2), (SOBEL, 1)):
        plans = list(starting_plans((total,), depth, target))
        assert plans
        assert all(computed(plan) == (total,) for plan in plans)


def test_factors_multiply_to_the_sum() -> None:
    binomial = Sum.of(((x, y), a * b) for x, a in enumerate((1, 3, 3, 1)) for y, b in enumerate((1, 3, 3, 1)))
    core, factors = factorised(binomial)
    assert core == Sum.of({(0, 0): 1})
    assert factors == [((1, 0), 1)] * 3 + [((0, 1), 1)] * 3
    assert divided(SHARPEN, (1, 0), 1) is None
    assert separated(LAPLACIAN) is None
    parts = separated(GAUSS3)
    assert parts is not None
    product = [((a[0] + b[0], a[1] + b[1]), v * w) for a, v in parts[0] for b, w in parts[1]]
    assert Sum.of(product) == GAUSS3


def test_chains_count_additions_subtractions_and_halvings() -> None:
    assert [chain_length(number, 0) for number in (1, 2, 3, 4, 5, 7, 9, -1)] == [0, 1, 2, 2, 3, 4, 4, 1]
    assert chain_length(31, 0) == 6  # 32 - 1: one less than the shortest addition chain
    assert chain_length(1, 2) == 2


@pytest.mark.parametrize(
    ("total", "depth", "auke", "scamp5"),
    [
        (SOBEL, 0, 7, 3),
        (box(3), 0, 8, 3),
        (box(5), 0, 14, 5),
        (box(7), 0, 19, 6),  # the facts say 18: no six additions and subtractions make 49
        (GAUSS3, 4, 12, 7),
        (LAPLACIAN, 0, 7, 3),
        (LAPLACIAN8, 0, 8, 4),  # the facts say 3: absolute weights of 16 take more
        (SHARPEN, 0, 8, 3),
    ],
)
def test_bounds_are_those_of_the_facts(total: Sum, depth: int, auke: int, scamp5: int) -> None:
    assert lower_bound((total,), depth, "auke") == auke
    assert lower_bound((total,), depth, "scamp5") == scamp5


def test_evaluation_respects_the_operations() -> None:
    x, y = 123456789, 987654321
    modulus = (1 << 61) - 1
    a, b = residue(SOBEL, 3, x, y), residue(GAUSS3, 3, x, y)
    assert residue(SOBEL + GAUSS3, 3, x, y) == (a + b) % modulus
    assert residue(GAUSS3.shifted((1, 0)), 3, x, y) == b * x % modulus
    assert residue(GAUSS3.scaled(2), 4, x, y) == b


def test_a_wrong_plan_is_refused() -> None:
    plan = Plan("auke", 0, (PlanStep("east", (0,)),), (1,))
    with pytest.raises(ArithmeticError):
        verified(plan, (Sum.image(0),))


def test_a_start_that_halves_before_there_is_room_for_it_is_left_out() -> None:
    """Relaxing the shared program of this kernel of 8 bits puts divisions before weights that are odd at its depth."""
    rows = [[36, -92, 22], [64, 112, -18], [-56, 8, 100]]
    space = ReverseSplitSpace(SplitProblem(KernelSet((Kernel.of_rows(rows),)).approximate(0), "scamp5"))
    found = [step.candidate for step in itertools.islice(space.exact_search(0), 4)]
    assert all(space.evaluate([candidate])[0].failure is None for candidate in found if candidate is not None)


@pytest.mark.parametrize("objective", ["instructions", "transfers"])
def test_known_programs_of_kernels_that_need_none_are_taken(objective: str) -> None:
    """A zero, the image itself and a kernel given twice, beside two that have to be computed."""
    targets = (Sum(), Sum.image(3), GAUSS3, SOBEL, GAUSS3)
    found = None
    for start in itertools.islice(first_plans(targets, "scamp5", 3, 6), 2):
        few = without_trivial(start, (GAUSS3, SOBEL), targets)
        assert computed(few) == (GAUSS3, SOBEL)
        assert with_trivial(few, (GAUSS3, SOBEL), targets, 3) == start
        *_, found = itertools.islice(shortest_program(targets, "scamp5", 3, objective, starts=(start,)), 4)
        assert found.plan is not None
        assert computed(found.plan) == tuple(t.scaled(1 << (found.plan.depth - 3)) for t in targets)
    assert found is not None


def test_a_long_program_is_bounded_at_once() -> None:
    """Six ternary kernels, whose shortest known program has 21 macros: the facts alone say 6, a moment of proof 10."""
    generator = random.Random(6)
    kernels = tuple(
        kernel(*(tuple(generator.choice((-1, 0, 1)) for _ in range(3)) for _ in range(3))) for _ in range(6)
    )
    facts = lower_bound(kernels, 0, "scamp5")
    standings = itertools.islice(shortest_program(kernels, "scamp5", 0, least=facts), 12)
    early = next(found for found in standings if found.bound >= facts + 2)
    assert early.cost > 14 > early.bound
