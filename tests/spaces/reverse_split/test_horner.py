"""Horner's scheme over cells: the program computes its kernels, is as long as its price says, and fits."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.plan import Plan, computed
from kilotune.codegen.scamp.registers import legalised
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split import horner as module
from kilotune.spaces.reverse_split.cell_walks import CellWalk, cell_walk, spiral
from kilotune.spaces.reverse_split.constants import chain_of
from kilotune.spaces.reverse_split.horner import LARGEST_IMAGE, LARGEST_WEIGHT, horner_kernels, horner_plans
from kilotune.spaces.reverse_split.plan_writer import PlanWriter
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.term_prices import MISSING, absorptions, term_prices, walked, weight_tables

TARGETS = ("auke", "scamp5")
kernels = st.dictionaries(
    st.tuples(st.integers(-2, 2), st.integers(-2, 2)), st.integers(-60, 60).filter(bool), min_size=2, max_size=12
).map(Sum.of)
CONSTANTS = (1, -4, 15, 33)


def first_plan(sums: list[Sum], depth: int, target: str, registers: int = 6, image_stays: bool = False) -> Plan | None:
    found = horner_plans(sums, depth, target, registers, 1, image_stays=image_stays)
    return next((plan for plan in itertools.islice(found, 60) if plan is not None), None)


@pytest.mark.parametrize("box", [(-3, -3, 3, 3), (0, -1, 4, 1), (-1, 2, -1, 5), (2, 2, 2, 2), (-1, -1, 2, 1)])
def test_a_spiral_visits_every_cell_once_and_step_by_step(box: tuple[int, int, int, int]) -> None:
    west, south, east, north = box
    cells = list(spiral(*box))
    assert sorted(cells) == sorted((x, y) for x in range(west, east + 1) for y in range(south, north + 1))
    assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1 for a, b in itertools.pairwise(cells))


def test_a_square_is_walked_from_a_corner_to_the_middle() -> None:
    walk = cell_walk(Sum.of({(x, y): 1 for x in range(-3, 4) for y in range(-3, 4)}), 0, "scamp5")
    assert walk.cells[-1] == (0, 0)
    assert sum(walk.hops) == 48


@given(
    st.sets(st.integers(-300, 300).filter(bool), min_size=1, max_size=5), st.integers(0, 7), st.sampled_from(TARGETS)
)
@settings(max_examples=60, deadline=None)
def test_a_chain_makes_the_constants_in_as_many_instructions_as_it_says(
    constants: set[int], power: int, target: str
) -> None:
    image, spare = 1 << power, 4
    chain, writer = chain_of(frozenset(constants), image), PlanWriter(power + spare, target)
    made = chain.written(writer, image)
    for constant in constants:
        assert made[constant] == Sum((((0, 0), constant << spare),))
    plan = writer.plan([made[constant] for constant in sorted(constants)])
    assert len(plan.steps) <= chain.length


@given(st.lists(st.integers(-60, 60).filter(bool), min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_dynamic_programme_finds_what_trying_all_absorptions_finds(
    weights: list[int], generator: random.Random
) -> None:
    hops = (*(generator.randint(1, 3) for _ in weights[1:]), generator.randint(0, 2))
    walk = CellWalk(tuple((n, 0) for n in range(len(weights))), tuple(weights), hops, absorbs=True)
    prices = term_prices(len(CONSTANTS), "scamp5")
    tables = weight_tables(CONSTANTS, prices, walk.largest)
    last = len(weights) - 1
    best = MISSING
    for choice in itertools.product(*(absorptions(h, n == last) for n, h in enumerate(hops))):
        cost, taken = 0, 0
        for place, (weight, (out, taken_next)) in enumerate(zip(weights, choice, strict=True)):
            row = tables.inner[taken][out] if place else tables.first[out]
            cost, taken = cost + row[weight + tables.largest], taken_next
        best = min(best, cost)
    assert min(walked(walk, tables)[0], MISSING) == best


@given(kernels, st.sampled_from(TARGETS), st.sampled_from([(1, 3, 9, 27), CONSTANTS, (2, -5, 16, 40)]))
@settings(max_examples=120, deadline=None)
def test_a_program_computes_its_kernel_and_is_no_longer_than_its_price(
    total: Sum, target: str, constants: tuple[int, ...]
) -> None:
    prepared = horner_kernels([total], 5, target, len(constants))
    (walk,) = prepared.walks
    terms, _ = walked(walk, weight_tables(constants, prepared.prices, walk.largest))
    length = sum(walk.hops) + terms + chain_of(frozenset(constants), prepared.image).length
    if length < MISSING:
        plan = prepared.program(constants)
        assert computed(plan) == (total,)
        assert len(plan.steps) <= length
        assert len(legalised(plan).steps) <= length + 2  # a first term that is added to itself is copied


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(4))
def test_plans_fit_and_need_no_copies(target: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANNEALED", 12_000)
    generator = random.Random(seed)
    total = Sum.of({(x, y): 2 * generator.randint(-20, 20) + 1 for x in range(-2, 3) for y in range(-2, 3)})
    naive = sum(abs(weight).bit_count() for _, weight in total) + 2 * len(total.terms)
    for registers, image_stays in ((6, False), (6, True), (5, False)):
        plan = first_plan([total], 11, target, registers, image_stays)
        assert plan is not None
        assert computed(plan) == (total,)
        held = replace(plan, results=(*plan.results, 0)) if image_stays else plan
        assert fitted(held, registers) == held
        assert len(plan.steps) < naive / (1 if target == "auke" else 1.6)


def test_several_kernels_share_their_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANNEALED", 12_000)
    generator = random.Random(4)
    sums = [Sum.of({(x, y): generator.randint(1, 100) for x in (-1, 0, 1) for y in (-1, 0, 1)}) for _ in range(4)]
    plan = first_plan(sums, 7, "scamp5")
    assert plan is not None
    assert computed(plan) == tuple(sums)
    assert fitted(plan, 6, kept=False) is not None
    alone = [first_plan([total], 7, "scamp5") for total in sums]
    assert len(plan.steps) < sum(len(one.steps) for one in alone if one is not None)


def test_what_has_no_table_is_left_alone() -> None:
    assert not list(horner_plans([Sum.of({(0, 0): 3, (1, 0): -1, (2, 0): 2})], 4, "scamp5", 6, 0))
    assert not list(horner_plans([Sum.of({(0, 0): LARGEST_WEIGHT + 1, (1, 0): 1})], 4, "scamp5", 6, 0))
    assert not list(horner_plans([Sum.of({(0, 0): 21, (1, 0): 13})], LARGEST_IMAGE.bit_length(), "scamp5", 6, 0))
    assert not list(horner_plans([Sum.of({(0, 0): 43, (1, 0): 21})], 4, "scamp5", 2, 0))
