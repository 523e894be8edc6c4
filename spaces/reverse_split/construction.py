"""Programs to start an improvement from: a walk over the cells, and products of short factors.

A kernel that is a product (1 + x)(1 + y)... is applied factor after factor: one shift and one addition each. Sub-multisets of
the kernel, which reverse splitting is limited to, do not show such a product when weights are halved in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kilotune.codegen.scamp.naive import naive_plan
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import DIRECTIONS, Cell, Sum
from kilotune.spaces.reverse_split.programs import Costs, Question, Searcher, Status

FACTORS: tuple[Cell, ...] = ((1, 0), (0, 1), (1, 1), (1, -1), (2, 0), (0, 2), (3, 0), (0, 3))
"""Distances d of the factors 1 + x**d and 1 - x**d that are tried, in this order."""

MOST_CORRECTION = 16


class _Values:
    """Sums in an order of computation: each is one instruction away from the image and the ones before it."""

    def __init__(self, depth: int, target: str) -> None:
        self._image, self._target = Sum.image(depth), target
        self._values: dict[Sum, None] = {}

    def __contains__(self, value: object) -> bool:
        return value == self._image or value in self._values

    def add(self, value: Sum) -> Sum:
        if value != self._image and value:
            self._values.setdefault(value)
        return value

    def shift(self, value: Sum, cell: Cell) -> Sum:
        for distance, (plus, minus) in zip(cell, (("east", "west"), ("north", "south")), strict=True):
            for _ in range(abs(distance)):
                value = self.add(value.shifted(DIRECTIONS[plus if distance > 0 else minus]))
        return value

    def twice(self, value: Sum) -> Sum:
        if self._target == "scamp5":  # an addition wants two registers; a - (-a) needs no copy
            self.add(-value)
        return self.add(value + value)

    def times(self, value: Sum, factor: int) -> Sum:
        """By doubling and adding."""
        result = value
        for bit in bin(factor)[3:]:
            result = self.twice(result)
            if bit == "1":
                result = self.add(result + value)
        return result

    def halve(self, value: Sum, times: int) -> Sum:
        for _ in range(times):
            value = self.add(value.halved())
        return value

    def accumulate(self, unit: Sum, factors: Sum, upright: bool) -> Sum:
        """The product of a sum and `factors` (integer weights): a walk over the cells that takes the total along."""
        west, south, east, north = factors.box
        rows = range(west, east + 1) if upright else range(south, north + 1)
        path = []
        for index, row in enumerate(rows):
            across = list(range(south, north + 1) if upright else range(west, east + 1))
            path += [(row, at) if upright else (at, row) for at in (across if index % 2 == 0 else across[::-1])]
        total, here = Sum(), path[0]
        for cell in path:
            if total:
                total = self.shift(total, (here[0] - cell[0], here[1] - cell[1]))
            here = cell
            weight = factors.weight(cell)
            if weight:
                term = self.times(unit, abs(weight))
                total = self.add(total + term if weight > 0 else total - term)
        return self.shift(total, here)

    @property
    def values(self) -> tuple[Sum, ...]:
        return tuple(self._values)


def starting_plans(sums: Sequence[Sum], depth: int, target: str, costs: Costs) -> Iterator[Plan]:
    """Programs that compute the sums (units of `2**-depth`; none zero, none the image), in some order of promise."""
    seen: set[frozenset[Sum]] = set()
    corrections = tuple(_correction(total) for total in sums)
    without = (0,) * len(sums)
    for factored, halved_first, upright, correction in (
        (True, True, False, corrections),
        (True, False, False, corrections),
        (True, True, False, without),
        (False, True, False, without),
        (False, True, True, without),
        (False, False, False, without),
    ):
        values = _Values(depth, target)
        if all(
            _build(values, total, depth, factored, halved_first, upright, centre)
            for total, centre in zip(sums, correction, strict=True)
        ):
            found = frozenset(values.values)
            if found not in seen:
                seen.add(found)
                plan = derived(values.values, sums, depth, target, costs)
                if plan is not None:
                    yield plan
    yield naive_plan(sums, depth, target)


def _correction(total: Sum) -> int:
    """The weight that the centre should lose for the rest to be the best product; 0 where nothing is gained."""
    every = math.gcd(*(weight for _, weight in total))
    return every * min(range(-MOST_CORRECTION, MOST_CORRECTION + 1), key=lambda c: (_effort(total, c * every), abs(c)))


def _effort(total: Sum, centre: int) -> int:
    """A rough count of the instructions of a product, and of the centre's correction."""
    rest = Sum.of((*total.terms, ((0, 0), -centre)))
    if not rest:
        return 1 << 30
    core, factors = factorised(rest)
    parts = separated(core) or (core,)
    cells = sum(2 * len(part.terms) - 2 + sum(abs(w).bit_count() - 1 for _, w in part) for part in parts)
    return (
        cells
        + sum(1 + abs(cell[0]) + abs(cell[1]) for cell, _ in factors)
        + (abs(centre).bit_length() if centre else 0)
    )


def derived(values: Sequence[Sum], sums: Sequence[Sum], depth: int, target: str, costs: Costs) -> Plan | None:
    """The plan that computes just these values, one instruction each; None when they are too many or do not follow."""
    if any(value not in values for value in sums):
        return None
    answer = Searcher(Question(target, depth, tuple(values), costs)).ask(costs.plain * len(values), 1 << 30)
    if answer.status is not Status.FOUND or answer.plan is None or answer.plan.depth != depth:
        return None
    number = dict(zip(values, answer.plan.results, strict=True))
    return Plan(target, depth, answer.plan.steps, tuple(number[value] for value in sums))


def _build(
    values: _Values, total: Sum, depth: int, factored: bool, halved_first: bool, upright: bool, centre: int
) -> bool:
    image = Sum.image(depth)
    if centre:
        rest = Sum.of((*total.terms, ((0, 0), -centre)))
        if not halved_first or not _build(values, rest, depth, factored, halved_first, upright, 0):
            return False
        unit = next(value for value in (Sum((((0, 0), 1 << k),)) for k in range(depth + 1)) if value in values)
        scale = unit.weight((0, 0))
        if centre % scale:
            return False
        correction = values.times(unit, abs(centre) // scale)
        values.add(rest + correction if centre > 0 else rest - correction)
        return True
    halvings = depth
    while halvings and all(weight % (1 << (depth - halvings + 1)) == 0 for _, weight in total):
        halvings -= 1
    core = Sum(tuple((cell, weight >> (depth - halvings)) for cell, weight in total))
    factors: list[tuple[Cell, int]] = []
    if factored:
        core, factors = factorised(core)
    value = values.halve(image, halvings) if halved_first else image
    parts = separated(core) if factored else None
    if factored and not factors and parts is None:
        return False
    for part in parts or (core,):
        value = values.accumulate(value, part, upright)
    at = (0, 0)
    for cell, sign in factors:
        # Towards or away, so that the sum of all shifts stays small.
        away = at[0] + at[1] <= 0
        moved = values.shift(value, cell if away else (-cell[0], -cell[1]))
        value = values.add(value + moved if sign > 0 else value - moved if away else moved - value)
        if not away:
            at = (at[0] - cell[0], at[1] - cell[1])
        at = (at[0], at[1]) if away else at
        if not halved_first and halvings and all(weight % 2 == 0 for _, weight in value):
            halvings -= 1
            value = values.halve(value, 1)
    if not halved_first:
        if any(weight % (1 << halvings) for _, weight in value):
            return False
        value = values.halve(value, halvings)
    if value != total:
        value = values.shift(value, _difference(value, total))
    return value == total


def _difference(value: Sum, total: Sum) -> Cell:
    """The shift between two sums that are equal but for one."""
    return total.box[0] - value.box[0], total.box[1] - value.box[1]


def factorised(total: Sum) -> tuple[Sum, list[tuple[Cell, int]]]:
    """A quotient and the factors 1 + s * x**d that were taken out, as (d, s); their product is the sum."""
    factors: list[tuple[Cell, int]] = []
    for cell in FACTORS:
        for sign in (1, -1):
            while True:
                quotient = divided(total, cell, sign)
                if quotient is None:
                    break
                total = quotient
                factors.append((cell, sign))
    return total, factors


def separated(total: Sum) -> tuple[Sum, Sum] | None:
    """A row and a column whose product the sum is; None when there are none, or the sum is one itself."""
    west, south, east, north = total.box
    if west == east or south == north:
        return None
    base = next(y for y in range(south, north + 1) if any(cell[1] == y for cell, _ in total))
    row = {x: total.weight((x, base)) for x in range(west, east + 1)}
    shared = math.gcd(*row.values())
    row = {x: weight // shared for x, weight in row.items()}
    at = next(x for x, weight in row.items() if weight)
    column = {y: total.weight((at, y)) // row[at] for y in range(south, north + 1)}
    product = Sum.of(((x, y), a * b) for x, a in row.items() for y, b in column.items())
    if product != total:
        return None
    return Sum.of(((x, 0), weight) for x, weight in row.items()), Sum.of(((0, y), w) for y, w in column.items())


def divided(total: Sum, cell: Cell, sign: int) -> Sum | None:
    """The quotient by 1 + sign * x**cell; None when there is a remainder."""
    rest, quotient = total.weights(), {}
    ahead = sorted(rest, key=lambda at: at[0] * cell[0] + at[1] * cell[1])
    if len(ahead) < 2:
        return None
    limit = max(at[0] * cell[0] + at[1] * cell[1] for at in ahead)
    pending = list(ahead)
    while pending:
        at = min(pending, key=lambda c: c[0] * cell[0] + c[1] * cell[1])
        pending.remove(at)
        weight = rest.pop(at, 0)
        if not weight:
            continue
        following = (at[0] + cell[0], at[1] + cell[1])
        if following[0] * cell[0] + following[1] * cell[1] > limit:
            return None
        quotient[at] = weight
        rest[following] = rest.get(following, 0) - sign * weight
        if following not in pending:
            pending.append(following)
    return Sum.of(quotient)
