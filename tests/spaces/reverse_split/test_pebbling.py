"""Programs squeezed into registers: they compute what they did, fit, and none is cheaper that computes the same values."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from functools import partial

import pytest

from kilotune.codegen.scamp.plan import Plan, computed, without_dead_steps
from kilotune.codegen.scamp.registers import legalised, needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.construction import starting_plans
from kilotune.spaces.reverse_split.improvement import ProgramWalk, plan_cost, step_cost
from kilotune.spaces.reverse_split.pebbling import load_pebbling, pebbled
from kilotune.spaces.reverse_split.programs import BUS_TRANSFERS, INSTRUCTIONS, Costs
from kilotune.spaces.reverse_split.recomputing import recomputed
from kilotune.spaces.reverse_split.scheduling import least_registers
from tests.spaces.reverse_split.small_programs import random_plan

pytestmark = pytest.mark.skipif(load_pebbling() is None, reason="needs a C compiler")
ANY = 1 << 20

State = tuple[frozenset[int], frozenset[int]]


def drawn_plans(target: str, length: int, count: int) -> Iterator[Plan]:
    """Plans of several results without dead steps."""
    generator = random.Random(length)
    while count:
        plan = random_plan(target, length, 6, generator)
        results = tuple(dict.fromkeys(generator.sample(range(1, len(plan.steps) + 1), 3)))
        made = without_dead_steps(Plan(plan.target, plan.depth, plan.steps, results))
        if all(step.op != "div" for step in made.steps):
            count -= 1
            yield made


def least_cost(plan: Plan, registers: int, costs: Costs, kept: bool) -> int | None:
    """By Dijkstra over all sets of held values, in plain Python."""
    whole = legalised(plan)
    results = frozenset(whole.results) - {0}
    start: State = (frozenset({0}), frozenset())
    best, queue, number = {start: 0}, [(0, 0, start)], 0
    while queue:
        cost, _, state = heapq.heappop(queue)
        held, done = state
        if results <= (held if kept else done):
            return cost
        if cost > best[state]:
            continue
        for value, step in enumerate(whole.steps, start=1):
            if value in held or not set(step.operands) <= held:
                continue
            stays = {step.operands[index] for index in whole.instruction(step).apart}
            after = [held | {value}] if len(held) < registers else [held - {one} | {value} for one in held - stays]
            for there in after:
                following = (there, frozenset() if kept else done | (results & {value}))
                total = cost + step_cost(step, costs)
                if total < best.get(following, ANY):
                    best[following], number = total, number + 1
                    heapq.heappush(queue, (total, number, following))
    return None


@pytest.mark.parametrize("target", ["auke", "scamp5"])
@pytest.mark.parametrize("costs", [INSTRUCTIONS, BUS_TRANSFERS])
@pytest.mark.parametrize("kept", [True, False])
def test_the_cost_is_the_least_there_is(target: str, costs: Costs, kept: bool) -> None:
    price = partial(step_cost, costs=costs)
    squeezed = 0
    for plan in drawn_plans(target, 8, 12):
        for registers in (2, 3, 4):
            least, found = least_cost(plan, registers, costs, kept), pebbled(plan, registers, price, ANY, kept)
            assert (found is None) == (least is None)
            if found is None or least is None:
                continue
            assert plan_cost(found, costs) == least
            assert computed(found) == computed(plan)
            assert needed_registers(found, kept) <= registers
            squeezed += least > plan_cost(legalised(plan), costs)
            assert pebbled(plan, registers, price, least, kept) is None
            again = pebbled(plan, registers, price, least + 1, kept)
            assert again is not None
            assert plan_cost(again, costs) == least
    assert squeezed > 0


def test_it_is_never_longer_than_what_is_drawn() -> None:
    price = partial(step_cost, costs=INSTRUCTIONS)
    better = 0
    for plan in drawn_plans("scamp5", 10, 12):
        drawn, found = recomputed(plan, 4), pebbled(plan, 4, price, ANY)
        assert drawn is None or (found is not None and len(found.steps) <= len(drawn.steps))
        better += found is not None and (drawn is None or len(found.steps) < len(drawn.steps))
    assert better > 0


def test_few_states_say_nothing() -> None:
    plan = next(p for p in drawn_plans("auke", 14, 20) if needed_registers(legalised(p), True) > 4)
    price = partial(step_cost, costs=INSTRUCTIONS)
    assert pebbled(plan, 4, price, ANY, states=3) is None


def test_a_walk_that_takes_too_many_registers_offers_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """By questions alone: exchanges bring this one within its registers at once."""
    monkeypatch.setattr(ProgramWalk, "exchanges", property(lambda _: False))
    wanted = tuple(
        Sum.of([((x, y), weight) for (x, y), weight in kernel])
        for kernel in (
            [((-1, 0), 1), ((0, 0), 2), ((1, 1), 1)],
            [((-1, 0), 1), ((0, -1), -2), ((1, 0), 1)],
            [((0, 1), 1), ((1, 1), -1), ((-1, -1), 3)],
        )
    )
    start = max(starting_plans(wanted, 0, "scamp5", True), key=lambda plan: least_registers(plan, 24))
    registers = least_registers(start, 24) - 1
    assert registers > len(wanted)
    walk = ProgramWalk(start, wanted, INSTRUCTIONS, 3, registers)
    assert walk.excess > 0
    walk.aim = ANY
    for _ in range(4):
        walk.advance(60_000)
        if walk.squeezed is not None:
            break
    assert walk.squeezed is not None
    assert computed(walk.squeezed) == tuple(total.scaled(1 << walk.squeezed.depth) for total in wanted)
    assert needed_registers(legalised(walk.squeezed), True) <= registers
    assert plan_cost(walk.squeezed, INSTRUCTIONS) == walk.aim
