"""Long kernels by Horner's scheme over cells: one walk from cell to cell that takes the total along, and a few constants to add on the way.

The image times a handful of constants stays in registers. Every weight is a sum of at most two of each of them with signs, so that a cell
takes few instructions. Which constants, annealing says (Kirkpatrick, Gelatt and Vecchi 1983) under the length of the whole program: what it
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
from kilotune.spaces.reverse_split.cell_walks import CellWalk, cell_walk
from kilotune.spaces.reverse_split.constants import chain_of
from kilotune.spaces.reverse_split.plan_writer import PlanWriter
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.term_prices import MISSING, TermPrices, term_prices, walked, weight_tables
from kilotune.spaces.reverse_split.walk_writer import WalkWriter

LARGEST_WEIGHT = 1 << 11
"""Units; kernels of larger weights have no table."""

LEAST_REGISTERS = 3

FEWEST_DIGITS = 1.5
"""Signed digits of a weight, on the average of all cells."""

ANNEALED, LEAST_ANNEALED, BETWEEN_PAUSES = 3_000, 300, 250
TURNS_A_SECOND = 2_000
SEARCHES_OF_A_LENGTH, MOST_DOUBLED = 4, 3
"""Turns of a search, and after how many searches the next ones are twice as long, and how often."""

WARM, COLD = 2.0, 0.05
"""Temperatures, in instructions."""


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

    def length(self, constants: tuple[int, ...]) -> int:
        """Instructions of the program with these constants; at least `MISSING` where a weight is no sum of them."""
        tables = weight_tables(constants, self.prices, self.largest)
        terms = sum(walked(walk, tables)[0] for walk in self.walks)
        return self.moves + terms + chain_of(frozenset(constants), self.image).length

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
) -> Iterator[Plan | None]:
    """Plans of the sums (units of `2**-depth`; none zero), one sum after the other with the same constants, and None on the way to each;
    without an end, of ever longer searches, the first one in about so many seconds. None at all for weights of more than
    `LARGEST_WEIGHT` or of few digits, which need no constants, and where the registers hold too few.

    Besides results that wait a plan takes at most `registers`; with `image_stays` the image is one of them."""
    if registers < LEAST_REGISTERS:
        return
    kernels, generator = horner_kernels(sums, depth, target, registers - 1), random.Random(seed)
    if kernels.largest > LARGEST_WEIGHT or kernels.digits < FEWEST_DIGITS * len(kernels.weights):
        return
    first = int(min(max(seconds * TURNS_A_SECOND, LEAST_ANNEALED), ANNEALED))
    for number in itertools.count():
        search = _ConstantSearch(kernels, generator, image_stays)
        turns = first if not number else ANNEALED << min(number // SEARCHES_OF_A_LENGTH, MOST_DOUBLED)
        for turn in range(turns):
            search.turn(turn / turns)
            if turn % BETWEEN_PAUSES == 0:
                yield None
        if search.best is None:
            return  # so few constants do not make these weights
        yield search.best


class _ConstantSearch:
    """Annealing over constants, in units; the first one is the image where that stays."""

    def __init__(self, kernels: HornerKernels, generator: random.Random, image_stays: bool) -> None:
        self._kernels, self._random, self._fixed = kernels, generator, int(image_stays)
        self.best: Plan | None = None
        powers = [3**power for power in range(kernels.constants)]  # of which every weight is a sum, if there are enough
        self._constants = tuple([kernels.image] * self._fixed + powers)[: kernels.constants]
        self._cost, self._least = kernels.length(self._constants), MISSING
        self._offer(self._constants, self._cost)

    def turn(self, done: float) -> None:
        """Another constant, taken if the program becomes shorter, or not much longer. `done`: the share of the search."""
        drawn = self._drawn()
        if drawn is None:
            return
        temperature = WARM * (1 - done) + COLD
        cost = self._kernels.length(drawn)
        if cost <= self._cost or self._random.random() < math.exp((self._cost - cost) / temperature):
            self._constants, self._cost = drawn, cost
        self._offer(drawn, cost)

    def _offer(self, constants: tuple[int, ...], cost: int) -> None:
        """The best program so far is one that fits, with the copies that it needs: making the constants may take more registers than
        holding them."""
        if cost >= self._least:
            return
        plan = self._kernels.program(constants)
        held = replace(plan, results=(*plan.results, 0)) if self._fixed else plan
        ordered = fitted(held, self._kernels.constants + 1, kept=len(plan.results) == 1)
        if ordered is not None and len(ordered.steps) < self._least:
            self._least = len(ordered.steps)
            self.best = replace(ordered, results=ordered.results[: len(plan.results)])

    def _drawn(self) -> tuple[int, ...] | None:
        at = self._random.randrange(self._fixed, len(self._constants))
        new = another_constant(self._constants[at], self._kernels.largest, self._random)
        drawn = (*self._constants[:at], new, *self._constants[at + 1 :])
        return drawn if are_constants(drawn, 2 * max(self._kernels.largest, self._kernels.image)) else None


def another_constant(old: int, largest: int, generator: random.Random) -> int:
    """One that stands in the place of an old one, or is drawn anew, for weights up to `largest` in magnitude; it may be zero."""
    ways = (
        lambda: generator.randint(1, largest) * generator.choice((1, -1)),
        lambda: -old,
        lambda: old + generator.choice((-8, -4, -2, -1, 1, 2, 4, 8)),
        lambda: (1 << generator.randrange(largest.bit_length())) * generator.choice((1, -1)),
        lambda: old * 2 if generator.random() < 0.5 else int(old / 2),
    )
    return generator.choice(ways)()


def are_constants(drawn: Sequence[int], most: int) -> bool:
    """Whether none is zero, larger than `most`, or another one or its negative."""
    return all(drawn) and max(map(abs, drawn)) <= most and len({abs(constant) for constant in drawn}) == len(drawn)
