"""Walks over the cells of a kernel that take the total along: Horner's scheme in two dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.sums import Cell, Sum


@dataclass(frozen=True)
class CellWalk:
    """Cells of a kernel in the order of a walk, their weights in units, and how many instructions each move is, the last one to where
    the result belongs."""

    cells: tuple[Cell, ...]
    weights: tuple[int, ...]
    hops: tuple[int, ...]
    absorbs: bool
    """Whether moves add and subtract terms on the way."""

    reach: int = 2
    """How many cells one instruction moves by."""

    @property
    def largest(self) -> int:
        """The largest weight in magnitude."""
        return max(map(abs, self.weights))


def cell_walk(total: Sum, scale: int, target: str) -> CellWalk:
    """The one of the fewest moves of a spiral inwards and walks row by row and column by column."""
    weights = {cell: weight >> scale for cell, weight in total}
    west, south, east, north = total.box
    inwards = [cell for cell in spiral(west, south, east, north) if cell in weights]
    rows = [
        c
        for n, y in enumerate(range(south, north + 1))
        for c in _row(weights, n, [(x, y) for x in range(west, east + 1)])
    ]
    columns = [
        c
        for n, x in enumerate(range(west, east + 1))
        for c in _row(weights, n, [(x, y) for y in range(south, north + 1)])
    ]
    walks = [walk for one in (inwards, rows, columns) for walk in (one, one[::-1])]
    reach = 1 if target == "auke" else 2
    best = min(walks, key=lambda walk: sum(_hops(walk, reach)))
    return CellWalk(tuple(best), tuple(weights[cell] for cell in best), _hops(best, reach), target != "auke", reach)


def reordered_walk(walk: CellWalk, order: Sequence[int]) -> CellWalk:
    """The walk over the same cells in another order, by their numbers on this one."""
    cells = [walk.cells[number] for number in order]
    weights = tuple(walk.weights[number] for number in order)
    return CellWalk(tuple(cells), weights, _hops(cells, walk.reach), walk.absorbs, walk.reach)


def _hops(cells: Sequence[Cell], reach: int) -> tuple[int, ...]:
    ways = itertools.pairwise([*cells, (0, 0)])
    return tuple(-(-(abs(a[0] - b[0]) + abs(a[1] - b[1])) // reach) for a, b in ways)


def _row(weights: dict[Cell, int], number: int, row: list[Cell]) -> list[Cell]:
    there = [cell for cell in row if cell in weights]
    return there[::-1] if number % 2 else there


def spiral(west: int, south: int, east: int, north: int) -> Iterator[Cell]:
    """All cells of a box, round after round inwards."""
    while west <= east and south <= north:
        yield from ((x, south) for x in range(west, east + 1))
        yield from ((east, y) for y in range(south + 1, north + 1))
        if south < north:
            yield from ((x, north) for x in range(east - 1, west - 1, -1))
        if west < east:
            yield from ((west, y) for y in range(north - 1, south, -1))
        west, south, east, north = west + 1, south + 1, east - 1, north - 1
