"""Exchanges of single values: the same results, no more instructions, no more registers, and shorter programs on the way."""

from __future__ import annotations

import random

import pytest

from kilotune.codegen.scamp.plan import Plan, PlanStep, computed, evaluate, without_dead_steps
from kilotune.codegen.scamp.registers import legalised, needed_registers
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.construction import starting_plans
from kilotune.spaces.reverse_split.exchanging import LONGEST, exchanged, load_exchange
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import ProgramQuery, Searcher
from tests.spaces.reverse_split.small_programs import random_plan

pytestmark = pytest.mark.skipif(load_exchange() is None, reason="needs a C compiler")

DEPTH, LOOKS = 3, 30_000


def ternary(side: int, seed: int, count: int = 1) -> tuple[Sum, ...]:
    generator, cells = random.Random(seed), range(side)
    kernels = ([((x, y), generator.choice((-1, 0, 1)) << DEPTH) for x in cells for y in cells] for _ in range(count))
    return tuple(Sum.of(kernel) for kernel in kernels)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("target", ["scamp5", "auke"])
def test_results_and_registers_stay(target: str, kept: bool) -> None:
    generator, changed = random.Random(f"{target} {kept}"), 0
    for seed in range(60):
        plan = without_dead_steps(random_plan(target, generator.randint(4, 12), DEPTH, generator))
        registers = max(needed_registers(legalised(plan), kept), generator.randint(2, 6))
        found, looks = exchanged(plan, registers, seed, LOOKS, kept)
        if found is None:
            continue
        changed += found != plan
        assert looks > 0
        assert computed(found) == computed(plan)
        assert len(set(evaluate(found)) - {Sum()}) == len(found.steps) + 1  # nothing twice, and no zero
        assert len(found.steps) <= len(plan.steps)
        assert needed_registers(legalised(found), kept) <= registers
    assert changed > 10


@pytest.mark.parametrize(
    ("target", "side", "count", "share"), [("scamp5", 5, 1, 0.75), ("scamp5", 3, 3, 0.85), ("auke", 5, 1, 0.85)]
)
def test_programs_become_shorter(target: str, side: int, count: int, share: float) -> None:
    wanted = ternary(side, 3, count)
    plan = min(starting_plans(wanted, DEPTH, target), key=lambda plan: needed_registers(legalised(plan)))
    found, _ = exchanged(plan, 6, 1, 2_000_000)
    assert found is not None
    assert computed(found) == wanted
    assert len(found.steps) <= share * len(plan.steps)
    assert (found, 0) == (exchanged(plan, 6, 1, 2_000_000)[0], 0)  # by the seed alone


def test_an_instruction_too_many_is_found() -> None:
    """(1 + y) (1 + x) by shifts and additions of single pixels, where two instructions less do."""
    north, east = ("north",), ("east",)
    steps = (
        PlanStep("movx", (0,), north),
        PlanStep("movx", (0,), east),
        PlanStep("movx", (1,), east),
        PlanStep("add", (0, 1, 2)),
        PlanStep("add", (4, 3)),
    )
    found, _ = exchanged(Plan("scamp5", DEPTH, steps, (5,)), 6, 0, LOOKS)
    assert found is not None
    assert len(found.steps) == 3
    question = ProgramQuery("scamp5", DEPTH, computed(found))
    assert Searcher(question).ask(2, 1 << 40).status is ProgramStatus.EXHAUSTED


def test_what_it_does_not_take() -> None:
    twice = Plan("scamp5", DEPTH, (PlanStep("movx", (0,), ("north",)),) * 2, (1, 2))
    copied = Plan("scamp5", DEPTH, (PlanStep("mov", (0,)), PlanStep("add", (0, 1))), (2,))
    doubled = Plan("scamp5", DEPTH, (PlanStep("add", (0, 0)),), (1,))
    steps = tuple(PlanStep("movx", (number,), ("north",)) for number in range(LONGEST + 1))
    for plan in (twice, copied, doubled, Plan("scamp5", DEPTH, steps, (LONGEST + 1,))):
        assert exchanged(plan, 6, 0, LOOKS) == (None, 0)
