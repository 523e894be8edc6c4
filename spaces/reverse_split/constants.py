"""How multiples of the image are made of each other: halvings, sums and differences, whichever is nearest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from kilotune.codegen.scamp.sums import Sum
from kilotune.spaces.reverse_split.plan_writer import PlanWriter

MOST_HALVED = 3
"""How often a sum of two is halved afterwards."""

PRICES = MappingProxyType({"halve": 1, "plus": 1, "minus": 1, "negative": 1, "twice": 2})
"""Instructions; doubling takes a copy or a negative of the chip's macros."""


@dataclass(frozen=True)
class ChainStep:
    """One value of one or two others, in units. `operation`: one of `PRICES`."""

    operation: str
    value: int
    operands: tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """Steps from the image to some multiples of it; instructions in all."""

    steps: tuple[ChainStep, ...]
    length: int

    def written(self, writer: PlanWriter, image: int) -> dict[int, Sum]:
        """The values as sums, once the writer has them. `image`: what the image is in units."""
        values = {image: Sum.image(writer.depth)}
        for step in self.steps:
            given = [values[operand] for operand in step.operands]
            match step.operation:
                case "halve":
                    made = writer.halve(given[0], 1)
                case "negative":
                    made = writer.negative(given[0])
                case "minus":
                    made = writer.minus(given[0], given[1])
                case _:  # a sum of a value and itself doubles it
                    made = writer.plus(given[0], given[-1])
            values[step.value] = made
        return values


def chain_of(constants: frozenset[int], image: int) -> Chain:
    """Steps that make every one of the constants (units; none zero), the image being `image` units: a power of two."""
    steps: list[ChainStep] = []
    there, left = {image}, set(constants) - {image}
    while left:
        constant, found = min(((c, _steps_to(c, there)) for c in left), key=lambda one: (_length(one[1]), one[0]))
        steps += found
        there.update(step.value for step in found)
        left -= there
        left.discard(constant)
    return Chain(tuple(steps), _length(steps))


def _length(steps: list[ChainStep]) -> int:
    return sum(PRICES[step.operation] for step in steps)


Halved = dict[int, tuple[int, int]]
"""By value: what it is a half, a quarter, ... of, and how many halvings away."""


def _steps_to(constant: int, there: set[int]) -> list[ChainStep]:
    """The fewest steps to a constant through one sum of two halved values; else through the sum of its signed digits."""
    halved = _halved(there)
    if constant in halved:
        return _halvings(constant, halved)
    if -constant in halved:
        return [*_halvings(-constant, halved), ChainStep("negative", constant, (-constant,))]
    ways = list(_ways(constant, halved))
    if not ways:
        return _by_digits(constant, there)
    _, times, operation, operands = min(ways)
    total = constant << times
    before = dict.fromkeys(step for operand in operands for step in _halvings(operand, halved))
    behind = [ChainStep("halve", constant << n, (constant << n + 1,)) for n in range(times - 1, -1, -1)]
    return [*before, ChainStep(operation, total, operands), *behind]


def _halved(there: set[int]) -> Halved:
    halved: Halved = {}
    for value in there:
        at, count = value, 0
        while at not in halved or count < halved[at][1]:
            halved[at] = value, count
            if at % 2:
                break
            at, count = at // 2, count + 1
    return halved


def _ways(constant: int, halved: Halved) -> Iterator[tuple[int, int, str, tuple[int, int]]]:
    """(instructions, how often the sum is halved, operation, operands)."""
    for times in range(MOST_HALVED + 1):
        total = constant << times
        for a, (_, count) in halved.items():
            b = total - a
            if a <= b and b in halved:
                operation = "twice" if a == b else "plus"
                yield count + halved[b][1] * (a != b) + PRICES[operation] + times, times, operation, (a, b)
            if -b in halved:
                yield count + halved[-b][1] + PRICES["minus"] + times, times, "minus", (a, -b)


def _halvings(value: int, halved: Halved) -> list[ChainStep]:
    _, count = halved[value]
    return [ChainStep("halve", value << n, (value << n + 1,)) for n in range(count - 1, -1, -1)]


def _by_digits(constant: int, there: set[int]) -> list[ChainStep]:
    """Through the constant without its lowest signed digit: a sum of fewer."""
    low = constant & -constant
    digit = low if (constant // low) % 4 == 1 else -low
    rest = constant - digit
    steps = _steps_to(rest, there) if rest else []
    values = there | {step.value for step in steps}
    unit = _steps_to(low, values) if low not in values and constant != low else []
    if not rest:  # a power of two beyond the image
        half = constant // 2
        return [*_steps_to(half, there), ChainStep("twice", constant, (half, half))]
    operation = "plus" if digit > 0 else "minus"
    return [*steps, *unit, ChainStep(operation, constant, (rest, low))]
