"""Programs for the fewest registers there are: one kernel after the other, in one register beside the image and the results that wait.

The total so far walks over the cells and takes the image along at each, so that the image stays where it is. How often it is taken follows
the binary digits of the weights, the highest first, with the total doubled in between; where nothing but the total and the image has a
register, a macro cannot double the total, and the image is added as often as the weight says, or, with a result that waits, as its
digits in the base of the golden ratio say (`golden_base.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import DIRECTIONS, Cell, Sum
from kilotune.spaces.reverse_split.golden_base import golden_digits
from kilotune.spaces.reverse_split.plan_writer import PlanWriter, snake, ways_of

MOST_ADDITIONS = 20_000
"""The image is added so often in one program at most, where only additions make a weight. As many macros take seconds to construct and
prove, and the chip twice as many cycles."""


def serial_plans(sums: Sequence[Sum], depth: int, target: str, kept: bool = True) -> Iterator[Plan]:
    """Plans of the sums (units of `2**-depth`; distinct, none zero, none the image), none for more registers than the one before.

    `kept`: results stay to the end. The last plan takes two registers for one kernel and for results that are consumed, and otherwise one
    more than there are results; or one register, where that is enough for all of them (`one_register_holds`). None that adds the image
    more than `MOST_ADDITIONS` times."""
    finest_last = sorted(sums, key=lambda total: (_halvings(total, depth), -_additions(total, depth)))
    digits = len(sums) if target == "auke" else len(sums) - 1 if kept else 0
    for by_digits in dict.fromkeys((len(sums), digits)):
        beside = finest_last[-2] if kept and len(sums) > 1 else None
        if beside is None and sum(_additions(total, depth) for total in finest_last[by_digits:]) > MOST_ADDITIONS:
            return
        writer, unit = PlanWriter(depth, target), Sum.image(depth)
        for number, total in enumerate(finest_last):
            unit = writer.halve(unit, _halvings(total, depth) - _halvings(unit, depth))
            walk = _Walk(writer, unit, tuple(finest_last[:number]) if kept else ())
            if number < by_digits or beside is None or not walk.is_shorter_beside(total):
                walk.write(total, number < by_digits)
            else:
                walk.write_beside(total, beside)
        yield writer.plan(sums)
        yield writer.plan(sums, merged=False)
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
    """Writes sums as multiples of the unit, a multiple of the image; `waiting` are the results before, where they wait."""

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

    def is_shorter_beside(self, wanted: Sum) -> bool:
        """Whether `write_beside` takes fewer instructions than the additions alone."""
        taken = self._golden_additions(wanted)
        powers = [power for power, _ in taken]
        walked = sum(abs(a[0] - b[0]) + abs(a[1] - b[1]) for (_, a), (_, b) in pairwise(taken))
        steps = 2 * (max(0, *powers) - min(0, *powers)) if len(powers) > 1 else 0
        return len(taken) + walked + steps < wanted.cardinality // self.unit.weight((0, 0))

    def write_beside(self, wanted: Sum, other: Sum) -> None:
        """With a result that waits as the other half of a pair that is multiplied by powers of the golden ratio, and restored. The unit
        walks, and is lost."""
        pair, unit, net = (Sum(), other), self.unit, 0
        waiting = tuple(total for total in self.waiting if total != other)

        def only() -> None:
            self.writer.keep((unit, *pair, *waiting))

        for power, cell in (*self._golden_additions(wanted), (0, None)):
            while net != -power:
                a, b = pair
                pair = (b, self._sum(a, b)) if net < -power else (self._difference(b, a), a)
                net += 1 if net < -power else -1
                only()
            if cell is None:
                break
            ((here, _),) = unit
            for way in ways_of((cell[0] - here[0], cell[1] - here[1])):
                unit = self.writer.shift(unit, DIRECTIONS[way])
                only()
            a, b = pair
            pair = (self._sum(a, unit) if wanted.weight(cell) > 0 else self._difference(a, unit), b)
            only()

    def _golden_additions(self, wanted: Sum) -> list[tuple[int, Cell]]:
        """(power of the golden ratio, cell) in the order in which the unit is added: powers 0, -1, ..., and then 1, 2, ..."""
        scale = self.unit.weight((0, 0))
        cells: dict[int, list[Cell]] = {}
        for cell in snake(wanted, upright=False):
            for power in golden_digits(abs(wanted.weight(cell)) // scale):
                cells.setdefault(power, []).append(cell)
        order = sorted(cells, key=lambda power: (power > 0, abs(power)))
        return [(power, cell) for turn, power in enumerate(order) for cell in cells[power][:: -1 if turn % 2 else 1]]

    def _sum(self, a: Sum, b: Sum) -> Sum:
        """Twice a value that two registers hold is an addition; `legalised` copies it back."""
        return self.writer.write(a + b, "add", a, b) if a and b else a or b

    def _difference(self, a: Sum, b: Sum) -> Sum:
        return self.writer.minus(a, b) if a != b else Sum()

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
        return self._sum(total, self.unit)


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
