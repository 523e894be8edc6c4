"""Results of a set of kernels that need no program of their own: zeros, the image itself, and sums that are wanted twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import Sum


def distinct(targets: Sequence[Sum], depth: int) -> tuple[Sum, ...]:
    """What has to be computed: no sum twice, no zero, not the image."""
    return tuple(total for total in dict.fromkeys(targets) if total and total != Sum.image(depth))


def with_trivial(plan: Plan, wanted: Sequence[Sum], targets: Sequence[Sum], depth: int) -> Plan:
    """The plan of the distinct sums, with the image, the zeros and the repeated ones among its results."""
    steps, number = plan.steps, dict(zip(wanted, plan.results, strict=True))
    number[Sum.image(depth)] = 0
    if any(not total for total in targets):
        steps = (*steps, PlanStep("zero" if plan.target == "auke" else "res", ()))
        number[Sum()] = len(steps)
    return Plan(plan.target, plan.depth, steps, tuple(number[total] for total in targets))


def without_trivial(plan: Plan, wanted: Sequence[Sum], targets: Sequence[Sum]) -> Plan:
    """A plan of the targets as one of the distinct sums alone: without the steps that only zeros among its results needed."""
    results = [plan.results[targets.index(total)] for total in wanted]
    needed = set(results)
    for number in range(len(plan.steps), 0, -1):
        needed |= set(plan.steps[number - 1].operands) if number in needed else set()
    renumbered = {old: new for new, old in enumerate(sorted(needed | {0}))}
    steps = [
        replace(step, operands=tuple(renumbered[operand] for operand in step.operands))
        for number, step in enumerate(plan.steps, start=1)
        if number in needed
    ]
    return replace(plan, steps=tuple(steps), results=tuple(renumbered[number] for number in results))
