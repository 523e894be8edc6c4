"""Plans from plans: one after the other, turned, mirrored, and with their shifts drawn out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from kilotune.codegen.scamp.plan import Plan, PlanStep

MIRROR: Mapping[str, str] = MappingProxyType({"north": "north", "south": "south", "east": "west", "west": "east"})
"""East for west: every cell (x, y) becomes (-x, y)."""

FLIP: Mapping[str, str] = MappingProxyType({"north": "south", "south": "north", "east": "east", "west": "west"})
"""North for south: every cell (x, y) becomes (x, -y)."""

TRANSPOSE: Mapping[str, str] = MappingProxyType({"north": "east", "east": "north", "south": "west", "west": "south"})
"""About the diagonal: every cell (x, y) becomes (y, x)."""


def turned(plan: Plan, directions: Mapping[str, str]) -> Plan:
    """The plan with every direction renamed: it computes the sums with their cells moved likewise."""
    steps = tuple(
        PlanStep(directions.get(step.op, step.op), step.operands, tuple(directions[name] for name in step.directions))
        for step in plan.steps
    )
    return replace(plan, steps=steps)


def composed(first: Plan, second: Plan) -> Plan:
    """`second` on the result of `first`: the product of the two kernels.

    Raises `ValueError` for different targets, and for a first plan of several results.
    """
    if first.target != second.target or len(first.results) != 1:
        raise ValueError("Plans follow one another on one target, through one result.")
    numbers = [first.results[0]]
    steps = list(first.steps)
    for step in second.steps:
        steps.append(PlanStep(step.op, tuple(numbers[operand] for operand in step.operands), step.directions))
        numbers.append(len(steps))
    results = tuple(numbers[result] for result in second.results)
    return Plan(first.target, first.depth + second.depth, tuple(steps), results)


def dilated(plan: Plan, factor: int) -> Plan:
    """The plan with every shift `factor` times as long: cells (x, y) of its sums become (factor * x, factor * y).

    Shifts become unit steps of their own. Relaxation brings them together again.
    """
    steps: list[PlanStep] = []

    def shifted(value: int, directions: tuple[str, ...]) -> int:
        for name in directions:
            for _ in range(factor):
                steps.append(PlanStep(name, (value,)) if plan.target == "auke" else PlanStep("movx", (value,), (name,)))
                value = len(steps)
        return value

    numbers = [0]
    for step in plan.steps:
        row = plan.instruction(step)
        ways = (*row.fixed, *step.directions)
        operands = [numbers[operand] for operand in step.operands]
        if not ways:
            steps.append(PlanStep(step.op, tuple(operands)))
            numbers.append(len(steps))
        elif len(operands) == 1:
            numbers.append(shifted(operands[0], ways))
        else:
            plain = step.op.removesuffix("2x").removesuffix("x")
            if not all(row.shifted):
                operands = [
                    shifted(value, ways) if moved else value for value, moved in zip(operands, row.shifted, strict=True)
                ]
            steps.append(PlanStep(plain, tuple(operands)))
            numbers.append(shifted(len(steps), ways) if all(row.shifted) else len(steps))
    return replace(plan, steps=tuple(steps), results=tuple(numbers[result] for result in plan.results))
