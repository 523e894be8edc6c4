"""What the terms of a kernel's weights take on a walk over its cells: every weight a sum of a few constants with signs.

Of the chip's macros the one that moves the total on adds a constant before, or subtracts one behind, at no cost (`addx`, `subx`); which of
both is decided by dynamic programming along the walk.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from kilotune.spaces.reverse_split.cell_walks import CellWalk

MOST_OF_A_CONSTANT, MOST_OF_FEW, FEW = 2, 3, 3
"""How often a weight has a constant, and how often where there are so few of them or fewer."""

MANY, MOST_TERMS = 4, 5
"""How many terms a weight has at most where there are more constants than so many: what takes more is better made by others."""

MISSING = 1 << 20
"""The price of a weight that is no sum of the constants: more than any program takes."""

PriceArray = npt.NDArray[np.int64]
Absorbed = tuple[int, int]
"""1 where the move to a cell subtracts one of its terms, and 1 where the move from it adds one."""


@dataclass(frozen=True)
class TermPrices:
    """Every sum of a few of each constant with signs: `counts` [sums, constants], and what a cell of it takes.

    `inner` [2, 2, sums]: where the move to the cell subtracts one of its terms (first index 1), and the move from it adds one (second
    index 1); `first` [2, sums]: of the cell where a walk begins, whose first term is the total.
    """

    counts: PriceArray
    inner: PriceArray
    first: PriceArray


@cache
def term_prices(constants: int, target: str) -> TermPrices:
    """For a number of constants."""
    most = MOST_OF_FEW if constants <= FEW else MOST_OF_A_CONSTANT
    span = range(-most, most + 1)
    counts = np.array(list(itertools.product(span, repeat=constants)), dtype=np.int64)
    if constants > MANY:
        counts = counts[np.abs(counts).sum(axis=1) <= MOST_TERMS]
    plus, minus = np.maximum(counts, 0), np.maximum(-counts, 0)
    inner = [[_added(plus, out, target) + _less(minus, taken) for out in (0, 1)] for taken in (0, 1)]
    begun = np.where(plus.sum(axis=1) > 0, [_added(plus, out + 1, target) for out in (0, 1)], 0)
    return TermPrices(counts, np.array(inner), np.array(begun) + minus.sum(axis=1))


def _added(plus: PriceArray, absorbed: int, target: str) -> PriceArray:
    """Instructions that add terms, of which some are absorbed: an addition of the chip's takes two, of different constants."""
    left = np.sort(plus, axis=1)
    for _ in range(absorbed):
        largest = left.argmax(axis=1)
        rows = np.arange(len(left))
        left[rows, largest] = np.maximum(left[rows, largest] - 1, 0)
    terms = left.sum(axis=1)
    return np.asarray(terms if target == "auke" else np.maximum(-(-terms // 2), left.max(axis=1)))


def _less(minus: PriceArray, absorbed: int) -> PriceArray:
    return np.asarray(np.maximum(minus.sum(axis=1) - absorbed, 0))


@dataclass(frozen=True)
class WeightTables:
    """By weight + `largest`: the least prices of `TermPrices`."""

    inner: tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]
    first: tuple[list[int], list[int]]
    largest: int


def weight_tables(constants: tuple[int, ...], prices: TermPrices, largest: int) -> WeightTables:
    """The least prices of weights up to `largest` in magnitude."""
    values = prices.counts @ np.array(constants, dtype=np.int64) + largest
    within = (values >= 0) & (values <= 2 * largest)
    places = values[within]

    def least(costs: PriceArray) -> list[int]:
        table = np.full(2 * largest + 1, MISSING, dtype=np.int64)
        np.minimum.at(table, places, costs[within])
        found: list[int] = table.tolist()
        return found

    inner = [[least(prices.inner[a, b]) for b in (0, 1)] for a in (0, 1)]
    return WeightTables(
        ((inner[0][0], inner[0][1]), (inner[1][0], inner[1][1])),
        (least(prices.first[0]), least(prices.first[1])),
        largest,
    )


def walked(walk: CellWalk, tables: WeightTables) -> tuple[int, tuple[Absorbed, ...]]:
    """What the terms of a walk take, and for every cell whether the moves to it and from it absorb one of its terms."""
    costs: dict[int, tuple[int, tuple[Absorbed, ...]]] = {0: (0, ())}
    last = len(walk.cells) - 1
    for place, (weight, hops) in enumerate(zip(walk.weights, walk.hops, strict=True)):
        following: dict[int, tuple[int, tuple[Absorbed, ...]]] = {}
        for taken, (cost, chosen) in costs.items():
            for out, taken_next in absorptions(hops if walk.absorbs else 0, place == last):
                table = tables.inner[taken][out] if place else tables.first[out]
                price = cost + table[weight + tables.largest]
                if taken_next not in following or price < following[taken_next][0]:
                    following[taken_next] = price, (*chosen, (taken, out))
        costs = following
    return costs[0]


def absorptions(hops: int, last: bool) -> tuple[Absorbed, ...]:
    """Whether a move adds a term of the cell that it leaves, and subtracts one of the next cell: a macro does one of both."""
    if not hops:
        return ((0, 0),)
    if last:
        return ((0, 0), (1, 0))
    return ((0, 0), (1, 0), (0, 1)) if hops == 1 else ((0, 0), (1, 0), (0, 1), (1, 1))
