"""The compiled search for an order: the same answers as the definition in codegen, and orders that registers hold."""

from __future__ import annotations

import random

import pytest

from kilotune.codegen.scamp.instructions import instruction_set
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed, reordered, without_dead_steps
from kilotune.codegen.scamp.registers import allocate, legalised, needed_registers, schedule
from kilotune.spaces.reverse_split.scheduling import fitted, fitting_order, least_registers, load_scheduler

pytestmark = pytest.mark.skipif(load_scheduler() is None, reason="needs a C compiler")


def random_plan(generator: random.Random, target: str) -> Plan:
    rows = [row for row in instruction_set(target).rows if row.operands and not row.destroyed]
    steps, halvings = [], 0
    for number in range(generator.randint(3, 20)):
        row = generator.choice(rows)
        operands = tuple(generator.randint(max(0, number - 8), number) for _ in range(row.operands))
        steps.append(PlanStep(row.name, operands, ("east", "north")[: row.directions]))
        halvings += row.halvings
    results = tuple(generator.randint(0, len(steps)) for _ in range(2))
    return without_dead_steps(Plan(target, halvings, tuple(steps), (*results, len(steps))))


@pytest.mark.parametrize("target", ["auke", "scamp5"])
def test_orders_exist_where_the_definition_finds_one(target: str) -> None:
    generator = random.Random(target)
    fitting = 0
    for _ in range(150):
        plan = random_plan(generator, target)
        for registers in range(1, 8):
            found = fitted(plan, registers)
            assert (found is None) == (schedule(legalised(plan), registers) is None)
            if found is not None:
                fitting += 1
                assert needed_registers(found) <= registers
                assert computed(found) == computed(plan)
                if registers <= 6:
                    allocate(found, registers)
            order = fitting_order(plan, registers)
            assert (order is None) == (found is None)
            if order is not None:
                ordered = reordered(plan, order)
                assert sorted(order) == list(range(1, len(plan.steps) + 1))
                assert needed_registers(legalised(ordered)) <= registers
                assert computed(ordered) == computed(plan)
    assert fitting > 100


def test_the_fewest_registers() -> None:
    generator = random.Random(3)
    for _ in range(60):
        plan = random_plan(generator, "scamp5")
        fewest = next(n for n in range(1, 24) if schedule(legalised(plan), n) is not None)
        assert least_registers(plan, 24) == fewest
        assert least_registers(plan, 2) == min(fewest, 2)


def test_a_search_that_is_cut_short_finds_nothing() -> None:
    """Sixteen shifts of the image, added up in an order that keeps all: any good order ends early, none is looked for."""
    count = 16
    shifts = [PlanStep("movx", (0,), ("east",)) for _ in range(count)]
    sums = [PlanStep("add", (1, 2)), *(PlanStep("add", (number, count + number - 2)) for number in range(3, count + 1))]
    plan = Plan("scamp5", 0, (*shifts, *sums), (len(shifts) + len(sums),))
    assert needed_registers(plan) == count
    assert fitted(plan, 3, sets=0) is None
    found = fitted(plan, 3)
    assert found is not None
    assert needed_registers(found) == 3
