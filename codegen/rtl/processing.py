"""Sparse matrix times vector on processing elements of one multiply-accumulate a cycle (SeeDot Section 6.2.1).

The columns of the matrix are given to the elements. Weights are known, so who is idle when is known too: what the paper assigns while
the hardware runs is a list made here, and costs no gates.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray

DYNAMIC_SHARE = 0.25
"""The share of the columns that the paper leaves to elements that are idle ("about a quarter")."""


@dataclass(frozen=True)
class ColumnShares:
    """The columns of each element, in the order in which it works on them."""

    columns: tuple[tuple[int, ...], ...]

    @property
    def elements(self) -> int:
        """How many processing elements there are."""
        return len(self.columns)

    def cycles(self, nonzeros: Sequence[int]) -> int:
        """How long the busiest element works, one non-zero value a cycle; `nonzeros` of each column."""
        return max((sum(nonzeros[c] for c in own) for own in self.columns), default=0)


def column_nonzeros(matrix: FloatArray) -> list[int]:
    """How many values of each column are not zero; `matrix` [rows, columns]."""
    return [int(count) for count in np.count_nonzero(matrix, axis=0)]


def least_cycles(nonzeros: Sequence[int], elements: int) -> int:
    """What no partition of columns goes below: a fair share, or the fullest column."""
    return max(-(-sum(nonzeros) // elements), max(nonzeros, default=0))


def papers_shares(nonzeros: Sequence[int], elements: int, dynamic: float = DYNAMIC_SHARE) -> ColumnShares:
    """The paper's way: equal numbers of neighbouring columns to each element, then the last `dynamic` of all columns one by one to whoever
    is done first (the first of several)."""
    count = len(nonzeros)
    fixed = count - round(count * dynamic)
    own = [list(range(fixed * e // elements, fixed * (e + 1) // elements)) for e in range(elements)]
    ready = [(sum(nonzeros[c] for c in columns), e) for e, columns in enumerate(own)]
    return _given_out(own, ready, range(fixed, count), nonzeros)


def longest_first_shares(nonzeros: Sequence[int], elements: int) -> ColumnShares:
    """Longest processing time first: the fullest column that is left to the element that has least."""
    order = sorted(range(len(nonzeros)), key=lambda c: (-nonzeros[c], c))
    return _given_out([[] for _ in range(elements)], [(0, e) for e in range(elements)], order, nonzeros)


def _given_out(
    own: list[list[int]], ready: list[tuple[int, int]], columns: Sequence[int], nonzeros: Sequence[int]
) -> ColumnShares:
    """Each of `columns` in turn to the element that is ready first; `ready` holds (cycle, element)."""
    heapq.heapify(ready)
    for column in columns:
        cycle, element = ready[0]
        own[element].append(column)
        heapq.heapreplace(ready, (cycle + nonzeros[column], element))
    return ColumnShares(tuple(tuple(columns) for columns in own))


@dataclass(frozen=True)
class ElementStep:
    """One cycle of an element: `value` times the vector's element `column`, added to the sum of `row`, or the first of it."""

    first: bool
    row: int
    column: int
    value: int


def element_steps(matrix: IntArray, columns: Sequence[int]) -> tuple[ElementStep, ...]:
    """What an element does: the non-zero values of its columns, of integers `matrix` [rows, columns]."""
    touched: set[int] = set()
    steps = []
    for column in columns:
        for row in np.flatnonzero(matrix[:, column]).tolist():
            steps.append(ElementStep(row not in touched, row, column, int(matrix[row, column])))
            touched.add(row)
    return tuple(steps)
