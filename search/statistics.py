"""The statistics of comparisons: quantiles that may be infinite, the paired test with its effect size, Holm's correction,
and how many pairs it takes for the two to show anything."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

SIGNIFICANCE = 0.05
"""Adjusted p values below it count as a difference."""

DIGITS = 1e-12
"""Values that are closer, relative to the largest, are equal: floating-point noise is no result."""

EXACT_PAIRS = 50
"""With more pairs that differ, p is that of the normal approximation, which is then within 0.004, and within 0.001 below 0.1."""


@dataclass(frozen=True)
class PairedTest:
    """A test whether paired values x and y differ, less being better. `p`: Wilcoxon's signed-rank test, two-sided; None where the pairs
    are all alike, so that there is nothing random to test. `effect`: matched-pairs rank-biserial correlation (Kerby 2014),
    from -1 (x is always worse) to 1 (always better)."""

    wins: int
    ties: int
    losses: int
    p: float | None
    effect: float

    @property
    def pairs(self) -> int:
        """How many there are, ties included."""
        return self.wins + self.ties + self.losses


def quantile(values: Sequence[float], share: float) -> float:
    """Between order statistics by linear interpolation (type 7 of Hyndman and Fan), +inf where one of the two is. ValueError
    for no values."""
    if not values:
        raise ValueError("no values have no quantile")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if low == high or place == math.floor(place):
        return low
    return math.inf if math.isinf(high) else low + (place - math.floor(place)) * (high - low)


def median(values: Sequence[float]) -> float:
    """The quantile at one half."""
    return quantile(values, 0.5)


def paired_test(x: Sequence[float], y: Sequence[float], alike: Sequence[bool] | None = None) -> PairedTest:
    """Equally many values, at least one each. +inf stands for no result: two of them are alike, and one differs from any
    number by more than numbers do from each other. `alike`: pairs that are ties whatever their values."""
    differences = _differences(x, y)
    if alike is not None:
        differences = [0.0 if tie else d for d, tie in zip(differences, alike, strict=True)]
    signs = [(d < 0) - (d > 0) for d in differences]
    wins, losses = signs.count(1), signs.count(-1)
    p, effect = None, 0.0
    if wins or losses:
        moved = [d for d in differences if d]
        ranks = _doubled_ranks([abs(d) for d in moved])
        less = sum(rank for rank, d in zip(ranks, moved, strict=True) if d < 0)
        effect = (2 * less - sum(ranks)) / sum(ranks)
        if _vary(x) or _vary(y):
            p = _signed_rank_p(ranks, less)
    return PairedTest(wins, len(signs) - wins - losses, losses, p, effect)


def sign_test_p(less: int, more: int) -> float:
    """One-sided p of the exact sign test (of yes and no: McNemar's): how likely at most `less` of the pairs that differ, `less` + `more`
    of them, fall to one side by a fair coin. 1 where none differs."""
    pairs, ways, total = less + more, 1, 0
    for k in range(less + 1):
        total += ways
        ways = ways * (pairs - k) // (k + 1)
    return total / (1 << pairs)


def chance_of_more(mean: float, other: float) -> float:
    """How likely a Poisson count of this mean is larger than another one, of the `other` mean: exact but for rounding, and for what is
    beyond ten deviations. ValueError for a mean below 0."""
    if min(mean, other) < 0.0:
        raise ValueError("a count has no mean below 0")
    most = math.ceil(mean + 10.0 * math.sqrt(mean) + 20.0)
    chance = below = 0.0  # below: how likely the other count is below k
    for k in range(most + 1):
        chance += _poisson(k, mean) * below
        below += _poisson(k, other)
    return chance


def _poisson(count: int, mean: float) -> float:
    if mean == 0.0:
        return float(count == 0)
    return math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))


def least_p(pairs: int) -> float:
    """The smallest p that `paired_test` can give for so many pairs that differ: only 2 of the 2**pairs ways to share out the
    signs are as extreme as all alike, whatever the ranks and their ties."""
    return min(1.0, 2.0 ** (1 - pairs))


def pairs_needed(tests: int) -> int:
    """How many pairs must differ, at least, for a p below `SIGNIFICANCE` after Holm's correction over so many tests."""
    return next(pairs for pairs in itertools.count(1) if tests * least_p(pairs) < SIGNIFICANCE)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted for testing them all (Holm 1979), in the same order. What was not tested is not adjusted."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        adjusted[place] = largest
    return adjusted


def _differences(x: Sequence[float], y: Sequence[float]) -> list[float]:
    """In units of the last digit that counts: what rounding alone makes different is equal, also as a rank."""
    unit = DIGITS * max((abs(value) for value in (*x, *y) if math.isfinite(value)), default=0.0) or 1.0
    finite = [round((a - b) / unit) for a, b in zip(x, y, strict=True) if math.isfinite(a) and math.isfinite(b)]
    beyond = max((abs(d) for d in finite), default=0) + 1

    def difference(a: float, b: float) -> float:
        if math.isinf(a) or math.isinf(b):
            return float(beyond * (math.isinf(a) - math.isinf(b)))
        return float(round((a - b) / unit))

    return [difference(a, b) for a, b in zip(x, y, strict=True)]


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of every value, from 2 for the least; values that are equal share the mean of their ranks."""
    ordered = sorted(values)
    return [bisect_left(ordered, value) + bisect_right(ordered, value) + 1 for value in values]


def _signed_rank_p(ranks: Sequence[int], less: int) -> float:
    """Two-sided p of Wilcoxon's signed-rank test: how likely a sum of ranks is that lies as far from its mean as `less`, when
    every rank is in the sum or not by a fair coin. Exact with ties too, since the sums of these ranks are counted; above
    EXACT_PAIRS by the normal approximation."""
    total = sum(ranks)
    if len(ranks) > EXACT_PAIRS:
        distance = max(0, abs(2 * less - total) - 2)  # with the correction for continuity, half a rank
        deviations = distance / math.sqrt(sum(rank * rank for rank in ranks))
        return math.erfc(deviations / math.sqrt(2))
    ways = [1]  # by sum: how many subsets of the ranks so far have it
    for rank in ranks:
        ways = [without + with_it for without, with_it in zip(ways + [0] * rank, [0] * rank + ways, strict=True)]
    return min(1.0, 2 * sum(ways[: min(less, total - less) + 1]) / (1 << len(ranks)))


def _vary(values: Sequence[float]) -> bool:
    return len(set(values)) > 1
