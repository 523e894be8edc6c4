"""Where results may lie that may lie anywhere: the common positions that so many instructions can reach, for the checker of bounds.

Results at position `(x, y)` are the kernels with every cell moved by so much. The search that makes such claims
(`spaces/reverse_split/positions.py`) has its own reason why no other position need be looked at; the checker's is plainer:

- the box of all values of a program begins as the image's cell. An instruction moves what it reads by so many cells at most, each of which
  takes one side of the box one cell further: so kernels whose box has sides further out, added up, than all instructions together can
  move are out of reach;
- a symmetry of the square makes of each instruction of either set one of the same set, so of positions whose kernels it makes the same ones
  of, one is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilotune.codegen.scamp.instructions import instruction_set
from kilotune.codegen.scamp.sums import Cell, Sum

SQUARE = tuple((sx, sy, swapped) for sx in (1, -1) for sy in (1, -1) for swapped in (False, True))


def farthest_move(target: str) -> int:
    """Cells by which an instruction of a set moves what it reads at most, north to south and west to east together. KeyError as
    `instruction_set`."""
    return max(len(row.fixed) + row.directions for row in instruction_set(target).rows)


def positions_in_reach(sums: Sequence[Sum], moves: int) -> Iterator[Cell]:
    """Positions of nonzero sums that so many moves by one cell can reach, in rows."""
    boxes = [total.box for total in sums]
    west, south = min(box[0] for box in boxes), min(box[1] for box in boxes)
    east, north = max(box[2] for box in boxes), max(box[3] for box in boxes)
    for y in range(-moves - north, moves - south + 1):
        for x in range(-moves - east, moves - west + 1):
            sides = (-(west + x), -(south + y), east + x, north + y)
            if sum(max(0, side) for side in sides) <= moves:
                yield x, y


def square_class(sums: Sequence[Sum]) -> frozenset[Sum]:
    """The sums as the symmetry of the square turns them that comes first: equal for those that one turns into one another."""
    every = [frozenset(_turned(total, symmetry) for total in sums) for symmetry in SQUARE]
    return min(every, key=lambda turned: sorted(total.terms for total in turned))


def turned_cell(cell: Cell, symmetry: tuple[int, int, bool]) -> Cell:
    """Where a symmetry takes a cell: signs of both axes, after they were exchanged."""
    sx, sy, swapped = symmetry
    across, up = cell[::-1] if swapped else cell
    return sx * across, sy * up


def _turned(total: Sum, symmetry: tuple[int, int, bool]) -> Sum:
    return Sum.of((turned_cell(cell, symmetry), weight) for cell, weight in total)
