"""Weights that share few integers: codes of 4 bits, each of which stands for one of 16 integers of 8 bits in a table of the parameter's.

Where weights are many near zero and few far from it, 16 integers of one's own choice are nearer to them than 16 at equal distances. The
table is the best for nearest codes, the clusters of least squared error, which dynamic programming finds exactly on a line (Wang and
Song, "Ckmeans.1d.dp", The R Journal 2011; sharing weights after training: Han et al., "Deep Compression", ICLR 2016). An error counts as
much as the second moment of what its weight is multiplied by. Where weights are rounded sequentially, codes and table then take turns:
codes for the table, and the table whose integers give the sums of these codes the least error (linear least squares).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.sequential_rounding import SequentialRounding, WeightGroup

CODEBOOK_BITS = 4
"""Width of a code."""

CODEBOOK_SIZE = 1 << CODEBOOK_BITS
"""Integers in a table, a byte each."""

INTEGER_BITS = 8
"""Width of the integers."""

GRID = 4
"""Places a unit of the integers at which weights are gathered before they are clustered, so that time does not grow with their number."""

MOST_TURNS = 6
"""How often codes and table take turns at most."""


@dataclass(frozen=True, eq=False)
class CodedWeights:
    """`table` [CODEBOOK_SIZE], in order, and the `places` in it of all weights, in the parameter's shape."""

    table: IntArray
    places: IntArray

    @property
    def integers(self) -> IntArray:
        """What the codes stand for."""
        return np.asarray(self.table[self.places])


def coded_weights(scaled: FloatArray, rounding: SequentialRounding | None) -> CodedWeights:
    """Table and codes of weights in units of the integers. Zeros stay zero: those of a sparse matrix are not stored."""
    flat = np.asarray(scaled, dtype=np.float64).reshape(-1)
    importance = np.ones(flat.shape) if rounding is None else _importance(flat.size, rounding)
    table = _first_table(flat, importance)
    integers = _rounded(flat, table, rounding)
    if rounding is not None:
        table, integers = _in_turns(flat, table, integers, rounding)
    full = np.pad(table, (0, CODEBOOK_SIZE - len(table)), mode="edge")
    return CodedWeights(full, np.searchsorted(table, integers).reshape(np.shape(scaled)))


def cluster_means(values: FloatArray, weights: FloatArray, most: int) -> FloatArray:
    """The means of at most `most` clusters of ascending `values` [n] of least sum of `weights` times squared distances to them."""
    count = len(values)
    total, first, second = (np.concatenate([[0.0], np.cumsum(weights * values**power)]) for power in (0, 1, 2))
    mass = total[None, :] - total[:, None]
    upper = np.triu(np.ones((count + 1, count + 1), dtype=np.bool_), 1)
    moved = first[None, :] - first[:, None]
    spread = second[None, :] - second[:, None] - np.divide(moved**2, mass, out=np.zeros_like(mass), where=upper)
    cost = np.where(upper, spread, np.inf)  # of values i up to j - 1 in one cluster
    least, starts = np.full(count + 1, np.inf), []
    least[0] = 0.0
    for _ in range(min(most, count)):
        tried = least[:, None] + cost
        starts.append(np.argmin(tried, axis=0))
        least = tried[starts[-1], np.arange(count + 1)]
    means, end = [], count
    for start in reversed(starts):
        begin = int(start[end])
        means.append((first[end] - first[begin]) / (total[end] - total[begin]))
        end = begin
    return np.array(means[::-1])


def _first_table(flat: FloatArray, importance: FloatArray) -> IntArray:
    """The integers nearest to the clusters' means, and 0 where a weight is 0."""
    stored = flat != 0
    places, which = np.unique(np.floor(flat[stored] * GRID + 0.5), return_inverse=True)
    if not len(places):
        return np.zeros(1, dtype=np.int64)
    mass = np.asarray(np.bincount(which, importance[stored]), dtype=np.float64)
    sums = np.bincount(which, importance[stored] * flat[stored])
    means = cluster_means(sums / mass, mass, CODEBOOK_SIZE - (0 if stored.all() else 1))
    return _as_table(means, bool(stored.all()))


def _as_table(entries: FloatArray, without_zero: bool) -> IntArray:
    """Integers in order, each once."""
    half = 1 << (INTEGER_BITS - 1)
    integers = np.clip(np.floor(entries + 0.5), -half, half - 1).astype(np.int64)
    return np.unique(integers if without_zero else np.append(integers, 0))


def _nearest(table: IntArray) -> Callable[[FloatArray], IntArray]:
    between = (table[1:] + table[:-1]) / 2
    return lambda numbers: np.asarray(table[np.searchsorted(between, numbers)])


def _rounded(flat: FloatArray, table: IntArray, rounding: SequentialRounding | None) -> IntArray:
    """The table's integer of every weight."""
    nearest = _nearest(table)
    integers = nearest(flat) if rounding is None else rounding.codes(flat, nearest)
    return np.where(flat == 0, 0, integers) if (flat == 0).any() else integers


def _in_turns(
    flat: FloatArray, table: IntArray, integers: IntArray, rounding: SequentialRounding
) -> tuple[IntArray, IntArray]:
    """The best table and integers of some turns, which end when the error of the sums does not fall."""
    best, kept = (_error(flat, integers, rounding), table, integers), bool((flat != 0).all())
    for _ in range(MOST_TURNS):
        refitted = _refitted(flat, best[1], best[2], rounding)
        next_table = _as_table(refitted if kept else refitted[best[1] != 0], kept)
        next_integers = _rounded(flat, next_table, rounding)
        error = _error(flat, next_integers, rounding)
        if error >= best[0]:
            break
        best = (error, next_table, next_integers)
    return best[1], best[2]


def _refitted(flat: FloatArray, table: IntArray, integers: IntArray, rounding: SequentialRounding) -> FloatArray:
    """The entries that give the sums the least error while no code moves; those that nobody has stay."""
    size = len(table)
    matrix, wanted = np.zeros((size, size)), np.zeros(size)
    for group in rounding.groups:
        weights, places = flat[group.elements], np.searchsorted(table, integers[group.elements])
        for column in range(weights.shape[1]):
            chosen = np.zeros((len(weights), size))
            chosen[np.arange(len(weights)), places[:, column]] = 1.0
            weighted = chosen.T @ group.damped
            matrix += weighted @ chosen
            wanted += weighted @ weights[:, column]
    held = 1e-9 * np.trace(matrix) / size + np.where(np.diag(matrix) == 0, 1.0, 0.0)
    return np.asarray(np.linalg.solve(matrix + np.diag(held), wanted + held * table))


def _error(flat: FloatArray, integers: IntArray, rounding: SequentialRounding) -> float:
    """The squared error of all sums on average."""
    return sum(_group_error(flat[g.elements] - integers[g.elements], g) for g in rounding.groups)


def _group_error(errors: FloatArray, group: WeightGroup) -> float:
    return float((errors * (group.damped @ errors)).sum())


def _importance(count: int, rounding: SequentialRounding) -> FloatArray:
    """The second moment [count] of what each weight is multiplied by; the mean where that is not known."""
    found = np.full(count, np.nan)
    for group in rounding.groups:
        found[group.elements] = np.diag(group.damped)[:, None]
    known = found[~np.isnan(found)]
    return np.where(np.isnan(found), known.mean() if len(known) else 1.0, found)
