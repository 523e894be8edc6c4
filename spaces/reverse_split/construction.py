"""Programs to start an improvement from: a walk over the cells, and products of short factors.

A kernel that is a product (1 + x)(1 + y)... is applied factor after factor: one shift and one addition each. Sub-multisets of
the kernel, which reverse splitting is limited to, do not show such a product when weights are halved in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.spaces.reverse_split.plan_writer import PlanWriter

FACTORS: tuple[Cell, ...] = ((1, 0), (0, 1), (1, 1), (1, -1), (2, 0), (0, 2), (3, 0), (0, 3))
"""Distances d of the factors 1 + x**d and 1 - x**d that are tried, in this order."""

UNITS = (5, 4, 3, 2, 1)
"""Scales of the image that programs digit by digit hold at a time."""

MOST_CORRECTION = 16
MOST_CORRECTED_CELLS = 64


def starting_plans(sums: Sequence[Sum], depth: int, target: str, kept: bool = True) -> Iterator[Plan]:
    """Programs that compute the sums (units of `2**-depth`; none zero, none the image), in some order of promise.

    The last one takes the fewest registers: two to four, and, where results are `kept`, one for each that waits. The others may
    take many."""
    seen: set[Plan] = set()
    corrections = tuple(_correction(total) for total in sums)
    without = (0,) * len(sums)
    for way, correction in (
        (_Way(factored=True, halved_first=True), corrections),
        (_Way(factored=True, halved_first=False), corrections),
        (_Way(factored=True, halved_first=True), without),
        (_Way(factored=False, halved_first=True), without),
        (_Way(factored=False, halved_first=True, upright=True), without),
        (_Way(factored=False, halved_first=False), without),
    ):
        writer = PlanWriter(depth, target)
        if all(_build(writer, total, way, centre) for total, centre in zip(sums, correction, strict=True)):
            plan = writer.plan(sums)
            if plan not in seen:
                seen.add(plan)
                yield plan
    for units in UNITS:
        writer = PlanWriter(depth, target)
        for total in sums:
            writer.digit_by_digit(total, units)
            writer.forget_all_but(sums if kept else ())
        yield writer.plan(sums)


def _correction(total: Sum) -> int:
    """The weight that the centre should lose for the rest to be the best product; 0 where nothing is gained."""
    every = math.gcd(*(weight for _, weight in total))
    if len(total.terms) > MOST_CORRECTED_CELLS:
        return 0
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


@dataclass(frozen=True)
class _Way:
    """How a sum is built: as a product where it is one, the image halved before or the product after, cells taken column by
    column."""

    factored: bool
    halved_first: bool
    upright: bool = False


def _build(writer: PlanWriter, total: Sum, way: _Way, centre: int) -> bool:
    """Write instructions that compute the sum; whether there are such. `centre`: the weight that is left out and added last."""
    if centre:
        return _build_around(writer, total, way, centre)
    image, halvings = Sum.image(writer.depth), _halvings(total, writer.depth)
    core = Sum(tuple((cell, weight >> (writer.depth - halvings)) for cell, weight in total))
    factors: list[tuple[Cell, int]] = []
    if way.factored:
        core, factors = factorised(core)
        core = _nearest(core, factors)
    value = writer.halve(image, halvings) if way.halved_first else image
    parts = separated(core) if way.factored else None
    if way.factored and not factors and parts is None:
        return False
    for part in parts or (core,):
        value = writer.accumulate(value, part, way.upright)
    value, left = _times(writer, value, factors, 0 if way.halved_first else halvings, total.box[:2])
    if any(weight % (1 << left) for _, weight in value):
        return False
    value = writer.halve(value, left)
    if value != total:
        value = writer.shift(value, _difference(value, total))
    return value == total


def _build_around(writer: PlanWriter, total: Sum, way: _Way, centre: int) -> bool:
    """The sum without its centre, and the centre out of the same halved image."""
    rest = Sum.of((*total.terms, ((0, 0), -centre)))
    if not way.halved_first or not _build(writer, rest, way, 0):
        return False
    powers = (Sum((((0, 0), 1 << k),)) for k in range(writer.depth + 1))
    unit = next(value for value in powers if value in writer)
    scale = unit.weight((0, 0))
    if centre % scale:
        return False
    correction = writer.times(unit, abs(centre) // scale)
    (writer.plus if centre > 0 else writer.minus)(rest, correction)
    return True


def _halvings(total: Sum, depth: int) -> int:
    """How often the image has to be halved."""
    halvings = depth
    while halvings and all(weight % (1 << (depth - halvings + 1)) == 0 for _, weight in total):
        halvings -= 1
    return halvings


def _nearest(core: Sum, factors: Sequence[tuple[Cell, int]]) -> Sum:
    """The core as near to the image as its factors, each with or against its direction, can still bring the product back from."""
    for cell, _ in factors:
        core = min(core, core.shifted(cell), key=_off_image)
    return core


def _off_image(total: Sum) -> int:
    west, south, east, north = total.box
    return abs(west + east) + abs(south + north)


def _times(
    writer: PlanWriter, value: Sum, factors: list[tuple[Cell, int]], halvings: int, corner: Cell
) -> tuple[Sum, int]:
    """The product by all factors, halved as soon as that is exact; and the halvings that are left.

    `corner`: the south-west one that the product should have. A copy moved by a factor or against it makes the same product elsewhere,
    so each is moved as brings the corner nearest to it, and no shift at the end has to.
    """
    for cell, sign in factors:
        against = (-cell[0], -cell[1])
        along = _off_corner(value, cell, corner) <= _off_corner(value, against, corner)
        moved = writer.shift(value, cell if along else against)
        a, b = (value, moved) if along else (moved, value)
        value = writer.plus(a, b) if sign > 0 else writer.minus(a, b)
        if halvings and all(weight % 2 == 0 for _, weight in value):
            halvings -= 1
            value = writer.halve(value, 1)
    return value, halvings


def _off_corner(value: Sum, shift: Cell, corner: Cell) -> int:
    """How far from `corner` the south-west corner of a sum and its shifted copy lies."""
    return sum(abs(low + min(by, 0) - wanted) for low, by, wanted in zip(value.box, shift, corner, strict=False))


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
    if len(rest) < 2:
        return None

    def ahead(at: Cell) -> int:
        return at[0] * cell[0] + at[1] * cell[1]

    limit = max(map(ahead, rest))
    pending = [(ahead(at), at) for at in rest]
    heapify(pending)
    while pending:
        _, at = heappop(pending)
        weight = rest.pop(at, 0)
        if not weight:
            continue
        following = (at[0] + cell[0], at[1] + cell[1])
        if ahead(following) > limit:
            return None
        quotient[at] = weight
        if following not in rest:
            heappush(pending, (ahead(following), following))
        rest[following] = rest.get(following, 0) - sign * weight
    return Sum.of(quotient)
