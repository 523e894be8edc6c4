"""Several long kernels by Horner's scheme over cells, whose results wait: each has one constant fewer than the one before.

A walk over the cells of a kernel takes a total and a few multiples of the image (`horner.py`). While results wait, the registers hold
ever fewer of them, but dropping one costs nothing, and what is left needs not be made again. So there is one list of constants for
all kernels, of which each takes the first ones; which list, and in which order the kernels come, says annealing under
the length of the whole program.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.constants import PRICES, chain_of
from kilotune.spaces.reverse_split.horner import (
    BETWEEN_PAUSES,
    COLD,
    FEWEST_DIGITS,
    LARGEST_WEIGHT,
    WARM,
    HornerKernels,
    another_constant,
    are_constants,
    horner_kernels,
)
from kilotune.spaces.reverse_split.plan_writer import PlanWriter
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.term_prices import MISSING, MOST_OF_FEW, term_prices, walked, weight_tables
from kilotune.spaces.reverse_split.walk_writer import WalkWriter

FEWEST_CONSTANTS = 3
"""What the last kernel has at least: sums of fewer make hardly any weights."""

TURNS_A_SECOND, LEAST_ANNEALED, MOST_ANNEALED = 8_000, 300, 12_000

HALVINGS = 4
"""How many of the image, its half, its quarter, ... may stay for kernels that follow."""

ORDERED_ANEW, EXCHANGED = 0.05, 0.1
"""How often two kernels, and two constants, change places."""


@dataclass(frozen=True)
class NestedChoice:
    """`order`: numbers of the kernels as they are computed, of which each takes one of the `constants` (units) fewer, the last ones
    first to go."""

    order: tuple[int, ...]
    constants: tuple[int, ...]


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
) -> Iterator[Plan | None]:
    """Plans of at most `most_nested` sums (units of `2**-depth`; none zero) in so many registers, the results kept, and None on the way to
    each; without an end, each in about so many seconds. None at all for weights of more than `LARGEST_WEIGHT` or of few digits,
    which need no constants, and where there are too many sums. With `image_stays` there is a further result: the image or a half of
    it, a quarter, ..., for kernels that follow."""
    if not 0 < len(sums) <= most_nested(registers):
        return
    kernels, generator = horner_kernels(sums, depth, target, registers - 1), random.Random(seed)
    if kernels.largest > LARGEST_WEIGHT or kernels.digits < FEWEST_DIGITS * len(kernels.weights):
        return
    turns = int(min(max(seconds * TURNS_A_SECOND, LEAST_ANNEALED), MOST_ANNEALED))
    while True:
        search = _NestedSearch(kernels, registers, generator, image_stays)
        for turn in range(turns):
            search.turn(turn / turns)
            if turn % BETWEEN_PAUSES == 0:
                yield None
        if search.best is None:
            return
        yield search.best


@dataclass
class NestedPrices:
    """What programs take, most of which was asked before: one constant changes at a time."""

    kernels: HornerKernels
    _terms: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)
    _chains: dict[frozenset[int], int] = field(default_factory=dict)

    def length(self, choice: NestedChoice, limit: float = math.inf) -> int:
        """Instructions of the program, at least `MISSING` where a weight is no sum of what its kernel has; where there are more
        than the limit, no more than it takes at least."""
        length = self.kernels.moves
        for place in reversed(range(len(choice.order))):  # the fewest constants first: they say most
            length += self._of_terms(choice.order[place], choice.constants[: self.kernels.constants - place])
            if length > limit:
                return length
        constants = frozenset(choice.constants)
        if constants not in self._chains:
            self._chains[constants] = chain_of(constants, self.kernels.image).length
        return length + self._chains[constants]

    def _of_terms(self, number: int, constants: tuple[int, ...]) -> int:
        known = self._terms.get((number, constants))
        if known is None:
            walk, prices = self.kernels.walks[number], term_prices(len(constants), self.kernels.target)
            known = walked(walk, weight_tables(constants, prices, walk.largest))[0]
            self._terms[number, constants] = known
        return known


def doublings(image: int, base: int) -> int:
    """Instructions that make the image of a half of it, a quarter, ..."""
    return PRICES["twice"] * (image.bit_length() - base.bit_length())


def nested_program(kernels: HornerKernels, choice: NestedChoice, further: int = 0) -> Plan:
    """That program, or a shorter one where sums turn out to be there already; so many constants are results too."""
    writer = PlanWriter(kernels.depth, kernels.target)
    made = chain_of(frozenset(choice.constants), kernels.image).written(writer, kernels.image)
    totals = dict[int, Sum]()
    for place, number in enumerate(choice.order):
        constants = choice.constants[: kernels.constants - place]
        prices = term_prices(len(constants), kernels.target)
        values = [made[constant] for constant in constants]
        totals[number] = WalkWriter(writer, kernels.walks[number], constants, values, prices).total()
    constants_left = [made[constant] for constant in choice.constants[:further]]
    return writer.plan([*(totals[number] for number in range(len(totals))), *constants_left])


class _NestedSearch:
    """Annealing over constants and the order of the kernels; where the image stays, the first constant is one of its `HALVINGS`."""

    def __init__(self, kernels: HornerKernels, registers: int, generator: random.Random, image_stays: bool) -> None:
        self._kernels, self._registers = kernels, registers
        self._random, self._fixed = generator, int(image_stays)
        self._prices = NestedPrices(kernels)
        self.best: Plan | None = None
        self._length = self._least = MISSING * len(kernels.walks)
        self._choice = self._start()

    def turn(self, done: float) -> None:
        """Another choice, taken if the program becomes shorter, or not much longer. `done`: the share of the search."""
        drawn = self._drawn()
        if drawn is None:
            return
        temperature = WARM * (1 - done) + COLD
        again = self._fixed * doublings(self._kernels.image, drawn.constants[0])
        limit = self._length - temperature * math.log(1 - self._random.random())
        length = again + self._prices.length(drawn, limit - again)
        if length > limit:
            return
        self._choice, self._length = drawn, length
        if length < self._least:
            self._least = length
            self._offer(drawn)

    def _start(self) -> NestedChoice:
        """Powers of seven: every weight is a sum of up to three of each, if there are enough."""
        powers = [(2 * MOST_OF_FEW + 1) ** power for power in range(FEWEST_CONSTANTS)]
        first = [self._kernels.image >> 1] * self._fixed
        constants = tuple(dict.fromkeys((*first, *powers, 3, 5, 11, 13, 17, 19)))[: self._kernels.constants]
        choice = NestedChoice(tuple(range(len(self._kernels.walks))), constants)
        self._length = self._prices.length(choice)
        return choice

    def _offer(self, choice: NestedChoice) -> None:
        """The best program is the last one that fits, and shorter than those before."""
        if self._least >= MISSING:
            return
        plan = fitted(nested_program(self._kernels, choice, self._fixed), self._registers)
        if plan is not None and (self.best is None or len(plan.steps) < len(self.best.steps)):
            self.best = plan

    def _drawn(self) -> NestedChoice | None:
        order, constants, chance = list(self._choice.order), list(self._choice.constants), self._random.random()
        if chance < ORDERED_ANEW:
            _exchange(order, self._random, 0)
        elif chance < ORDERED_ANEW + EXCHANGED:
            _exchange(constants, self._random, self._fixed)
        else:
            at = self._random.randrange(len(constants))
            constants[at] = another_constant(constants[at], self._kernels.largest, self._random)
            if at < self._fixed:
                constants[at] = max(1, self._kernels.image >> self._random.randrange(HALVINGS))
        drawn = NestedChoice(tuple(order), tuple(constants))
        most = 2 * max(self._kernels.largest, self._kernels.image)
        return drawn if are_constants(drawn.constants, most) else None


def _exchange(values: list[int], generator: random.Random, first: int) -> None:
    """Two of them change places, those before `first` apart."""
    if len(values) - first > 1:
        a, b = generator.sample(range(first, len(values)), 2)
        values[a], values[b] = values[b], values[a]
