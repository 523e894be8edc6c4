"""Several long kernels by Horner's scheme over cells, whose results wait: each has one constant fewer than the one before.

A walk over the cells of a kernel takes a total and a few multiples of the image (`horner.py`). While results wait, the registers hold
ever fewer of them, but dropping one costs nothing, and what is left needs not be made again. So there is one list of constants for
all kernels, of which each takes the first ones; which list, in which order the kernels come and how each is walked over, says annealing
(`cell_annealing.py`) under the length of the whole program.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.cell_annealing import IMPOSSIBLE, AnnealedProblem, WalkChoice, annealed, improving
from kilotune.spaces.reverse_split.constants import chain_of
from kilotune.spaces.reverse_split.horner import (
    FEWEST_DIGITS,
    HornerKernels,
    far_price,
    horner_kernels,
)
from kilotune.spaces.reverse_split.plan_writer import PlanWriter
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, Costs
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.term_prices import MOST_OF_FEW, term_prices
from kilotune.spaces.reverse_split.walk_writer import WalkWriter

FEWEST_CONSTANTS = 3
"""What the last kernel has at least: sums of fewer make hardly any weights."""

TURNS_A_SECOND, LEAST_ANNEALED, MOST_ANNEALED = 200_000, 20_000, 200_000
MOST_FAILED = 4
"""Searches one after the other without a program that fits."""

HALVINGS = 4
"""How many of the image, its half, its quarter, ... may stay for kernels that follow."""


def most_nested(registers: int) -> int:
    """How many kernels at most have enough constants besides the total, while the results before them wait."""
    return max(0, registers - FEWEST_CONSTANTS)


def nested_plans(
    sums: Sequence[Sum],
    depth: int,
    target: str,
    registers: int,
    seed: int,
    *,
    image_stays: bool = False,
    seconds: float = math.inf,
    costs: Costs = INSTRUCTIONS,
) -> Iterator[Plan | None]:
    """Plans of at most `most_nested` sums (units of `2**-depth`; none zero) in so many registers, the results kept, and None on the way to
    each; without an end, each in about so many seconds. None at all where a table would be too large, for weights of few digits,
    which need no constants, and where there are too many sums. With `image_stays` there is a further result: the image or a half of
    it, a quarter, ..., for kernels that follow."""
    if not 0 < len(sums) <= most_nested(registers):
        return
    kernels, generator = horner_kernels(sums, depth, target, registers - 1), random.Random(seed)
    if not kernels.has_tables or kernels.digits < FEWEST_DIGITS * len(kernels.weights):
        return
    turns = int(min(max(seconds * TURNS_A_SECOND, LEAST_ANNEALED), MOST_ANNEALED))
    start = WalkChoice(_first_constants(kernels, image_stays), tuple(range(len(sums))), kernels.walks, IMPOSSIBLE)
    problem = AnnealedProblem(target, kernels.image, 1, HALVINGS * image_stays, far_price(costs))
    failed = 0
    while failed < MOST_FAILED:
        best: Plan | None = None
        for choice in improving(annealed(problem, start, turns, generator.getrandbits(62))):
            yield None
            if choice is not None:
                plan = fitted(nested_program(kernels, choice, int(image_stays)), registers)
                best = plan if plan is not None and (best is None or len(plan.steps) < len(best.steps)) else best
        failed = failed + 1 if best is None else 0
        if best is not None:
            yield best


def _first_constants(kernels: HornerKernels, image_stays: bool) -> tuple[int, ...]:
    """Powers of seven: every weight is a sum of up to three of each, if there are enough, and nearly every one where the first of them is
    an eighth of the image instead."""
    powers = [(2 * MOST_OF_FEW + 1) ** power for power in range(int(image_stays), FEWEST_CONSTANTS)]
    first = [max(1, kernels.image >> (HALVINGS - 1))] * image_stays
    return tuple(dict.fromkeys((*first, *powers, 3, 5, 11, 13, 17, 19)))[: kernels.constants]


def nested_program(kernels: HornerKernels, choice: WalkChoice, further: int = 0) -> Plan:
    """The program of a choice, or a shorter one where sums turn out to be there already; so many constants are results too."""
    writer = PlanWriter(kernels.depth, kernels.target)
    made = chain_of(frozenset(choice.constants), kernels.image).written(writer, kernels.image)
    totals = dict[int, Sum]()
    for place, number in enumerate(choice.order):
        constants = choice.constants[: kernels.constants - place]
        prices = term_prices(len(constants), kernels.target)
        values = [made[constant] for constant in constants]
        totals[number] = WalkWriter(writer, choice.walks[number], constants, values, prices).total()
    constants_left = [made[constant] for constant in choice.constants[:further]]
    return writer.plan([*(totals[number] for number in range(len(totals))), *constants_left])
