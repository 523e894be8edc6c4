"""Long kernels by Horner's scheme over cells: one walk from cell to cell that takes the total along, and a few constants to add on the way.

The image times a handful of constants stays in registers. Every weight is a sum of at most two of each of them with signs, so that a cell
takes few instructions. Which constants and which walk, annealing says (`cell_annealing.py`) under the length of the whole program: what it
takes to make them (`constants.py`), the moves (`cell_walks.py`), and the terms beyond those that moves absorb (`term_prices.py`).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from kilotune.codegen.scamp.kernel import signed_digits
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.cell_annealing import IMPOSSIBLE, AnnealedProblem, WalkChoice, annealed, improving
from kilotune.spaces.reverse_split.cell_walks import CellWalk, cell_walk
from kilotune.spaces.reverse_split.constants import chain_of
from kilotune.spaces.reverse_split.plan_writer import PlanWriter
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, Costs
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.term_prices import TermPrices, term_prices
from kilotune.spaces.reverse_split.walk_writer import WalkWriter

LARGEST_WEIGHT = 1 << 11
"""Units; kernels of larger weights have no table."""

LARGEST_IMAGE = 1 << 18
"""Units; of a larger image the table of what halvings make would take hundreds of megabytes."""

LEAST_REGISTERS = 3

FEWEST_DIGITS = 1.5
"""Signed digits of a weight, on the average of all cells."""

ANNEALED, LEAST_ANNEALED = 100_000, 4_000
TURNS_A_SECOND = 100_000
SEARCHES_OF_A_LENGTH, MOST_DOUBLED = 8, 3
"""Turns of a search, and after how many searches the next ones are twice as long, and how often."""

FAR = 1 / 256
"""Instructions: bus transfers break ties."""


@dataclass(frozen=True)
class HornerKernels:
    """Kernels with a walk each, whose weights are sums of so many constants. Units of all integers: `2**(scale - depth)` of the image."""

    walks: tuple[CellWalk, ...]
    depth: int
    scale: int
    target: str
    constants: int

    @property
    def image(self) -> int:
        """The image in units."""
        return 1 << (self.depth - self.scale)

    @cached_property
    def largest(self) -> int:
        """The largest weight in magnitude."""
        return max(walk.largest for walk in self.walks)

    @property
    def has_tables(self) -> bool:
        """Whether there is room for what annealing looks up: `LARGEST_WEIGHT`, `LARGEST_IMAGE`."""
        return self.largest <= LARGEST_WEIGHT and self.image <= LARGEST_IMAGE

    @property
    def weights(self) -> tuple[int, ...]:
        """Those of all kernels."""
        return tuple(weight for walk in self.walks for weight in walk.weights)

    @property
    def digits(self) -> int:
        """Signed digits of all weights."""
        return sum(len(signed_digits(Fraction(weight), 0)) for weight in self.weights)

    @cached_property
    def moves(self) -> int:
        """Instructions that move."""
        return sum(sum(walk.hops) for walk in self.walks)

    @property
    def prices(self) -> TermPrices:
        """What sums of the constants take."""
        return term_prices(self.constants, self.target)

    def program(self, constants: tuple[int, ...]) -> Plan:
        """That program, or a shorter one where sums turn out to be there already. All weights must be sums of the constants."""
        writer = PlanWriter(self.depth, self.target)
        made = chain_of(frozenset(constants), self.image).written(writer, self.image)
        values = [made[constant] for constant in constants]
        return writer.plan([WalkWriter(writer, walk, constants, values, self.prices).total() for walk in self.walks])


def horner_kernels(sums: Sequence[Sum], depth: int, target: str, constants: int) -> HornerKernels:
    """For sums in units of `2**-depth`, none zero."""
    scale = min(depth, *((weight & -weight).bit_length() - 1 for total in sums for _, weight in total))
    return HornerKernels(tuple(cell_walk(total, scale, target) for total in sums), depth, scale, target, constants)


def horner_plans(
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
    """Plans of the sums (units of `2**-depth`; none zero), one sum after the other with the same constants, and None on the way to each;
    without an end, of ever longer searches, the first one in about so many seconds. None at all where a table would be too large
    (`has_tables`), for weights of few digits, which need no constants, and where the registers hold too few.

    Besides results that wait a plan takes at most `registers`; with `image_stays` the image is one of them."""
    if registers < LEAST_REGISTERS:
        return
    kernels, generator = horner_kernels(sums, depth, target, registers - 1), random.Random(seed)
    if not kernels.has_tables or kernels.digits < FEWEST_DIGITS * len(kernels.weights):
        return
    powers = [3**power for power in range(kernels.constants)]  # of which every weight is a sum, if there are enough
    constants = tuple(dict.fromkeys([kernels.image] * image_stays + powers))[: kernels.constants]
    start = WalkChoice(constants, tuple(range(len(sums))), kernels.walks, IMPOSSIBLE)
    problem = AnnealedProblem(target, kernels.image, 0, int(image_stays), far_price(costs))
    first = int(min(max(seconds * TURNS_A_SECOND, LEAST_ANNEALED), ANNEALED))
    for number in itertools.count():
        turns = first if not number else ANNEALED << min(number // SEARCHES_OF_A_LENGTH, MOST_DOUBLED)
        best: Plan | None = None
        for choice in improving(annealed(problem, start, turns, generator.getrandbits(62))):
            yield None
            if choice is not None:
                best = _shorter(replace(kernels, walks=choice.walks), choice.constants, image_stays, best)
        if best is None:
            return  # so few constants do not make these weights, or there is no compiler
        yield best


def far_price(costs: Costs) -> float:
    """What a move by two cells takes more than one by one, in instructions; a little where it takes nothing."""
    return max(FAR, costs.far / costs.plain - 1)


def _shorter(kernels: HornerKernels, constants: tuple[int, ...], image_stays: bool, best: Plan | None) -> Plan | None:
    """The program where it is shorter than the best one with the copies that it needs, and fits: making the constants may take more
    registers than holding them."""
    plan = kernels.program(constants)
    held = replace(plan, results=(*plan.results, 0)) if image_stays else plan
    ordered = fitted(held, kernels.constants + 1, kept=len(plan.results) == 1)
    if ordered is None or (best is not None and len(ordered.steps) >= len(best.steps)):
        return best
    return replace(ordered, results=ordered.results[: len(plan.results)])
