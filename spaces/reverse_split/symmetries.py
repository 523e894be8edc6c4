"""The symmetries of the square, and what they make of cells and of sums of shifted pixels.

A program whose directions are turned computes the turned sums at the same cost, so a search need not meet both.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen.scamp.sums import Cell, Sum

Symmetry = tuple[int, int, bool]
"""The signs of x and y, and whether they change places before."""

SQUARE: tuple[Symmetry, ...] = tuple((sx, sy, swapped) for sx in (1, -1) for sy in (1, -1) for swapped in (False, True))
"""All eight."""


def turned_cell(cell: Cell, symmetry: Symmetry) -> Cell:
    """Where a cell (x, y) goes."""
    sx, sy, swapped = symmetry
    x, y = cell[::-1] if swapped else cell
    return sx * x, sy * y


def turned_sum(total: Sum, symmetry: Symmetry) -> Sum:
    """The sum with every cell turned, about the image's own."""
    return Sum.of((turned_cell(cell, symmetry), weight) for cell, weight in total)


def symmetries_of(total: Sum) -> tuple[Symmetry, ...]:
    """Those that leave the sum as it is, without the one that leaves everything."""
    return tuple(s for s in SQUARE if s != (1, 1, False) and turned_sum(total, s) == total)


def turned_places(places: Sequence[Cell], symmetry: Symmetry) -> list[int]:
    """Which of the places each becomes. ValueError where one becomes none of them."""
    return [places.index(turned_cell(place, symmetry)) for place in places]
