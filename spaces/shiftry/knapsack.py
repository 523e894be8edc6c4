"""A multiple-choice knapsack by dynamic programming (Dudzinski and Walukiewicz, EJOR 28(1), 1987): one option of each class, the least sum
of values at every sum of costs at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray

MOST_CELLS = 2048
"""Sums of costs that are told apart, at most."""


@dataclass(frozen=True)
class Packing:
    """One option a class, by its number: `cost` and `value` are their sums, the cost as it was rounded."""

    chosen: tuple[int, ...]
    cost: float
    value: float


def least_values(
    costs: Sequence[FloatArray], values: Sequence[FloatArray], most_changes: int | None = None
) -> Iterator[Packing]:
    """The packings that no other one beats in cost and value, cheapest first.

    costs, values: of the options of each class, either sign. Costs are rounded to `MOST_CELLS` multiples of a unit; where
    they are whole and their sums span less, to whole ones.
    most_changes: how many classes may take another option than their first one; one list of packings for each number of changes up to that,
    beginning with none. None: any number, and one list.
    """
    span = sum(float(np.ptp(cost)) for cost in costs)
    unit = max(1.0, span / MOST_CELLS) if span >= 1.0 else max(span, 1e-300) / MOST_CELLS
    rounded = [np.rint((cost - cost.min()) / unit).astype(np.int64) for cost in costs]
    layers = 1 if most_changes is None else most_changes + 1
    cells = 1 + sum(int(cost.max()) for cost in rounded)
    table = np.full((layers, cells), np.inf)
    table[0, 0] = 0.0
    choices = []
    for cost, value in zip(rounded, values, strict=True):
        table, chosen = _with_class(table, cost, value, most_changes is not None)
        choices.append(chosen)
    least = sum(float(cost.min()) for cost in costs)
    for layer in range(layers):
        before = np.concatenate([[np.inf], np.minimum.accumulate(table[layer])[:-1]])
        for cell in np.flatnonzero(table[layer] < before).tolist():
            picked = _read_back(choices, rounded, layer, cell, most_changes is not None)
            yield Packing(picked, least + unit * cell, float(table[layer, cell]))


def _with_class(
    table: FloatArray, costs: npt.NDArray[np.int64], values: FloatArray, counts: bool
) -> tuple[FloatArray, npt.NDArray[np.int16]]:
    """The table after one more class, and which of its options each cell takes."""
    cells = table.shape[1]
    after = np.full_like(table, np.inf)
    chosen = np.zeros(table.shape, dtype=np.int16)
    for option, (cost, value) in enumerate(zip(costs.tolist(), values.tolist(), strict=True)):
        up = 1 if counts and option else 0
        if cost >= cells or up >= table.shape[0]:
            continue
        reached = table[: table.shape[0] - up, : cells - cost] + value
        target = after[up:, cost:]
        better = reached < target
        target[better] = reached[better]
        chosen[up:, cost:][better] = option
    return after, chosen


def _read_back(
    choices: Sequence[npt.NDArray[np.int16]],
    costs: Sequence[npt.NDArray[np.int64]],
    layer: int,
    cell: int,
    counts: bool,
) -> tuple[int, ...]:
    picked = []
    for chosen, cost in zip(reversed(choices), reversed(costs), strict=True):
        option = int(chosen[layer, cell])
        picked.append(option)
        cell -= int(cost[option])
        layer -= 1 if counts and option else 0
    return tuple(reversed(picked))
