"""Long kernels whose constants change on the way: the program computes the kernels, is as long as its price says, and fits."""

from __future__ import annotations

import itertools
import random

import pytest

from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.registers import needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.changing_constants import (
    UNIT,
    ChangingProblem,
    annealed,
    changing_plans,
    first_steps,
    load_changing,
)
from kilotune.spaces.reverse_split.changing_writer import ChangingProgram, ConstantStep, changed, changing_plan
from kilotune.spaces.reverse_split.horner import horner_kernels
from kilotune.spaces.reverse_split.scheduling import fitted

TARGETS = ("auke", "scamp5")
DEPTH, SPARE = 7, 3

needs_compiler = pytest.mark.skipif(load_changing() is None, reason="needs a C compiler")


def kernels(seed: int, count: int, side: int = 3, largest: int = 127) -> list[Sum]:
    """Of odd weights over 128, with some room for halvings."""
    generator = random.Random(seed)
    cells = list(itertools.product(range(-1, side - 1), repeat=2))
    weights = [{cell: 2 * generator.randint(-largest // 2, largest // 2) + 1 for cell in cells} for _ in range(count)]
    return [Sum.of(one).scaled(1 << SPARE) for one in weights]


def found(problem: ChangingProblem, seed: int, slices: int = 6) -> ChangingProgram:
    *_, best = annealed(problem, iter([*(at / slices for at in range(slices)), 1.0]), seed)
    assert best is not None
    return best


@needs_compiler
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("count", "registers", "kept"), [(1, 6, True), (1, 5, True), (3, 6, True), (3, 5, False)])
def test_a_program_computes_the_kernels_in_the_registers_and_is_no_longer_than_its_price(
    target: str, count: int, registers: int, kept: bool
) -> None:
    for seed in range(2):
        sums = kernels(seed, count, largest=50)
        prepared = horner_kernels(sums, DEPTH + SPARE, target, registers - 1)
        best = found(ChangingProblem(prepared, registers, kept, 0.0), seed, slices=6 * count)
        plan = changing_plan(best)
        assert list(computed(plan)) == sums
        assert len(plan.steps) <= best.cost / UNIT
        ordered = fitted(plan, registers, kept)
        assert ordered is not None
        assert needed_registers(ordered, kept) <= registers
        assert len(ordered.steps) <= len(plan.steps) + 2  # copies, where a constant begins a walk


@needs_compiler
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("count", "registers"), [(4, 6), (3, 5), (2, 4)])
def test_a_beam_begins_the_last_walk_where_it_has_two_constants(target: str, count: int, registers: int) -> None:
    sums = kernels(count, count, side=2, largest=50)
    prepared = horner_kernels(sums, DEPTH + SPARE, target, registers - 1)
    problem = ChangingProblem(prepared, registers, True, 0.0)
    assert problem.has_beam
    best, (at_once,) = found(problem, 1, slices=12), [found_by_the_beam(problem)]
    for program in (best, at_once):
        plan = changing_plan(program)
        assert list(computed(plan)) == sums
        assert len(plan.steps) <= program.cost / UNIT
        ordered = fitted(plan, registers)
        assert ordered is not None
        assert needed_registers(ordered, True) <= registers
    plan = next(filter(None, changing_plans(sums, DEPTH + SPARE, target, registers, 1)))
    assert list(computed(plan)) == sums  # whichever is the last one


def found_by_the_beam(problem: ChangingProblem) -> ChangingProgram:
    """Of a search that ends where annealing of all would begin."""
    *_, best = annealed(problem, iter([0.0, 0.1, 0.2, 0.3, 1.0]), 1)
    assert best is not None
    return best


@needs_compiler
@pytest.mark.parametrize("target", TARGETS)
def test_a_beam_walks_over_cells_that_lie_hundreds_of_moves_apart(target: str) -> None:
    """Its stops take more instructions than they have ranks for."""
    cells = [(150 * (number % 3) * (-1) ** number, 150 * (number // 3)) for number in range(6)]
    far = Sum.of({cell: 2 * (number % 7) + 1 for number, cell in enumerate(cells)})
    sums = [total.scaled(1 << SPARE) for total in (Sum.of({(0, 0): 3, (1, 0): 5}), far)]
    problem = ChangingProblem(horner_kernels(sums, DEPTH + SPARE, target, 3), 4, True, 0.0)
    assert problem.has_beam
    best = found_by_the_beam(problem)
    plan = changing_plan(best)
    assert list(computed(plan)) == sums
    assert 256 < len(plan.steps) <= best.cost / UNIT


@needs_compiler
def test_constants_change_on_the_way() -> None:
    (total,) = kernels(5, 1, side=5)
    prepared = horner_kernels([total], DEPTH + SPARE, "scamp5", 5)
    best = found(ChangingProblem(prepared, 6, True, 0.0), 1, slices=12)
    assert any(step.at for step in best.steps)
    asked = ([total], DEPTH + SPARE, "scamp5", 6, 1)
    plan = next(filter(None, changing_plans(*asked)))
    assert computed(plan) == (total,)


@needs_compiler
@pytest.mark.parametrize(
    ("count", "registers", "kept", "largest", "why"),
    [
        (5, 6, True, 127, "one constant for the last"),
        (1, 3, True, 127, "two constants"),
        (1, 6, True, 1, "few digits"),
        (1, 6, True, 5000, "large weights"),
    ],
)
def test_no_plans(count: int, registers: int, kept: bool, largest: int, why: str) -> None:
    sums = kernels(1, count, largest=largest)
    assert list(changing_plans(sums, DEPTH + SPARE, "scamp5", registers, 1, kept=kept)) == [], why


@pytest.mark.parametrize(
    ("operation", "operands", "made"),
    [("add", (0, 1), 80), ("sub", (0, 1), 48), ("add three", (0, 1, 2), 84), ("neg", (1,), -16), ("halve", (2,), 2),
     ("addneg", (0, 2), -68)],
)  # fmt: skip
def test_steps_change_one_register(operation: str, operands: tuple[int, ...], made: int) -> None:
    assert changed([64, 16, 4], ConstantStep(operation, 2, operands, 0)) == [64, 16, made]


@pytest.mark.parametrize("registers", [4, 5, 6])
@pytest.mark.parametrize("bits", [0, 1, 4, 7, 11])
@pytest.mark.parametrize("largest", [1, 2, 6, 127, 2000])
def test_the_first_steps_halve_the_image_down_to_a_unit_and_hold_powers_of_three(
    largest: int, bits: int, registers: int
) -> None:
    image = 1 << bits
    steps = first_steps(image, registers, largest)
    held = [image, *[0] * (registers - 1)]
    for step in steps:
        operand, *further = step.operands
        assert held[operand]
        assert operand not in further  # the macros add and subtract two registers
        assert step.operation == "add" or step.into not in step.operands
        assert step.operation != "halve" or step.into < registers - 1
        held = changed(held, step)
    assert 1 in held
    halves = [step.into for step in steps if step.operation == "halve"]
    if 0 not in halves:
        free = registers - 1 - (1 + max(halves, default=0))
        wanted = [image * 3**power for power in range(1, free + 1) if 2 * image * 3 ** (power - 1) <= largest]
        assert {image, *wanted} <= set(held[: registers - 1])


@needs_compiler
def test_a_search_for_integers_has_a_program() -> None:
    """Their unit is the image. Of these no search that began at the image alone had one after 17 seconds."""
    generator = random.Random(203)
    cells = list(itertools.product(range(3), repeat=2))
    sums = [Sum.of({cell: generator.randint(-127, 127) for cell in cells}) for _ in range(5)]
    prepared = horner_kernels(sums, 0, "scamp5", 5)
    best = found(ChangingProblem(prepared, 6, False, 0.0), 1, slices=40)
    assert list(computed(changing_plan(best))) == sums
