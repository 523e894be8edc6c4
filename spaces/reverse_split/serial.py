"""Programs for the fewest registers there are: one kernel after the other, in one register beside the image and the results that wait.

The total so far walks over the cells and takes the image along at each, so that the image stays where it is. How often it is taken follows
the binary digits of the weights, the highest first, with the total doubled in between; where nothing but the total and the image has a
register, a macro cannot double the total, and the image is added as often as the weight says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.spaces.reverse_split.plan_writer import PlanWriter, snake, ways_of


def serial_plans(sums: Sequence[Sum], depth: int, target: str, kept: bool = True) -> Iterator[Plan]:
    """Plans of the sums (units of `2**-depth`; distinct, none zero, none the image), each for fewer registers than the one before.

    `kept`: results stay to the end. The last plan takes two registers for one kernel and for results that are consumed, and otherwise one
    more than there are results; or one register, where that is enough for all of them (`one_register_holds`)."""
    finest_last = sorted(sums, key=lambda total: (_halvings(total, depth), -_additions(total, depth)))
    digits = len(sums) if target == "auke" else len(sums) - 1 if kept else 0
    for by_digits in dict.fromkeys((len(sums), digits)):
        writer, unit = PlanWriter(depth, target), Sum.image(depth)
        for number, total in enumerate(finest_last):
            unit = writer.halve(unit, _halvings(total, depth) - _halvings(unit, depth))
            _Walk(writer, unit, tuple(sums) if kept else ()).write(total, number < by_digits)
        yield writer.plan(sums)
    if len(sums) > 1 and not kept and all(one_register_holds(total, depth, target) for total in sums):
        yield _moved_image(sums, depth, target)


def one_register_holds(total: Sum, depth: int, target: str) -> bool:
    """Whether a program on the image's register alone computes the sum: every instruction then reads that register, so that the chip's
    macros move the image or set it to zero, and AUKE's instructions double, halve and negate it besides."""
    if len(total.terms) > 1:
        return False
    weights = {abs(weight) if target == "auke" else weight for _, weight in total}
    return all(weight.bit_count() == 1 if target == "auke" else weight == 1 << depth for weight in weights)


def _halvings(total: Sum, depth: int) -> int:
    """How often the image is halved before its multiples make the sum."""
    lowest = min((weight & -weight).bit_length() - 1 for _, weight in total)
    return max(0, depth - lowest)


def _additions(total: Sum, depth: int) -> int:
    """How often the image so halved is added."""
    return total.cardinality >> (depth - _halvings(total, depth))


@dataclass(frozen=True)
class _Walk:
    """Writes sums as multiples of the unit, a multiple of the image; `waiting` are all results where they wait."""

    writer: PlanWriter
    unit: Sum
    waiting: tuple[Sum, ...]

    def write(self, wanted: Sum, by_digits: bool) -> None:
        """Walk over the cells, once for each binary digit or once for all."""
        scale = self.unit.weight((0, 0))
        weights = {cell: weight // scale for cell, weight in wanted}
        planes = max(abs(weight).bit_length() for weight in weights.values()) if by_digits else 1
        total, here = Sum(), (0, 0)
        for plane in range(planes - 1, -1, -1):
            total = self._only(self.writer.twice(total)) if total else total
            taken = {cell: abs(w) >> plane & 1 if by_digits else abs(w) for cell, w in weights.items()}
            path = snake(Sum.of(taken), upright=False)
            for cell in path if (planes - plane) % 2 else path[::-1]:
                total = self._moved(total, (here[0] - cell[0], here[1] - cell[1]))
                here = cell
                for _ in range(taken[cell]):
                    total = self._only(self._with_another(total, weights[cell] > 0))
        self._moved(total, here)

    def _moved(self, total: Sum, by: Cell) -> Sum:
        return self._only(self.writer.shift(total, by)) if total else total

    def _only(self, total: Sum) -> Sum:
        """No other value waits to be used once more: it would take a register."""
        self.writer.keep((self.unit, total, *self.waiting))
        return total

    def _with_another(self, total: Sum, added: bool) -> Sum:
        """The total and the unit, or less it. Twice the unit in two registers is a copy of it, which `legalised` makes, and an addition."""
        if not added:
            return self.writer.minus(total, self.unit)
        if total == self.unit:
            return self.writer.write(total + total, "add", total, total)
        return self.writer.plus(total, self.unit)


def _moved_image(sums: Sequence[Sum], depth: int, target: str) -> Plan:
    """Each of the sums, which have one cell, out of the one before."""
    steps, results = list[PlanStep](), list[int]()
    (at, weight) = ((0, 0), 1 << depth)
    for total in sums:
        ((cell, wanted),) = total
        ops: list[tuple[str, tuple[str, ...]]] = [("neg", ())] if (weight < 0) != (wanted < 0) else []
        change = abs(wanted).bit_length() - abs(weight).bit_length()
        ops += [("add", ())] * change + [("div2", ())] * -change
        for way in ways_of((cell[0] - at[0], cell[1] - at[1])):
            ops.append((way, ()) if target == "auke" else ("movx", (way,)))
        for op, directions in ops:
            steps.append(PlanStep(op, (len(steps),) * (2 if op == "add" else 1), directions))
        results.append(len(steps))
        at, weight = cell, wanted
    return Plan(target, depth, tuple(steps), tuple(results))
