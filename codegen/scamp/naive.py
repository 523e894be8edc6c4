"""The plan that anybody would write first: every cell of every kernel by itself. An upper bound, and a test's witness."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kilotune.codegen.scamp.kernel import signed_digits
from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import Cell, Sum


class _NaiveWriter:
    """Appends steps; the words of the two targets for the same things are in one place here."""

    def __init__(self, target: str) -> None:
        self.auke = target == "auke"
        self.steps: list[PlanStep] = []

    def write(self, op: str, *operands: int, directions: tuple[str, ...] = ()) -> int:
        self.steps.append(PlanStep(op, operands, directions))
        return len(self.steps)

    def shift(self, value: int, cell: Cell) -> int:
        for distance, names in zip(cell, (("east", "west"), ("north", "south")), strict=True):
            name = names[0] if distance > 0 else names[1]
            for _ in range(abs(distance)):
                value = self.write(name, value) if self.auke else self.write("movx", value, directions=(name,))
        return value

    def scale(self, value: int, power: int) -> int:
        """Times `2**power`."""
        for _ in range(-power):
            value = self.write("div2" if self.auke else "divq", value)
        for _ in range(power):
            other = value if self.auke else self.write("mov", value)
            value = self.write("add", value, other)
        return value

    def zero(self) -> int:
        return self.write("zero" if self.auke else "res")


def naive_plan(sums: Sequence[Sum], depth: int, target: str) -> Plan:
    """Shift, scale and add each signed digit of each weight, one after the other."""
    writer = _NaiveWriter(target)
    results = tuple(_accumulate(writer, total, depth) for total in sums)
    return Plan(target, depth, tuple(writer.steps), results)


def _accumulate(writer: _NaiveWriter, total: Sum, depth: int) -> int:
    digits = [
        (cell, -d, sign)
        for cell, weight in total.terms
        for d, sign in signed_digits(Fraction(weight, 1 << depth), depth)
    ]
    if not digits:
        return writer.zero()
    digits.sort(key=lambda digit: -digit[2])  # a positive one first, if there is one: no negation
    value = -1
    for cell, power, sign in digits:
        term = writer.scale(writer.shift(0, cell), power)
        if value >= 0:
            value = writer.write("add" if sign > 0 else "sub", value, term)
        elif sign < 0:
            value = writer.write("neg", term)
        else:
            value = term
    return value
