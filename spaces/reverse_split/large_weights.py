"""Programs in the chip's macros for kernels with one large weight: how the image is multiplied by it in the fewest additions.

A macro adds up to three registers that differ, or subtracts one from another, but doubling takes two macros. So a weight grows fastest
where each value is the sum of the three before it, by 1.84 a macro (the root of x**3 = x**2 + x + 1), where doubling grows by 1.41.
Which three values come before the weight is drawn about the ratios of that growth, for thousands of draws at once; each is
taken apart backwards, as in Euclid's algorithm: the largest of the three is what is left of it without the two others, or without one of
them where that is smaller. Where all three are small it is looked up what they take from the image on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import IntArray
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.spaces.reverse_split.plan_writer import PlanWriter

LEAST_WEIGHT, MOST_WEIGHT = 32, 1 << 40
"""In units of the image as often halved as the kernel needs. Smaller ones are soon found by any search; larger ones are hardly ever asked
for, and would take other draws."""

FEWEST_REGISTERS = 3
"""Values are three at a time."""

SHARES = (0.543689, 0.295598)
"""The two values before the weight, as shares of it, where each is the sum of the three before."""

SPREADS = (2.0, 5.0, 20.0, 60.0, 600.0)
"""How far draws are from these shares of the weight, in standard deviations, in units: the nearer, the longer the growth lasts, and the
fewer different ones there are."""

DRAWS = 8_000
"""A spread; some hundredths of a second."""

OF_THREE, NEGATED = 0.93, 0.2
"""How often the largest value is taken apart by both others where that leaves less than the middle one, and how often what one of them
leaves is negated: the macro then subtracts."""

SMALL, MOST_FIRST = 24, 7
"""Values are looked up that are no larger and take at most so many macros."""

LONGEST = 120
"""Steps of taking apart."""

IMPOSSIBLE = 10_000
"""Macros."""

Values = tuple[int, ...]
"""One to three values, different and not zero, that are there at once: ascending, in units."""


@dataclass(frozen=True)
class Macro:
    """`value` is the sum of the operands, or the first less the second, or the negative of the only one. In units."""

    value: int
    operands: Values
    subtracts: bool = False


@dataclass(frozen=True)
class _Firsts:
    """How small values come of the image, which is 1. `last`: the values before and the macro, by what is there after it; `counts`: macros,
    shape (2 * SMALL + 1,) * 3 by value + SMALL, the largest magnitude first, 0 for none; IMPOSSIBLE where not known."""

    last: dict[Values, tuple[Values, Macro]]
    counts: npt.NDArray[np.int16]

    def macros(self, values: Values) -> list[Macro]:
        """All of them, in order."""
        found = list[Macro]()
        while values in self.last:
            values, macro = self.last[values]
            found.append(macro)
        return found[::-1]


def large_weight_plans(sums: Sequence[Sum], depth: int, target: str) -> Iterator[Plan]:
    """Plans of the sums (units of `2**-depth`; none zero) in macros, some that differ in how the weights are made; none where one
    of the sums has no weight that is large beside its others. They may take any registers."""
    if target != "scamp5":
        return
    parts = [part for total in sums if (part := _parted(total, depth)) is not None]
    if not parts or len(parts) < len(sums):
        return
    for spread in SPREADS:
        made = [weight_macros(part.weight, spread) for part in parts]
        if all(made):
            writer = PlanWriter(depth, target)
            for part, macros in zip(parts, made, strict=True):
                part.write(writer, macros)
            yield writer.plan(sums)


def weight_macros(weight: int, spread: float) -> tuple[Macro, ...]:
    """Few macros that make the weight (not zero, less than `MOST_WEIGHT` in magnitude) of 1, the last one the weight itself; always the
    same. `spread`: see `SPREADS`. Empty where draws of that spread have none, and for 1."""
    draws = spread * np.random.default_rng(abs(weight)).standard_normal((2, DRAWS))
    drawn = np.rint(weight * np.array(SHARES)[:, None] + draws).astype(np.int64)
    apart = _taken_apart(np.concatenate([np.full((1, DRAWS), weight, dtype=np.int64), drawn]), abs(weight))
    if not apart:
        return ()
    macros = _firsts().macros(tuple(sorted(apart[-1])))
    for after, before in itertools.pairwise(apart[::-1]):
        macros += [_macro(made, after) for made in set(before) - set(after)]  # one, or none
    return tuple(macros)


@dataclass(frozen=True)
class _LargeWeight:
    """A sum: `weight` at `cell`, and `rest` at the other cells, in units of the image halved `halvings` times."""

    halvings: int
    weight: int
    cell: Cell
    rest: Sum

    def write(self, writer: PlanWriter, macros: Sequence[Macro]) -> None:
        """All of it, the weight by these macros; the rest first, which then waits in one register."""
        unit = writer.halve(Sum.image(writer.depth), self.halvings)
        rest = writer.accumulate(unit, self.rest, upright=False) if self.rest else Sum()
        values = {1: unit}
        for macro in macros:
            first, *others = (values[operand] for operand in macro.operands)
            if macro.subtracts:
                made = writer.minus(first, others[0])
            elif others:
                made = writer.write(sum(others, first), "add", first, *others)
            else:
                made = writer.negative(first)
            values[macro.value] = made
        writer.plus(writer.shift(values[self.weight], self.cell), rest)


def _parted(total: Sum, depth: int) -> _LargeWeight | None:
    """The sum by its largest weight; None where that is not large."""
    lowest = min((weight & -weight).bit_length() - 1 for _, weight in total)
    halvings = max(0, depth - lowest)
    weights = {cell: weight >> (depth - halvings) for cell, weight in total}
    cell = max(weights, key=lambda one: abs(weights[one]))
    weight = weights.pop(cell)
    others = sum(abs(other).bit_length() for other in weights.values())
    if not LEAST_WEIGHT <= abs(weight) < MOST_WEIGHT or others > abs(weight).bit_length():
        return None
    return _LargeWeight(halvings, weight, cell, Sum.of(weights))


def _macro(value: int, operands: Values) -> Macro:
    """One that makes the value of these, or of some of them."""
    if -value in operands:
        return Macro(value, (-value,))
    for count in (2, 3):
        for some in itertools.combinations(operands, count):
            if sum(some) == value:
                return Macro(value, some)
    return next(Macro(value, pair, True) for pair in itertools.permutations(operands, 2) if pair[0] - pair[1] == value)


def _taken_apart(values: IntArray, weight: int) -> list[Values]:
    """The values before each macro of the shortest way down, the weight's own first and small ones last; empty where none comes down.
    `values`: shape (3, draws)."""
    choose = np.random.default_rng(weight)
    counts, seen = _firsts().counts, list[tuple[IntArray, IntArray]]()
    best, found = IMPOSSIBLE, (0, 0)
    values = _by_magnitude(values)
    for step in range(LONGEST):
        differ = np.flatnonzero((values[0] != values[1]) & ((values[1] != values[2]) | (values[1] == 0)))
        values = values[:, differ]
        seen.append((values, differ))
        small = np.flatnonzero(np.abs(values[0]) <= SMALL)
        if len(small):
            lengths = counts[tuple(values[:, small] + SMALL)]
            if step + int(lengths.min()) < best:
                best, found = step + int(lengths.min()), (step, int(small[lengths.argmin()]))
        if step >= best or not len(differ):
            break
        values = _by_magnitude(_one_less(values, choose))
    return _followed(seen, *found) if best < IMPOSSIBLE else []


def _one_less(values: IntArray, choose: np.random.Generator) -> IntArray:
    """With what is left of the largest value in its place."""
    large, middle, small = values
    of_three = large - middle - small
    of_two = np.where(np.abs(large - middle) < np.abs(large + middle), large - middle, large + middle)
    negated = (choose.random(len(large)) < NEGATED) & (of_two == large - middle)
    taken = (np.abs(of_three) < np.abs(middle)) & (choose.random(len(large)) < OF_THREE)
    return np.stack([np.where(taken, of_three, np.where(negated, -of_two, of_two)), middle, small])


def _followed(seen: Sequence[tuple[IntArray, IntArray]], step: int, draw: int) -> list[Values]:
    """The way of one draw down to a step."""
    way = list[Values]()
    for values, differ in reversed(seen[: step + 1]):
        way.append(tuple(value for value in values[:, draw].tolist() if value))
        draw = int(differ[draw])
    return way[::-1]


def _by_magnitude(values: IntArray) -> IntArray:
    """Each draw's three values, the largest magnitude first, of equal ones the negative first."""
    order = np.argsort(-2 * np.abs(values) - (values < 0), axis=0, kind="stable")
    return np.take_along_axis(values, order, axis=0)


@cache
def _firsts() -> _Firsts:
    """All that small values are made of, by breadth first."""
    last: dict[Values, tuple[Values, Macro]] = {}
    reached: dict[Values, int] = {(1,): 0}
    newest: list[Values] = [(1,)]
    for count in range(1, MOST_FIRST + 1):
        before, newest = newest, list[Values]()
        for values in before:
            for after, macro in _followers(values):
                if after not in reached:
                    reached[after], last[after] = count, (values, macro)
                    newest.append(after)
    counts = np.full((2 * SMALL + 1,) * 3, IMPOSSIBLE, dtype=np.int16)
    for values, count in reached.items():
        three = sorted((*values, 0, 0)[:3], key=lambda value: (-abs(value), value))
        counts[tuple(value + SMALL for value in three)] = count
    return _Firsts(last, counts)


def _followers(values: Values) -> Iterator[tuple[Values, Macro]]:
    """What is there after one macro more, in one register more, up to three, or in the place of another value."""
    macros = [Macro(-value, (value,)) for value in values]
    macros += [Macro(a - b, (a, b), True) for a, b in itertools.permutations(values, 2)]
    macros += [Macro(sum(some), some) for n in (2, 3) for some in itertools.combinations(values, n)]
    for macro in macros:
        if macro.value in values or not 0 < abs(macro.value) <= SMALL:
            continue
        kept = [values] if len(values) < FEWEST_REGISTERS else []
        kept += [tuple(other for other in values if other != dropped) for dropped in values]
        for some in kept:
            yield tuple(sorted((*some, macro.value))), macro
