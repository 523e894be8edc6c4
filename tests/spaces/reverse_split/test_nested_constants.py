"""Kernels by one list of constants, of which each takes fewer: the program computes them, is as long as its price says, and fits."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.registers import needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split import nested_constants as module
from kilotune.spaces.reverse_split.cell_annealing import IMPOSSIBLE, UNIT, AnnealedProblem, WalkChoice, annealed
from kilotune.spaces.reverse_split.horner import horner_kernels
from kilotune.spaces.reverse_split.nested_constants import HALVINGS, most_nested, nested_plans, nested_program
from kilotune.spaces.reverse_split.one_by_one import KernelSearch
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, load_kernel

TARGETS = ("auke", "scamp5")
DEPTH, SPARE = 7, 4


def kernels(seed: int, count: int, largest: int = 127) -> list[Sum]:
    """Of 3x3 odd weights over 128, with some room for halvings."""
    generator = random.Random(seed)
    cells = list(itertools.product((-1, 0, 1), repeat=2))
    weights = [{cell: 2 * generator.randint(-largest // 2, largest // 2) + 1 for cell in cells} for _ in range(count)]
    return [Sum.of(one).scaled(1 << SPARE) for one in weights]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_program_is_no_longer_than_its_price_in_every_order(target: str, order: tuple[int, ...]) -> None:
    sums = kernels(3, 3, largest=30)
    prepared = horner_kernels(sums, DEPTH + SPARE, target, 5)
    problem = AnnealedProblem(target, prepared.image, 1, 0, 0.0)
    start = WalkChoice((1, 4, -15, 9, 24), order, prepared.walks, IMPOSSIBLE)
    choice = next(annealed(problem, start, 0, 0))
    assert choice is not None
    assert choice.possible
    plan = nested_program(prepared, choice, 1)
    assert computed(plan) == (*sums, Sum.of({(0, 0): 1}).scaled(1 << SPARE))
    assert len(plan.steps) <= choice.cost / UNIT


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("count", "registers", "image_stays"), [(3, 6, True), (3, 6, False), (2, 5, True), (1, 4, False)]
)
def test_plans_fit_while_the_results_wait(
    target: str, count: int, registers: int, image_stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ANNEALED", 20_000)
    sums = kernels(count, count)
    found = nested_plans(sums, DEPTH + SPARE, target, registers, 1, image_stays=image_stays)
    plan = next((one for one in itertools.islice(found, 60) if one is not None), None)
    assert plan is not None
    assert needed_registers(plan) <= registers
    results = computed(plan)
    assert list(results[:count]) == sums
    assert len(results) == count + image_stays
    if image_stays:
        image = Sum.image(DEPTH + SPARE)
        halved = image.cardinality // results[-1].cardinality
        assert results[-1].scaled(halved) == image
        assert math.log2(halved) < HALVINGS


def test_what_is_too_much_or_too_simple_is_left_alone() -> None:
    assert most_nested(6) == 3
    assert not list(nested_plans(kernels(1, 4), DEPTH + SPARE, "scamp5", 6, 0))
    assert not list(nested_plans([Sum.of({(0, 0): 3, (1, 0): -1, (2, 0): 2})], 4, "scamp5", 6, 0))
    assert not list(nested_plans([], 4, "scamp5", 6, 0))


@pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")
@pytest.mark.parametrize("target", TARGETS)
def test_kernels_beyond_those_that_share_constants_follow_from_the_image(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ANNEALED", 30_000)
    monkeypatch.setattr("kilotune.spaces.reverse_split.one_by_one.MOST_NESTINGS", 1)
    monkeypatch.setattr("kilotune.spaces.reverse_split.one_by_one.remainders", None)  # they are not asked for
    wanted = tuple(kernels(8, 4))
    search = KernelSearch(
        target, DEPTH + SPARE, INSTRUCTIONS, 6, seed=1, seconds_left=lambda: math.inf, kept=True, steps=2
    )
    plan = next(found for found in search.plans(wanted) if found is not None)
    assert computed(plan) == wanted
    assert needed_registers(plan) <= 6
