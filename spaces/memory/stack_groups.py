"""Which of the buffers that end at a point of time made room for which of those that begin there, as far as their sizes tell.

Where pieces of a full memory end, others take their place, together as large. Where several such groups change at one point, sums say who
belongs to whom: to the byte, or nearly, where every piece has become smaller. What a group gains is the logarithm of how much likelier
its sizes are where its buffers belong together than where they do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log, pi

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.spaces.memory.arrays import BufferArrays

MOST_SUBSETS = 20_000
"""Subsets looked at of what ends at a point, or begins: the smaller ones."""

MOST_EXACT_SUBSETS = 1 << 19
"""Likewise where sums are the same to the byte, which few are by chance, and a side has at most MOST_EXACT buffers; of 19 these are all,
and 19 on both sides take half a second."""

MOST_EXACT = 24

MOST_PAIRS = 200_000
"""Pairs of subsets with nearly the same sum; of more, only smaller subsets are looked at."""

MOST_GROUPS = 3000
"""At a point; those that gain most."""

FARTHEST = 3.0
"""By how many standard deviations of one buffer as large as both sums these differ at most."""

MOST_BUFFERS = 250
"""At most that end or begin at a point of time where sums are nearly the same."""

_LOG_FACTORIALS = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, MOST_BUFFERS + 1)))])


def spread_of_sizes(buffers: BufferArrays) -> float:
    """The standard deviation of sizes, as a share of them, by which what ends at a point of time may differ from what begins there. However
    these are divided into groups, all of them together are as large on both sides but for that."""
    points = np.intersect1d(buffers.lower, buffers.upper)
    if not len(points):
        return 0.0
    size = buffers.size.astype(float)
    difference, squares = np.zeros(len(points)), np.zeros(len(points))
    for times, sign in ((buffers.lower, 1.0), (buffers.upper, -1.0)):
        at = np.searchsorted(points, times)
        there = (at < len(points)) & (points[np.minimum(at, len(points) - 1)] == times)
        np.add.at(difference, at[there], sign * size[there])
        np.add.at(squares, at[there], size[there] ** 2)
    return float(np.sqrt(np.mean(difference**2 / squares)))


@dataclass(frozen=True)
class StackGroups:
    """Shape (groups,) each, the greatest gain first: which of those that end and of those that begin, as bits of their numbers."""

    ending: IntArray
    beginning: IntArray
    gain: FloatArray


@dataclass(frozen=True)
class _Subsets:
    masks: IntArray
    sums: FloatArray
    squares: FloatArray
    counts: FloatArray

    def __getitem__(self, chosen: IntArray | slice) -> _Subsets:
        return _Subsets(self.masks[chosen], self.sums[chosen], self.squares[chosen], self.counts[chosen])


def groups_at(ending: IntArray, beginning: IntArray, spread: float) -> StackGroups:
    """Groups among sizes that end and begin at a point of time, at most 60 each. `spread`: the standard deviation of a size, as a
    share of it; 0: sums are the same."""
    ends, begins = (
        _subsets(sizes, MOST_SUBSETS if spread or len(sizes) > MOST_EXACT else MOST_EXACT_SUBSETS)
        for sizes in (ending, beginning)
    )
    while True:
        begins_sorted = begins[np.argsort(begins.sums, kind="stable")]
        reach = FARTHEST * spread * np.sqrt(2.0) * ends.sums
        low = np.searchsorted(begins_sorted.sums, ends.sums - reach, side="left")
        found = np.searchsorted(begins_sorted.sums, ends.sums + reach, side="right") - low
        if found.sum() <= MOST_PAIRS or len(found) == 1:
            break
        ends, begins = ends[: -(-len(ends.masks) // 2)], begins[: -(-len(begins.masks) // 2)]
    one = ends[np.repeat(np.arange(len(found)), found)]
    other = begins_sorted[np.arange(found.sum()) - np.repeat(np.cumsum(found) - found - low, found)]
    gain = _gain(one, other, spread, float(np.mean(beginning)))
    kept = np.argsort(-gain, kind="stable")[:MOST_GROUPS]
    return StackGroups(one.masks[kept], other.masks[kept], gain[kept])


def gain_of(ending: IntArray, beginning: IntArray, spread: float, typical: float) -> float:
    """That of one group. `typical`: the mean of all sizes that begin at its point."""
    one, other = (
        _Subsets(
            np.zeros(1, dtype=np.int64),
            np.array([float(sizes.sum())]),
            np.array([float((sizes.astype(float) ** 2).sum())]),
            np.array([float(len(sizes))]),
        )
        for sizes in (ending, beginning)
    )
    return float(_gain(one, other, spread, typical)[0])


def _gain(ends: _Subsets, begins: _Subsets, spread: float, typical: float) -> FloatArray:
    """Cuts at random places make any sizes of one sum equally likely; -inf where the sums differ and may not. Of sums that are the same to
    the byte those of the fewest tell most. Nearly the same are many by chance, above all of half of the buffers: there it counts in how
    many ways so many can be chosen and arranged, and that cuts may be rare or dense in a place."""
    difference = ends.sums - begins.sums
    if not spread:
        cuts = log(typical) - (begins.counts - 1) * np.log(ends.sums / typical) - np.log(np.maximum(begins.counts, 1.0))
        return np.where(difference == 0, cuts, -np.inf)
    variance = spread**2 * (ends.squares + begins.squares)
    count = begins.counts.astype(np.int64)
    ways = _LOG_FACTORIALS[count] + _LOG_FACTORIALS[count - 1]
    cuts = log(typical) + ways - count * np.log(ends.sums / typical + 1.0)
    return np.asarray(cuts - difference**2 / (2 * variance) - np.log(2 * pi * variance) / 2)


def _subsets(sizes: IntArray, most: int) -> _Subsets:
    """The smaller ones first, so many at most."""
    single = sizes.astype(float)
    masks, last = np.int64(1) << np.arange(len(sizes)), np.arange(len(sizes))
    found = [_Subsets(masks, single, single**2, np.ones(len(sizes)))]
    count = len(sizes)
    for together in range(2, len(sizes) + 1):
        count += comb(len(sizes), together)
        if count > most:
            break
        times = len(sizes) - 1 - last
        one = np.repeat(np.arange(len(last)), times)
        last = np.arange(len(one)) - np.repeat(np.cumsum(times) - times, times) + last[one] + 1
        fewer = found[-1][one]
        found.append(
            _Subsets(
                fewer.masks | np.int64(1) << last,
                fewer.sums + single[last],
                fewer.squares + single[last] ** 2,
                fewer.counts + 1,
            )
        )
    columns = ([getattr(part, name) for part in found] for name in ("masks", "sums", "squares", "counts"))
    return _Subsets(*(np.concatenate(column) for column in columns))
