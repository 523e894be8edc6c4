"""Kernels that are a row times a column: each of the two is searched by itself, then the whole is improved.

A row of runs of equal weight is a product again: a box as long as the runs' common divisor, and a short core whose shifts are
that long. Haar features are of this kind: boxes, and differences of boxes that cancel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kilotune.codegen.scamp.composition import TRANSPOSE, composed, dilated, turned
from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.kernel import Kernel
from kilotune.codegen.scamp.naive import naive_plan
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed
from kilotune.codegen.scamp.relaxation import cost, relax
from kilotune.codegen.scamp.selection import fused
from kilotune.codegen.scamp.sums import DIRECTIONS, Cell, Sum
from kilotune.spaces.reverse_split.construction import separated
from kilotune.spaces.reverse_split.exact import shortest_program

FACTOR_STEPS = 12
"""Steps of the search for a row, each a fraction of a second of work; fewer where the proof ends it."""

LONGEST_IMPROVED = 12
"""Instructions of a whole; longer ones hardly ever get shorter in a few steps, and are taken as their parts make them."""


FactorPlans = dict[tuple[Sum, str, int, int], Plan]
"""The plans of rows that are known, by what `factor_plan` was asked: products have many of their rows in common."""


def separable_plan(
    total: Sum, target: str, steps: int, registers: int = len(REGISTERS), known: FactorPlans | None = None
) -> Plan:
    """A plan for one sum of whole pixels (depth 0) that is a row times a column, or one of the two alone.

    Its parts and `steps` steps of improvement of the whole make it. The result lies where the sum says. `known` is looked
    up and added to. Raises `ValueError` for a sum that is no such product, `RuntimeError` without a C compiler.
    """
    known = {} if known is None else known
    west, south, east, north = total.box
    parts = separated(total)
    if parts is not None:
        row, column = _centred(parts[0]), _turned(_centred(_turned(parts[1])))
        first = factor_plan(row, target, registers, known=known)
        second = turned(factor_plan(_turned(column), target, registers, known=known), TRANSPOSE)
        orders = [composed(first, second), composed(second, first)]
    elif south == north:
        orders = [factor_plan(_centred(total), target, registers, known=known)]
    elif west == east:
        orders = [turned(factor_plan(_centred(_turned(total)), target, registers, known=known), TRANSPOSE)]
    else:
        raise ValueError("The sum is no row times a column.")
    starts = [moved(plan, total) for plan in orders]
    if target == "scamp5":
        starts = [fused(plan) for plan in starts]
    return shortest([total], target, starts, steps, registers, longest=LONGEST_IMPROVED)


def factor_plan(
    total: Sum,
    target: str,
    registers: int = len(REGISTERS),
    steps: int = FACTOR_STEPS,
    *,
    known: FactorPlans,
) -> Plan:
    """The shortest plan found for a row of whole pixels, with weights -w to w all along it or in runs. `known` is looked up,
    and knows it from then on."""
    asked = (total, target, registers, steps)
    if asked not in known:
        known[asked] = _factor_plan(*asked, known)
    return known[asked]


def _factor_plan(total: Sum, target: str, registers: int, steps: int, known: FactorPlans) -> Plan:
    starts = [naive_plan([total], 0, target)]
    pitch, core = runs(total)
    if pitch > 1 and len(core.terms) > 1:
        box = Sum.of(((x, 0), 1) for x in range(pitch))
        inner = factor_plan(_centred(box), target, registers, steps, known=known)
        outer = factor_plan(_centred(core), target, registers, steps, known=known)
        starts.append(moved(composed(inner, dilated(outer, pitch)), total))
    return shortest([total], target, starts, steps, registers)


def shortest(
    totals: Sequence[Sum], target: str, starts: Sequence[Plan], steps: int, registers: int, longest: int = 1 << 30
) -> Plan:
    """The starts relaxed, and the shortest plan after `steps` steps of the search that begins with them.

    Without steps, or when the best of them has more than `longest` instructions, that one is taken as it is.
    """
    given = min(starts, key=cost)
    if not steps or len(given.steps) > longest:
        return given
    relaxed = [relax(plan, registers, target=target) for plan in starts]
    best = min(relaxed, key=cost)
    for number, found in enumerate(shortest_program(totals, target, 0, registers=registers, starts=relaxed)):
        if found.plan is not None and found.plan.depth == 0 and len(found.plan.steps) < len(best.steps):
            best = found.plan
        if found.complete or number >= steps or found.bound >= len(best.steps):
            break
    return best if best in relaxed else relax(best, registers)


def runs(row: Sum) -> tuple[int, Sum]:
    """(n, core): the row is a box of n pixels times the core with its shifts n times as long; n is the greatest there is."""
    west, _, east, _ = row.box
    weights = [row.weight((x, 0)) for x in range(west, east + 1)]
    ends = [at for at in range(1, len(weights)) if weights[at] != weights[at - 1]]
    pitch = math.gcd(len(weights), *ends)
    return pitch, Sum.of(((x, 0), weight) for x, weight in enumerate(weights[::pitch]))


def moved(plan: Plan, total: Sum) -> Plan:
    """A plan of one result with the shifts behind it that bring it to where the sum is. ValueError: it is another sum."""
    (result,) = computed(plan)
    by = (total.box[0] - result.box[0], total.box[1] - result.box[1])
    if result.shifted(by) != total.scaled(1 << plan.depth):
        raise ValueError("The plan computes another sum.")
    steps, value = list(plan.steps), plan.results[0]
    for name in _way(by):
        steps.append(PlanStep(name, (value,)) if plan.target == "auke" else PlanStep("movx", (value,), (name,)))
        value = len(steps)
    return Plan(plan.target, plan.depth, tuple(steps), (value,))


def _way(by: Cell) -> list[str]:
    return [name for name, (x, y) in DIRECTIONS.items() for _ in range(max(0, by[0] * x + by[1] * y))]


def _centred(row: Sum) -> Sum:
    """A row where a kernel's centre would be (see `codegen/scamp/kernel.py`)."""
    west, _, east, _ = row.box
    weights = [row.weight((x, row.box[1])) for x in range(west, east + 1)]
    return Sum.of((cell, int(weight)) for cell, weight in Kernel.of_rows([weights]).weights)


def _turned(total: Sum) -> Sum:
    return Sum.of(((y, x), weight) for (x, y), weight in total)
