"""Moves with a price: the checker's rule for memmoves, and the least bytes moved against brute force."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.result import Result
from kilotune.search.study import Study
from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.checker import (
    PlacementError,
    Residence,
    check_costs,
    check_residences,
    migrations_in_order,
)
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.procedure import block_allocation
from kilotune.spaces.memory.space import MemorySpace
from tests.spaces.memory.moving import least_moved
from tests.spaces.memory.problems import instances, make, random_instance

# Unaligned buffers, and the live sum as capacity: no placement fits, and moving so many bytes is enough (brute force, in
# `moving.py`); the last column is what the paper's defragmentation moves.
FRAGMENTED = (
    ([(0, 4, 1), (5, 7, 4), (1, 5, 2), (5, 7, 1), (3, 7, 2), (4, 5, 3), (2, 3, 4), (0, 1, 4), (0, 2, 1), (3, 4, 1), (3, 4, 1)], 7, 1, 5),
    ([(2, 4, 1), (0, 2, 2), (4, 6, 2), (0, 5, 1), (3, 5, 2), (0, 1, 2), (1, 4, 1), (1, 3, 1)], 5, 1, 3),
    ([(4, 8, 2), (0, 1, 2), (3, 5, 2), (2, 5, 1), (5, 7, 3), (0, 3, 3), (1, 4, 1)], 5, 1, 3),
)  # fmt: skip


def moving(capacity: int | None, price: Fraction | int = 1, most: int | None = None) -> MemoryMap:
    return MemoryMap((Bank("ram", capacity),), Fraction(price), most)


def run(space: PricedSpace, strategy: str, trials: int = 200) -> Result:
    return Study(space, strategy).run(InProcessExecutor(space), Budget(trials=trials))


TWO = make((0, 9, 4), (0, 9, 4), (5, 9, 4))


def moved(*stays: tuple[str, int, int, int]) -> list[Residence]:
    return [Residence(*stay) for stay in stays]


def test_two_buffers_cannot_change_places() -> None:
    swapped = moved(("b0", 0, 5, 0), ("b0", 5, 9, 4), ("b1", 0, 5, 4), ("b1", 5, 9, 0), ("b2", 5, 9, 8))
    with pytest.raises(PlacementError, match="No order of memmoves executes the moves of b0, b1 at program point 5"):
        check_residences(TWO, swapped)


def test_a_chain_of_moves_is_ordered_by_who_must_leave_first() -> None:
    chain = moved(("b0", 0, 5, 0), ("b0", 5, 9, 4), ("b1", 0, 5, 4), ("b1", 5, 9, 8), ("b2", 5, 9, 0))
    assert check_residences(TWO, chain) == 12
    assert [(m.id, m.source, m.target) for m in migrations_in_order(TWO, chain)] == [("b1", 4, 8), ("b0", 0, 4)]


def test_a_move_may_overlap_itself_but_nothing_that_stays() -> None:
    slide = moved(("b0", 0, 5, 0), ("b0", 5, 9, 2), ("b1", 0, 9, 8), ("b2", 5, 9, 12))
    assert [m.size for m in migrations_in_order(TWO, slide)] == [4]
    assert check_residences(TWO, slide) == 16
    with pytest.raises(PlacementError, match="share bytes 8 to 9"):
        check_residences(TWO, moved(("b0", 0, 5, 0), ("b0", 5, 9, 6), ("b1", 0, 9, 8), ("b2", 5, 9, 12)))


def test_the_bill_counts_bytes_and_moves() -> None:
    slide = [
        dataclasses.replace(r, bank="ram")
        for r in moved(("b0", 0, 5, 0), ("b0", 5, 9, 2), ("b1", 0, 9, 8), ("b2", 5, 9, 12))
    ]
    bill = check_costs(TWO, moving(None, Fraction(1, 2)), slide)
    assert (bill.bytes_migrated, bill.cost) == (4, 16 + 2)
    assert check_costs(TWO, moving(16, 3), slide).cost == 12
    for memory, said in (
        (moving(None, 1, 0), "moves 1 time,"),
        (MemoryMap((Bank("ram"),)), "nothing may move"),
        (moving(15), "above the capacity of 15"),
    ):
        with pytest.raises(PlacementError, match=said):
            check_costs(TWO, memory, slide)


@pytest.mark.parametrize("strategy", ["exhaustive", "cp"])
@pytest.mark.parametrize("case", FRAGMENTED)
def test_few_moved_bytes_are_enough_where_nothing_fits_without(case, strategy: str) -> None:  # type: ignore[no-untyped-def]
    rows, capacity, least, paper = case
    instance = make(*rows)
    plain = MemorySpace(instance, capacity)
    assert not Study(plain, "exhaustive").run(InProcessExecutor(plain)).feasible
    space = PricedSpace(instance, moving(capacity))
    result = run(space, strategy)
    assert result.proved
    assert result.best is not None
    assert result.best.measurement.metrics["bytes_migrated"] == result.bound == least
    answer = run_procedure(space)
    assert answer is not None
    assert answer.measurement.metrics["bytes_migrated"] == paper
    assert block_allocation(instance, capacity).bytes_migrated == paper


@pytest.mark.parametrize("case", FRAGMENTED[1:])
def test_brute_force_says_the_same(case) -> None:  # type: ignore[no-untyped-def]
    rows, capacity, least, _ = case
    assert least_moved(make(*rows), capacity) == least


@settings(max_examples=25)
@given(instances(most=5), st.integers(0, 2), st.sampled_from((Fraction(1, 3), Fraction(2))))
def test_peak_and_price_against_brute_force(instance: Instance, slack: int, price: Fraction) -> None:
    live = largest_live_sum(instance).peak_bytes
    if live > 7:
        return
    by_capacity = {c: least_moved(instance, c) for c in range(live, live + 3 + slack)}
    fitting = {c: moved for c, moved in by_capacity.items() if moved is not None}
    for strategy in ("exhaustive", "cp"):
        result = run(PricedSpace(instance, moving(None, price)), strategy)
        assert result.proved
        assert result.best is not None
        if fitting and 0 in fitting.values():  # more bytes than that buy nothing
            expected = min(c + price * moved for c, moved in fitting.items())
            assert result.best.measurement.metrics["cost"] == float(expected)


@pytest.mark.parametrize("strategy", ["exhaustive", "cp"])
def test_a_move_may_lower_the_peak_below_every_placement_without_one(strategy: str) -> None:
    """Alignment forbids 7 bytes without a move; moving the 2 bytes of b2 once allows them."""
    instance = make((3, 7, 5), (1, 2, 1, 4), (1, 5, 2), (5, 7, 2, 4), (0, 3, 1, 4))
    assert [least_moved(instance, capacity) for capacity in (7, 8)] == [2, 0]
    result = run(PricedSpace(instance, moving(None, Fraction(1, 4))), strategy)
    assert result.proved
    assert result.best is not None
    assert result.best.measurement.metrics["cost"] == 7.5


@pytest.mark.parametrize("seed", range(6))
def test_without_moves_the_price_changes_nothing(seed: int) -> None:
    instance = random_instance(seed, 9, aligned=True)
    plain = MemorySpace(instance)
    peak = Study(plain, "exhaustive").run(InProcessExecutor(plain)).bound
    for strategy in ("exhaustive", "cp"):
        result = run(PricedSpace(instance, moving(None, 1, most=0)), strategy)
        assert (result.bound, result.proved) == (peak, True)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["local", "random", "refine"])
def test_other_strategies_find_moves(strategy: str) -> None:
    rows, capacity, least, paper = FRAGMENTED[2]
    result = run(PricedSpace(make(*rows), moving(capacity)), strategy, 300)
    assert result.feasible
    assert result.best is not None
    assert least <= result.best.measurement.metrics["cost"] <= (paper if strategy == "refine" else 99)


def test_tpe_searches_flat_plans() -> None:
    rows, capacity, least, _ = FRAGMENTED[2]
    space = PricedSpace(make(*rows), moving(capacity))
    result = run(space, "tpe", 150)
    assert result.best is not None
    assert result.best.measurement.metrics["cost"] >= (least if result.feasible else 0)
    assert result.feasible


def test_explicit_placements_survive_the_store_s_encoding() -> None:
    rows, capacity, _, _ = FRAGMENTED[0]
    space = PricedSpace(make(*rows), moving(capacity))
    study = Study(space, "exhaustive")
    best = study.run(InProcessExecutor(space)).best
    assert best is not None
    again = next(t for t in study.trials() if t.number == best.number)
    assert space.evaluate([again.assignment]) == [best.measurement]
