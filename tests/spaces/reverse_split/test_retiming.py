"""Exact retiming against brute force over all placings, and never worse than medians."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.scamp.plan import Plan, PlanStep, computed
from kilotune.codegen.scamp.relaxation import relax
from kilotune.codegen.scamp.retiming import _edges, _least

operations = st.lists(
    st.tuples(st.sampled_from(["north", "south", "east", "add"]), st.integers(0, 5), st.integers(0, 5)),
    min_size=1,
    max_size=5,
)


def plan_of(drawn: list[tuple[str, int, int]]) -> Plan:
    steps = []
    for number, (op, first, second) in enumerate(drawn):
        operands = (first % (number + 1),) if op != "add" else (first % (number + 1), second % (number + 1))
        steps.append(PlanStep(op, operands))
    return Plan("auke", 4, tuple(steps), (len(steps),))


@settings(max_examples=120)
@given(operations)
def test_least_sum_of_edges(drawn: list[tuple[str, int, int]]) -> None:
    plan = plan_of(drawn)
    edges = _edges(plan, "y")
    count = len(plan.steps) + 1

    def total(places: tuple[int, ...] | list[int]) -> int:
        return sum(abs(e.weight + places[e.head] - places[e.tail]) for e in edges if e.head != e.tail)

    brute = min(total((0, *places)) for places in product(range(-3, 4), repeat=count - 1))
    assert total(_least(count, edges)) == brute


@settings(max_examples=60)
@given(operations)
def test_relaxed_plans_compute_the_same_and_are_not_longer(drawn: list[tuple[str, int, int]]) -> None:
    plan = plan_of(drawn)
    relaxed, medians = relax(plan), relax(plan, medians_only=True)
    assert computed(relaxed) == computed(plan) == computed(medians)
    assert len(relaxed.steps) <= len(medians.steps) <= len(plan.steps)


def test_sets_of_nodes_move_together() -> None:
    """x - x**-1 of a column of two: only the whole column can move so that both shifts become one cell long."""
    steps = (
        *(PlanStep("west", (0,)), PlanStep("north", (1,)), PlanStep("add", (1, 2))),
        *(PlanStep("east", (3,)), PlanStep("east", (4,)), PlanStep("sub", (5, 3))),
    )
    plan = Plan("auke", 0, steps, (6,))
    assert len(relax(replace(plan, depth=4)).steps) == 5
