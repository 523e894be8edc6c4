"""From a plan (which bank, cut where) to rectangles that a plain placement can be found for, and back to residences.

A cut is a program point at which a buffer may change its address; what lies between two cuts is a rectangle. Where the
offsets of neighbouring rectangles are equal, nothing moves and nothing is paid.

Moves at one point either count as simultaneous, which no order of memmoves may be able to execute, or they have an order:
then a point is stretched into deaths, one instant a move, births, and every placement of the rectangles is executable.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.checker import Residence
from kilotune.spaces.memory.instance import Instance

Cut = tuple[int, int]
"""Index of a buffer, program point."""

Cuts = frozenset[Cut]


def possible_cuts(instance: Instance, memory: MemoryMap) -> tuple[Cut, ...]:
    """Points within a buffer's life at which another one begins: where room is made, and where the paper's moves are.

    Empty when nothing may move. What only moves elsewhere could do is not searched.
    """
    if memory.migration_price is None or memory.most_moves == 0:
        return ()
    births = sorted({b.lower for b in instance.buffers})
    return tuple(
        (i, point)
        for i, b in enumerate(instance.buffers)
        if b.size and any(not memory.banks[k].read_only for k in memory.allowed(b))
        for point in births
        if b.lower < point < b.upper
    )


@dataclass(frozen=True)
class Rectangles:
    """Rectangles of one bank. `arrays` is what solvers see; the other columns, of the same length, are in program points."""

    arrays: BufferArrays
    buffer: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]

    def used(self, offsets: IntArray) -> Cuts:
        """The cuts at which something moves."""
        return frozenset(
            (self.buffer[k], self.lower[k])
            for k in range(1, len(self.buffer))
            if self.buffer[k] == self.buffer[k - 1] and offsets[k] != offsets[k - 1]
        )

    def residences(self, instance: Instance, bank: str, offsets: IntArray) -> list[Residence]:
        """Rectangles of one buffer at one address become one residence."""
        found: list[Residence] = []
        for i, lower, upper, offset in zip(self.buffer, self.lower, self.upper, offsets.tolist(), strict=True):
            name = instance.buffers[i].id
            if found and found[-1].id == name and found[-1].offset == offset:
                lower = found.pop().lower
            found.append(Residence(name, lower, upper, offset, bank))
        return found


def cut_up(
    instance: Instance, members: Sequence[int], bank: Bank, cuts: Cuts, order: Mapping[Cut, int] | None = None
) -> Rectangles:
    """The rectangles of the buffers `members` in a bank. `order`: a place among the moves of its point for every cut (not
    negative, distinct at each point); without one, moves are simultaneous."""
    buffers = instance.buffers
    cut_points: dict[int, list[int]] = {}
    for i, point in () if bank.read_only else sorted(cuts):
        cut_points.setdefault(i, []).append(point)
    first = min((b.lower for b in buffers), default=0)
    last = max((b.upper for b in buffers), default=1)
    stretch = 1 if order is None else max(order.values(), default=0) + 3
    rows: list[tuple[int, int, int]] = []
    table: list[tuple[int, int, int, int]] = []
    for i in members:
        b = buffers[i]
        bounds = [b.lower, *cut_points.get(i, ()), b.upper]
        for lower, upper in itertools.pairwise(bounds):
            rows.append((i, lower, upper))
            if bank.read_only:
                begin, end = first * stretch, last * stretch
            elif order is None:
                begin, end = lower, upper
            else:
                begin = lower * stretch + (stretch - 1 if lower == b.lower else 1 + order[i, lower])
                end = upper * stretch + (0 if upper == b.upper else 1 + order[i, upper])
            table.append((begin, end, b.size, b.alignment))
    columns = np.array(table, dtype=np.int64).reshape(-1, 4)
    arrays = BufferArrays(*(np.ascontiguousarray(columns[:, c]) for c in range(4)))
    return Rectangles(arrays, *(tuple(row[c] for row in rows) for c in range(3)))


def some_order(cuts: Cuts) -> dict[Cut, int]:
    """The moves of each point in the order of the buffers."""
    places: dict[Cut, int] = {}
    met: dict[int, int] = {}
    for i, point in sorted(cuts):
        places[i, point] = met.get(point, 0)
        met[point] = places[i, point] + 1
    return places
