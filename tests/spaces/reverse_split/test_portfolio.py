"""Walks: halved by merit, kept to the registers, squeezed where they do not fit."""

from __future__ import annotations

import itertools
import math

import pytest

import kilotune.spaces.reverse_split.portfolio as portfolio_module
from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.plan import Plan, computed
from kilotune.codegen.scamp.registers import allocate, fits
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.construction import starting_plans
from kilotune.spaces.reverse_split.exact import shortest_program
from kilotune.spaces.reverse_split.improvement import ProgramWalk, plan_cost
from kilotune.spaces.reverse_split.portfolio import (
    SHORT_UNFIT,
    STALE,
    STALE_SHORT,
    WORK_OF_A_START,
    WalkLimits,
    WalkPortfolio,
)
from kilotune.spaces.reverse_split.programs import BUS_TRANSFERS, INSTRUCTIONS, load_kernel
from kilotune.spaces.reverse_split.scheduling import MOST_REGISTERS, least_registers
from kilotune.spaces.reverse_split.slices import WorkSlices

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")

DEPTH = 4
ANALOG_NET = (
    ((0, 0, 0), (-3, 1, 0), (-3, 0, 2)),
    ((-4, -1, 1), (-1, 2, 0), (1, 1, 0)),
    ((-1, 2, 0), (-1, 1, -3), (0, -3, 0)),
)
KERNELS = KernelSet(tuple(Kernel.of_rows(rows) for rows in ANALOG_NET)).approximate(0).sums
WANTED = tuple(total.scaled(4) for total in KERNELS)
"""AnalogNet2's first layer in quarters, in units of a sixteenth."""


class ShortSlices(WorkSlices):
    """At most 5000."""

    def slice(self, work: int) -> int:
        return min(work, 5_000)


def starts() -> list[Plan]:
    return list(starting_plans(WANTED, DEPTH, "scamp5"))


def test_a_walk_never_takes_more_registers_than_before() -> None:
    tight = max(starts(), key=lambda plan: least_registers(plan, MOST_REGISTERS))
    taken = least_registers(tight, MOST_REGISTERS)
    assert taken > 5
    walk = ProgramWalk(tight, WANTED, INSTRUCTIONS, seed=2, registers=5)
    for _ in range(6):
        plan = walk.advance(10_000)
        now = least_registers(plan, MOST_REGISTERS)
        assert now <= taken
        assert walk.excess == max(0, now - 5)
        taken = max(now, 5)
    assert plan_cost(plan, INSTRUCTIONS) < plan_cost(tight, INSTRUCTIONS)


def test_several_kernels_at_once_are_short_within_a_few_steps_and_fit() -> None:
    *_, last = itertools.islice(shortest_program(WANTED, "scamp5", DEPTH), 12)
    assert last.plan is not None
    assert last.cost <= 24
    assert fits(last.plan, 6)
    assert computed(allocate_again(last.plan)) == tuple(total.scaled(1 << last.plan.depth - DEPTH) for total in WANTED)


def allocate_again(plan: Plan) -> Plan:
    """The plan, after its registers were found."""
    assert len(allocate(plan).operations) == len(plan.steps)
    return plan


def test_halving_gives_the_better_walks_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    whole = ProgramWalk.advance

    def advance(walk: ProgramWalk, work: int = 0) -> Plan:
        given.append((id(walk), work))
        return whole(walk, 400)

    monkeypatch.setattr(ProgramWalk, "advance", advance)
    portfolio = WalkPortfolio(WANTED, (INSTRUCTIONS,), 6, 0, WorkSlices(lambda: math.inf))
    plans = starts()[:4]
    list(itertools.islice(portfolio.plans(plans, WalkLimits(1 << 30)), 6))
    assert [work for _, work in given] == [WORK_OF_A_START] * 4 + [2 * WORK_OF_A_START] * 2
    assert len({walk for walk, _ in given[:4]}) == 4
    assert {walk for walk, _ in given[4:]} < {walk for walk, _ in given[:4]}


def asked_works(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The work that each slice of a walk is asked for from now on; all of them do little."""
    works: list[int] = []
    whole = ProgramWalk.advance

    def advance(walk: ProgramWalk, work: int = 0) -> Plan:
        works.append(work)
        return whole(walk, 400)

    monkeypatch.setattr(ProgramWalk, "advance", advance)
    return works


def test_where_nothing_gets_cheaper_walks_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    works = asked_works(monkeypatch)
    monkeypatch.setattr(portfolio_module, "SHORT_WALK", 0)
    plans = starts()[:4]
    short = min(plans, key=lambda plan: len(plan.steps))
    assert len(short.steps) <= SHORT_UNFIT
    cases = ((short, BUS_TRANSFERS, True), (None, BUS_TRANSFERS, False), (None, INSTRUCTIONS, True))
    for unfit, costs, again in cases:  # values are exchanged where all instructions cost the same
        works.clear()
        portfolio = WalkPortfolio(WANTED, (costs,), 6, 0, WorkSlices(lambda: math.inf))
        list(itertools.islice(portfolio.plans(plans, WalkLimits(1 << 30, unfit)), 6 + STALE + 2))
        later = works[6:]  # after the first halving of four walks
        assert (later[STALE - 1 :][:2] == [WORK_OF_A_START] * 2) == again


def test_walks_of_short_programs_begin_anew_as_soon_as_they_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    works = asked_works(monkeypatch)
    monkeypatch.setattr(portfolio_module, "SHORT_WALK", 1_000)
    limits = WalkLimits(1)  # nothing is cheaper than the best
    portfolio = WalkPortfolio(WANTED, (INSTRUCTIONS,), 6, 0, WorkSlices(lambda: math.inf))
    list(itertools.islice(portfolio.plans(starts()[:4], limits), 6 + STALE_SHORT + 6))
    # four walks are halved, then as many from the two shorter starts
    assert works[:6] == works[6 + STALE_SHORT - 1 :][:6]


def test_what_fits_no_registers_is_squeezed_and_stays_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = max(starts(), key=lambda plan: least_registers(plan, MOST_REGISTERS))
    standing = WalkLimits(plan_cost(tight, INSTRUCTIONS) + 3, unfit=tight)
    portfolio = WalkPortfolio(WANTED, (INSTRUCTIONS,), 5, 0, ShortSlices(lambda: math.inf))
    plans = list(itertools.islice(portfolio.plans([tight], standing), 6))
    squeezed = plans[1::2]
    assert all(plan_cost(plan, INSTRUCTIONS) < standing.best_cost for plan in squeezed)
    needs = [least_registers(plan, MOST_REGISTERS) for plan in squeezed]
    waiting = [
        need for need in needs if need > 5
    ]  # others are what was found to fit on the way, with values computed twice
    assert waiting == sorted(waiting, reverse=True)


def test_the_identity_and_zero_walk_nowhere() -> None:
    for wanted in ((Sum.image(0),), (Sum(),)):
        *_, last = shortest_program(wanted, "scamp5", 0)
        assert last.complete
        assert last.cost == (0 if wanted[0] else 1)
