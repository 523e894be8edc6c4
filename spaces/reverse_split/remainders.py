"""What is left of a kernel where the results before it are there: less one of them, a sum may have many fewer signed digits.

Results stay in their registers to the end, so that another kernel may take one for an addition. Which order of the kernels leaves
least, and what each takes, is asked as for the columns of a constant matrix (da4ml's first stage, a spanning tree over the
differences); there are so few kernels that all orders are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from kilotune.codegen.scamp.kernel import signed_digits
from kilotune.codegen.scamp.plan import PlanStep
from kilotune.codegen.scamp.sums import Sum

MOST_KERNELS = 5
"""Six registers hold no more results and what they are computed in."""

SCALES = ((1, 1), (2, 1), (1, 2))
"""Factors of the kernel and of the result that it takes: 1 and 2 mean that the kernel is what is left and twice that result."""


POWER_PRICE = 2
"""Instructions that another power of two among a kernel's digits takes: a halving, and a walk over its cells."""


TAKING_PRICE = 2
"""Instructions that must be saved besides: weights of differences are larger, and fewer sums of a few constants meet them."""

SHARE_OF_A_MOVE: Mapping[str, float] = MappingProxyType({"auke": 0.0, "scamp5": 0.5})
"""What a cell with digits takes less than those: a macro that moves adds or subtracts a term on the way, through empty cells too."""


@dataclass(frozen=True)
class Remainder:
    """`times` the kernel is `left` and `sign * taken` times the result of kernel `base`; None: it takes none, and `left` is the kernel."""

    kernel: int
    left: Sum
    base: int | None = None
    sign: int = 1
    times: int = 1
    taken: int = 1

    def steps(self, target: str, left: int, base: int, place: int) -> list[PlanStep]:
        """Those that make the kernel of the values with the numbers `left` and `base`; the first one makes value `place`."""
        op = "add" if self.sign > 0 else "sub"
        made = [PlanStep(op, (left, base))]
        if self.taken == 2:
            made.append(PlanStep(op, (place, base)))
        if self.times == 2:
            made.append(PlanStep("div2" if target == "auke" else "divq", (place,)))
        return made


def remainders(wanted: Sequence[Sum], image: Sum, target: str, kept: bool) -> tuple[Remainder, ...]:
    """The kernels in the order in which they are computed, each less a result before it where that is shorter; the largest first where that
    does not matter. More than `MOST_KERNELS`, and those whose results do not wait (not `kept`), take nothing of one another."""
    whole = {number: _priced(Remainder(number, total), target) for number, total in enumerate(wanted)}
    order = sorted(whole, key=lambda number: (-wanted[number].cardinality, number))
    if len(wanted) > MOST_KERNELS or not kept:
        return tuple(whole[number][1] for number in order)
    less = {
        (number, base): min(
            (_priced(one, target) for one in _differences(number, wanted[number], base, wanted[base], image)),
            key=_price,
            default=whole[number],
        )
        for number, base in itertools.permutations(whole, 2)
    }

    def chosen(order: Sequence[int]) -> list[tuple[float, Remainder]]:
        return [
            min((whole[number], *(less[number, base] for base in order[:place])), key=_price)
            for place, number in enumerate(order)
        ]

    least = min(map(chosen, itertools.permutations(order)), key=lambda ones: sum(map(_price, ones)))
    return tuple(one for _, one in least)


def _differences(number: int, total: Sum, base: int, other: Sum, image: Sum) -> Iterator[Remainder]:
    """Those that have to be computed."""
    for times, taken in SCALES:
        for sign in (1, -1):
            left = total.scaled(times) - other.scaled(sign * taken)
            if left and left != image:
                yield Remainder(number, left, base, sign, times, taken)


def price_of(parts: Sequence[Remainder], target: str) -> float:
    """About how many instructions those take together."""
    return sum(_price(_priced(part, target)) for part in parts)


def price_of_whole(wanted: Sequence[Sum], target: str) -> float:
    """About how many instructions the sums take together where none takes another one."""
    return price_of([Remainder(number, total) for number, total in enumerate(wanted)], target)


def _price(priced: tuple[float, Remainder]) -> float:
    return priced[0]


def _priced(one: Remainder, target: str) -> tuple[float, Remainder]:
    """About how many instructions it takes: signed digits, the powers of two among them, and those that put the kernel together."""
    powers = [power for _, weight in one.left for power, _ in signed_digits(Fraction(weight), 0)]
    price = len(powers) - SHARE_OF_A_MOVE[target] * len(one.left.terms) + POWER_PRICE * len(set(powers))
    return price + (0 if one.base is None else TAKING_PRICE + max(one.times, one.taken)), one
