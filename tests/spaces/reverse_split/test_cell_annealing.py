"""Annealing over constants, walks and orders, compiled: its prices are those of the definitions in Python."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from kilotune.codegen.scamp.plan import computed
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.cell_annealing import (
    IMPOSSIBLE,
    UNIT,
    AnnealedProblem,
    WalkChoice,
    annealed,
    load_annealing,
)
from kilotune.spaces.reverse_split.cell_walks import CellWalk, reordered_walk
from kilotune.spaces.reverse_split.constants import chain_of
from kilotune.spaces.reverse_split.horner import HornerKernels, horner_kernels
from kilotune.spaces.reverse_split.term_prices import MISSING, term_prices, walked, weight_tables

pytestmark = pytest.mark.skipif(load_annealing() is None, reason="needs a C compiler")

TARGETS = ("auke", "scamp5")
FAR = 1 / 64


def kernels(generator: random.Random, count: int, target: str, largest: int = 90, constants: int = 5) -> HornerKernels:
    """Of some cells of a 4x4 square, the first weight odd, over 128."""
    cells = list(itertools.product(range(-1, 3), repeat=2))
    sums = []
    for _ in range(count):
        chosen = generator.sample(cells, generator.randint(3, 9))
        weights = {cell: generator.choice((1, -1)) * generator.randint(1, largest) for cell in chosen}
        sums.append(Sum.of({**weights, chosen[0]: 2 * generator.randint(-largest // 2, largest // 2 - 1) + 1}))
    return horner_kernels(sums, 7, target, constants)


def priced(problem: AnnealedProblem, choice: WalkChoice) -> WalkChoice:
    found = next(annealed(problem, choice, 0, 0))
    assert found is not None
    return found


def far_moves(walk: CellWalk) -> int:
    ways = itertools.pairwise([*walk.cells, (0, 0)])
    return sum((abs(a[0] - b[0]) + abs(a[1] - b[1])) // 2 for a, b in ways)


def length(problem: AnnealedProblem, prepared: HornerKernels, choice: WalkChoice) -> int:
    """As `priced` says it, by the definitions; at least `MISSING` where a weight is no sum of the constants."""
    cost = chain_of(frozenset(choice.constants), problem.image).length * UNIT
    for place, number in enumerate(choice.order):
        constants = choice.constants[: len(choice.constants) - place * problem.dropped]
        tables = weight_tables(
            constants, term_prices(len(constants), problem.target), max(w.largest for w in choice.walks)
        )
        walk = choice.walks[number]
        terms, _ = walked(walk, tables)
        far = round(FAR * UNIT) * far_moves(walk) if problem.target == "scamp5" else 0
        cost += (terms + sum(walk.hops)) * UNIT + far
    again = 0
    while problem.halvings and choice.constants[0] << again < problem.image:
        again += 1
    return cost + 2 * again * UNIT if cost < MISSING * UNIT else MISSING


def drawn(generator: random.Random, prepared: HornerKernels, problem: AnnealedProblem) -> WalkChoice:
    order = list(range(len(prepared.walks)))
    generator.shuffle(order)
    walks = [reordered_walk(walk, generator.sample(range(len(walk.cells)), len(walk.cells))) for walk in prepared.walks]
    constants = generator.sample([*range(1, 140), 256, 512, 516], prepared.constants)
    signed = [generator.choice((1, -1)) * constant for constant in constants]
    first = problem.image >> generator.randrange(max(1, problem.halvings))
    if problem.halvings and first not in constants:
        signed[0] = first
    return WalkChoice(tuple(signed), tuple(order), tuple(walks), IMPOSSIBLE)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dropped", "halvings"), [(0, 0), (0, 1), (1, 0), (1, 4)])
def test_prices_are_those_of_the_definitions(target: str, dropped: int, halvings: int) -> None:
    generator, met = random.Random(f"{target} {dropped} {halvings}"), [0, 0]
    for _ in range(25):
        prepared = kernels(generator, generator.randint(1, 3), target, largest=generator.choice((12, 40)))
        problem = AnnealedProblem(target, prepared.image, dropped, halvings, FAR)
        choice = drawn(generator, prepared, problem)
        if halvings and choice.constants[0] not in {problem.image >> n for n in range(halvings)}:
            continue
        expected, found = length(problem, prepared, choice), priced(problem, choice)
        met[found.possible] += 1
        assert found.cost == expected if found.possible else expected == MISSING
        assert replace(found, cost=IMPOSSIBLE) == choice
    assert all(met)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("large", [81, 1 << 24])
def test_sums_of_constants_beyond_all_weights_are_no_weights(target: str, large: int) -> None:
    """Powers of three where all weights are small: what five constants come to is far from any weight, or from all memory."""
    total = Sum.of({(0, 0): 3, (1, 0): -3, (0, 1): 2, (1, 1): 1})
    prepared = horner_kernels([total], 1, target, 5)
    start = WalkChoice((1, 3, 9, 27, large), (0,), prepared.walks, IMPOSSIBLE)
    problem = AnnealedProblem(target, prepared.image, 0, 0, FAR)
    assert priced(problem, start).cost == length(problem, prepared, start)
    found = [one for one in annealed(problem, start, 4_000, 1) if one is not None][-1]
    assert found.possible
    assert found.cost == length(problem, prepared, found)


@pytest.mark.parametrize("target", TARGETS)
def test_a_search_gains_keeps_what_is_fixed_and_says_its_price(target: str) -> None:
    generator = random.Random(target)
    prepared = kernels(generator, 3, target)
    start = WalkChoice((16, 7, 49, 3, 5), (0, 1, 2), prepared.walks, IMPOSSIBLE)
    problem = AnnealedProblem(target, prepared.image, 1, 4, FAR)
    choices = [one for one in annealed(problem, start, 24_000, 3) if one is not None]
    assert [one.cost for one in choices] == sorted((one.cost for one in choices), reverse=True)
    best = choices[-1]
    assert best.possible
    assert best.cost == length(problem, prepared, best) < 0.9 * priced(problem, start).cost
    assert best.constants[0] in {prepared.image >> n for n in range(4)}
    assert len({abs(constant) for constant in best.constants}) == 5
    assert sorted(best.order) == [0, 1, 2]
    for walk, old in zip(best.walks, prepared.walks, strict=True):
        assert sorted(zip(walk.cells, walk.weights, strict=True)) == sorted(zip(old.cells, old.weights, strict=True))
    again = [one for one in annealed(problem, start, 24_000, 3) if one is not None]
    assert again == choices


def test_a_walk_of_its_own_choice_computes_its_kernel() -> None:
    """Walks that jump by two cells, in any order."""
    generator = random.Random(8)
    cells = list(itertools.product(range(-1, 2), repeat=2))
    total = Sum.of({cell: 2 * generator.randint(-40, 40) + 1 for cell in cells})
    prepared = horner_kernels([total], 7, "scamp5", 4)
    start = WalkChoice((1, 4, 16, 64), (0,), prepared.walks, IMPOSSIBLE)
    found = list(annealed(AnnealedProblem("scamp5", prepared.image, 0, 0, FAR), start, 16_000, 1))[-1]
    assert found is not None
    assert found.walks != prepared.walks
    chosen = replace(prepared, walks=found.walks)
    plan = chosen.program(found.constants)
    assert computed(plan) == (total,)
    assert len(plan.steps) <= found.cost // UNIT
