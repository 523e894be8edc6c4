"""Relaxation: the paper's example, and that nothing it does changes what a plan computes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from kilotune.codegen.scamp.graph import graph_of
from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.naive import naive_plan
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed
from kilotune.codegen.scamp.registers import allocate, fits
from kilotune.codegen.scamp.relaxation import cost, medians, relax
from kilotune.codegen.scamp.selection import Placing, fused, needs
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.symbolic import prove
from tests.codegen.scamp.random_plans import kernels, plans

pytestmark = pytest.mark.slow

# Figure 5(a): the image goes west first, and from there two cells east, and one cell east and halved.
FIGURE_5 = Plan(
    "auke",
    1,
    (
        PlanStep("west", (0,)),
        PlanStep("east", (1,)),
        PlanStep("east", (2,)),
        PlanStep("add", (1, 3)),
        PlanStep("east", (1,)),
        PlanStep("div2", (5,)),
        PlanStep("add", (4, 6)),
    ),
    (7,),
)


@pytest.mark.parametrize("medians_only", [True, False])
def test_example_10_two_instructions_less(medians_only: bool) -> None:
    assert computed(FIGURE_5) == (Sum.of({(-1, 0): 2, (0, 0): 1, (1, 0): 2}),)
    relaxed = relax(FIGURE_5, medians_only=medians_only)
    assert len(relaxed.steps) == len(FIGURE_5.steps) - 2
    assert computed(relaxed) == computed(FIGURE_5)


def test_medians_make_no_edge_longer_in_total() -> None:
    graph = graph_of(FIGURE_5)

    def length(placing: Placing) -> int:
        terms, results = needs(graph, placing)
        return sum(t.length for node in terms for t in node) + sum(r.length for r in results if r)

    plain = Placing.plain(graph)
    assert length(medians(graph, plain)) <= length(plain)


def test_shifts_move_through_a_sum() -> None:
    # (east + east twice) + (north of both): everything is there one cell to the east without a single shift more
    steps = (
        PlanStep("east", (0,)),
        PlanStep("east", (1,)),
        PlanStep("add", (1, 2)),
        PlanStep("west", (3,)),
        PlanStep("add", (3, 4)),
    )
    plan = Plan("auke", 0, steps, (4,))
    assert len(relax(plan).steps) == 2


def test_the_chip_shifts_and_adds_at_once() -> None:
    steps = (
        PlanStep("movx", (0,), ("north",)),
        PlanStep("add", (0, 1)),
        PlanStep("movx", (2,), ("east",)),
        PlanStep("sub", (3, 2)),
    )
    relaxed = relax(Plan("scamp5", 0, steps, (4,)))
    assert [step.op for step in relaxed.steps] == ["movx", "add", "subx"]


def test_a_box_in_the_other_instruction_set() -> None:
    plan = naive_plan(KernelSet((Kernel.of_rows([[1] * 3] * 3),)).approximate(0).sums, 0, "auke")
    assert len(plan.steps) == 20
    auke, scamp5 = (relax(plan, target=target) for target in ("auke", "scamp5"))
    assert computed(auke) == computed(scamp5) == computed(plan)
    assert len(auke.steps) <= 13
    assert len(scamp5.steps) <= 10


def test_a_move_that_the_registers_cannot_hold_is_not_made() -> None:
    plan = naive_plan(KernelSet((Kernel.of_rows([[1, 2, 1]] * 2),)).approximate(0).sums, 0, "auke")
    for registers in (3, 4, 5):
        assert fits(relax(plan, registers), registers)


@given(plans())
@settings(max_examples=150)
def test_relaxed_plans_compute_the_same_and_are_no_longer(plan: Plan) -> None:
    for objective in ("instructions", "transfers"):
        relaxed = relax(plan, objective=objective)
        assert computed(relaxed) == computed(plan)
        assert cost(relaxed, objective) <= cost(plan, objective)
        assert fits(relaxed, 6) or not fits(plan, 6)


@given(kernels(sides=3))
@settings(max_examples=40)
def test_plans_translate_between_the_instruction_sets(kernel: Kernel) -> None:
    wanted = KernelSet((kernel,)).approximate(3)
    for target, other in (("auke", "scamp5"), ("scamp5", "auke")):
        plan = naive_plan(wanted.sums, 3, target)
        translated = relax(plan, target=other, medians_only=True)
        if fits(translated, 6):
            prove(format_program(allocate(translated)), wanted.sums, 3)
        else:
            assert computed(translated) == wanted.sums


@pytest.mark.parametrize(
    ("steps", "one"),
    [
        ((PlanStep("movx", (0,), ("north",)), PlanStep("movx", (1,), ("east",))), ("mov2x", (0,), ("north", "east"))),
        ((PlanStep("movx", (0,), ("north",)), PlanStep("sub", (1, 0))), ("subx", (0, 0), ("north",))),
        (
            (PlanStep("movx", (0,), ("north",)), PlanStep("subx", (1, 0), ("west",))),
            ("sub2x", (0, 0), ("north", "west")),
        ),
        ((PlanStep("mov2x", (0,), ("north", "east")), PlanStep("sub", (1, 0))), ("sub2x", (0, 0), ("north", "east"))),
    ],
)
def test_two_instructions_become_one(steps: tuple[PlanStep, ...], one: tuple[object, ...]) -> None:
    plan = Plan("scamp5", 0, steps, (2,))
    (step,) = fused(plan).steps
    assert (step.op, step.operands, step.directions) == one
    assert computed(fused(plan)) == computed(plan)


def test_an_addition_is_shifted_by_its_own_macro() -> None:
    steps = (
        PlanStep("neg", (0,)),
        PlanStep("add", (0, 1)),
        PlanStep("movx", (2,), ("south",)),
        PlanStep("movx", (3,), ("south",)),
    )
    plan = Plan("scamp5", 0, steps, (4,))
    assert fused(plan).steps[1:] == (PlanStep("add2x", (0, 1), ("south", "south")),)


@given(plans())
@settings(max_examples=200, deadline=None)
def test_fusing_keeps_what_is_computed(plan: Plan) -> None:
    if plan.target == "scamp5":
        assert len(fused(plan).steps) <= len(plan.steps)
        assert computed(fused(plan)) == computed(plan)
