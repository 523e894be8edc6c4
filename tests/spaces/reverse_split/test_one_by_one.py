"""Kernels searched one after the other, and walks over programs that compute a value twice."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import pytest

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed
from kilotune.codegen.scamp.registers import allocate, needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.exact import shortest_program
from kilotune.spaces.reverse_split.improvement import ProgramWalk
from kilotune.spaces.reverse_split.move_choice import KINDS, MoveChoice, MoveKind
from kilotune.spaces.reverse_split.one_by_one import KernelSearch
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, load_kernel

pytestmark = pytest.mark.skipif(load_kernel() is None, reason="needs a C compiler")


def ternary(seed: int, side: int, count: int) -> tuple[Sum, ...]:
    generator = random.Random(seed)
    kernels = [[[generator.randint(-1, 1) for _ in range(side)] for _ in range(side)] for _ in range(count)]
    return KernelSet(tuple(map(Kernel.of_rows, kernels))).approximate(0).sums


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("target", ["auke", "scamp5"])
def test_long_kernels_one_by_one_fit_the_registers_in_their_order(target: str, kept: bool) -> None:
    wanted = ternary(5, 4, 3)
    search = KernelSearch(target, 0, INSTRUCTIONS, 6, seed=1, seconds_left=lambda: math.inf, kept=kept, steps=3)
    *before, plan = search.plans(wanted)
    assert plan is not None
    assert not any(before)
    assert computed(plan) == wanted
    assert needed_registers(plan, kept) <= 6
    allocate(plan, 6, kept)


def test_registers_that_cannot_hold_the_last_kernel_give_no_plan() -> None:
    """Two results and the image are there when the third kernel begins: nothing is left to compute it in."""
    search = KernelSearch("scamp5", 0, INSTRUCTIONS, 3, seed=1, seconds_left=lambda: math.inf, kept=True, steps=1)
    assert not any(search.plans(ternary(5, 4, 3)))


@pytest.mark.parametrize(("side", "asked"), [(4, True), (2, False)])
def test_long_kernels_are_searched_one_by_one_first(monkeypatch: pytest.MonkeyPatch, side: int, asked: bool) -> None:
    wanted = ternary(5, side, 3)
    search = KernelSearch("auke", 0, INSTRUCTIONS, 6, seed=1, seconds_left=lambda: math.inf, kept=True, steps=2)
    *_, plan = search.plans(wanted)
    assert plan is not None
    calls = []

    def known(search: KernelSearch, wanted: Sequence[Sum]) -> Iterator[Plan]:
        calls.append(search)
        yield plan

    monkeypatch.setattr(KernelSearch, "plans", known)
    costs = [found.cost for found in itertools.islice(shortest_program(wanted, "auke", 0), 3)]
    assert bool(calls) == asked
    if asked:
        assert costs[-1] == len(plan.steps) < costs[0]


def twice_computed() -> tuple[Plan, tuple[Sum, ...]]:
    """Three sums of the image and its neighbours at two and three cells: each walk to the east begins anew, so that two registers
    do, with the results consumed."""
    steps: list[PlanStep] = []
    results = []
    for distance in (3, 2, 3):
        at = 0
        for _ in range(distance):
            steps.append(PlanStep("movx", (at,), ("east",)))
            at = len(steps)
        for _ in range(len(results)):
            steps.append(PlanStep("movx", (at,), ("north",)))
            at = len(steps)
        steps.append(PlanStep("add", (0, at)))
        results.append(len(steps))
    plan = Plan("scamp5", 0, tuple(steps), tuple(results))
    return plan, computed(plan)


def test_a_walk_keeps_values_that_are_computed_twice_where_the_registers_hold_them_once() -> None:
    plan, wanted = twice_computed()
    walk = ProgramWalk(plan, wanted, INSTRUCTIONS, seed=1, registers=2, kept=False)
    assert walk.cost == len(plan.steps)
    assert needed_registers(plan, kept=False) == 2
    for _ in range(4):
        shorter = walk.advance(20_000)
        assert computed(shorter) == wanted
        assert needed_registers(shorter, kept=False) <= 2
        assert len(shorter.steps) == walk.cost == walk.instructions
    assert walk.cost < len(plan.steps)
    assert walk.excess == 0


def test_kinds_of_questions_are_asked_by_what_they_gain_for_their_work() -> None:
    choice, generator, paying = MoveChoice(), random.Random(3), MoveKind(False, 4)
    for kind in KINDS:
        for _ in range(30):
            choice.note(kind, 1.0 if kind == paying else 0.0, 1_000)
    asked = [choice.kind(generator) for _ in range(400)]
    assert asked.count(paying) > 300
    assert set(asked) == set(KINDS)
    for _ in range(200):
        choice.note(paying, 0.0, 40_000)  # it pays no more, and takes long
    assert [choice.kind(generator) for _ in range(400)].count(paying) < 40


def test_before_anything_is_known_long_programs_are_asked_for_others_as_cheap() -> None:
    generator = random.Random(3)
    short, long = ([MoveChoice().kind(generator, long) for _ in range(400)] for long in (False, True))
    assert sum(kind.plateau for kind in long) > sum(kind.plateau for kind in short)
    assert sum(kind.removed > 3 for kind in long) < sum(kind.removed > 3 for kind in short) / 3
