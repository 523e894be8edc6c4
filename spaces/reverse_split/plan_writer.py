"""Plans written value by value, as constructions do: the sums say what is computed, and what is there is not computed again."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kilotune.codegen.scamp.kernel import signed_digits
from kilotune.codegen.scamp.plan import Plan, PlanStep, without_dead_steps
from kilotune.codegen.scamp.selection import fused
from kilotune.codegen.scamp.sums import DIRECTIONS, Cell, Sum


class PlanWriter:
    """Steps in an order of computation; a sum that is there already is not computed again."""

    def __init__(self, depth: int, target: str) -> None:
        self.depth, self.target = depth, target
        self._steps: list[PlanStep] = []
        self._numbers = {Sum.image(depth): 0}
        self._computed = dict(self._numbers)  # what is forgotten too

    def __contains__(self, value: object) -> bool:
        return value in self._numbers

    def write(self, value: Sum, op: str, *operands: Sum, directions: tuple[str, ...] = ()) -> Sum:
        if value and value not in self._numbers:
            self._steps.append(PlanStep(op, tuple(self._numbers[operand] for operand in operands), directions))
            self._numbers[value] = self._computed[value] = len(self._steps)
        return value

    def shift(self, value: Sum, cell: Cell) -> Sum:
        for way in ways_of(cell):
            op, directions = (way, ()) if self.target == "auke" else ("movx", (way,))
            value = self.write(value.shifted(DIRECTIONS[way]), op, value, directions=directions)
        return value

    def negative(self, value: Sum) -> Sum:
        return self.write(-value, "neg", value)

    def plus(self, a: Sum, b: Sum) -> Sum:
        if not a or not b:
            return a or b
        return self.twice(a) if a == b else self.write(a + b, "add", a, b)

    def minus(self, a: Sum, b: Sum) -> Sum:
        if not a or not b:
            return a or self.negative(b)
        return self.write(a - b, "sub", a, b)

    def twice(self, value: Sum) -> Sum:
        if self.target == "auke":
            return self.write(value + value, "add", value, value)
        # An addition wants two registers; a - (-a) needs no copy.
        return (
            self.write(value + value, "sub", value, self.negative(value))
            if value + value not in self
            else value + value
        )

    def times(self, value: Sum, factor: int) -> Sum:
        """By doubling and adding."""
        result = value
        for bit in bin(factor)[3:]:
            result = self.twice(result)
            if bit == "1":
                result = self.plus(result, value)
        return result

    def halve(self, value: Sum, times: int) -> Sum:
        for _ in range(times):
            value = self.write(value.halved(), "div2" if self.target == "auke" else "divq", value)
        return value

    def accumulate(self, unit: Sum, factors: Sum, upright: bool) -> Sum:
        """The product of a sum and `factors` (integer weights): a walk over the cells that takes the total along."""
        total, here = Sum(), (0, 0)
        for cell in snake(factors, upright):
            total = self.shift(total, (here[0] - cell[0], here[1] - cell[1]))
            here = cell
            weight = factors.weight(cell)
            term = self.times(unit, abs(weight))
            total = self.plus(total, term) if weight > 0 else self.minus(total, term)
        return self.shift(total, here)

    def digit_by_digit(self, total: Sum, units: int) -> Sum:
        """Horner's scheme over binary digits, the lowest first: a walk over the cells for every `units` digits, and the
        total halved in between. Only the total so far is alive, and the image in that many scales."""
        digits = {cell: dict(signed_digits(Fraction(weight, 1 << self.depth), self.depth)) for cell, weight in total}
        powers = {power for of_cell in digits.values() for power in of_cell}
        lowest, highest = max(*powers, 0), min(powers)
        result, here, forward = Sum(), (0, 0), True
        doubled, scale = Sum.image(self.depth), lowest
        while lowest >= highest:
            last = max(lowest - units + 1, highest, 0 if lowest >= 0 else highest)
            result, scale = self.halve(result, scale - max(last, 0)), max(last, 0)
            scales: dict[int, Sum] = {}
            if lowest >= 0:
                for power in range(last, lowest + 1):
                    scales[power] = self.halve(Sum.image(self.depth), power - last)
            else:
                for power in range(lowest, last - 1, -1):
                    scales[power] = doubled = self.twice(doubled)
            path = snake(Sum.of({cell: 1 for cell, found in digits.items() if scales.keys() & found.keys()}), False)
            for cell in path if forward else path[::-1]:
                result = self.shift(result, (here[0] - cell[0], here[1] - cell[1]))
                here = cell
                for power, unit in scales.items():
                    if sign := digits[cell].get(power, 0):
                        result = self.plus(result, unit) if sign > 0 else self.minus(result, unit)
            forward = not forward
            lowest = last - 1
        return self.shift(self.halve(result, scale), here)

    def forget_all_but(self, sums: Sequence[Sum]) -> None:
        """Other values are computed again where they are wanted again: they wait in no register."""
        self.keep((Sum.image(self.depth), *sums))

    def keep(self, sums: Sequence[Sum]) -> None:
        """As `forget_all_but`, and the image is forgotten too where it is none of the sums."""
        kept = set(sums)
        self._numbers = {value: number for value, number in self._numbers.items() if value in kept}

    def plan(self, sums: Sequence[Sum], merged: bool = True) -> Plan:
        """The steps that the sums need; `merged`: macros that do several of them at once, which may take a register more."""
        results = tuple(self._computed[total] for total in sums)
        plan = without_dead_steps(Plan(self.target, self.depth, tuple(self._steps), results))
        return fused(plan) if merged and self.target == "scamp5" else plan


def ways_of(cell: Cell) -> tuple[str, ...]:
    """The directions of a shift by a cell, one cell each: east or west first."""
    pairs = zip(cell, (("east", "west"), ("north", "south")), strict=True)
    return tuple(way for distance, ways in pairs for way in (ways[distance < 0],) * abs(distance))


def snake(cells: Sum, upright: bool) -> list[Cell]:
    """The cells row by row (column by column if `upright`), there and back, so that a walk over them is short."""
    rows: dict[int, list[Cell]] = {}
    for cell, _ in cells:
        rows.setdefault(cell[0 if upright else 1], []).append(cell)
    path: list[Cell] = []
    for index, row in enumerate(sorted(rows)):
        path += sorted(rows[row], reverse=bool(index % 2))
    return path
