"""Short programs: every one there is, and random ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from kilotune.codegen.scamp.instructions import instruction_set
from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import InexactHalfError, Sum
from kilotune.spaces.reverse_split.improvement import plan_cost
from kilotune.spaces.reverse_split.programs import Costs

DIRECTIONS = ("north", "east", "south", "west")


def next_steps(plan_target: str, count: int) -> Iterator[PlanStep]:
    """Every instruction on `count` values."""
    for row in instruction_set(plan_target).rows:
        if row.name == "div" or not row.operands:
            continue
        for operands in itertools.product(range(count), repeat=row.operands):
            if row.distinct and len(set(operands)) < len(operands):
                continue
            for directions in itertools.product(DIRECTIONS, repeat=row.directions):
                yield PlanStep(row.name, operands, directions)


def brute_force(target: str, depth: int, costs: Costs, most: int) -> dict[Sum, int]:
    """The least cost of every sum that a program of at most `most` computes. Plain enumeration, copies included."""
    least: dict[Sum, int] = {}
    seen: dict[tuple[Sum, ...], int] = {}

    def extend(values: tuple[Sum, ...], cost: int) -> None:
        state = tuple(sorted(values, key=lambda total: total.terms))
        if seen.get(state, most + 1) <= cost:
            return
        seen[state] = cost
        for step in next_steps(target, len(values)):
            row = instruction_set(target).get(step.op, len(step.operands))
            after = cost + plan_cost(Plan(target, depth, (step,), ()), costs)
            if after > most:
                continue
            try:
                value = row.apply([values[at] for at in step.operands], step.directions)
            except InexactHalfError:
                continue
            if value and value != values[0] and least.get(value, most + 1) > after:
                least[value] = after
            if after + costs.plain <= most:
                extend((*values, value), after)

    extend((Sum.image(depth),), 0)
    return least


def random_plan(target: str, length: int, depth: int, generator: random.Random) -> Plan:
    """A program whose last value takes in every earlier one, or nearly."""
    while True:
        values, steps = [Sum.image(depth)], []
        while len(steps) < length:
            step = generator.choice([s for s in next_steps(target, len(values)) if len(values) - 1 in s.operands])
            row = instruction_set(target).get(step.op, len(step.operands))
            try:
                values.append(row.apply([values[at] for at in step.operands], step.directions))
            except InexactHalfError:
                continue
            steps.append(step)
        if values[-1] and values[-1] != values[0]:
            return Plan(target, depth, tuple(steps), (length,))
