"""The statistics of comparisons: quantiles that may be infinite, the paired test with its effect size, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SIGNIFICANCE = 0.05
"""Adjusted p values below it count as a difference."""

DIGITS = 1e-12
"""Values that are closer, relative to the largest, are equal: floating-point noise is no result."""


@dataclass(frozen=True)
class PairedTest:
    """Of values x and y, pair by pair, less being better. `p`: Wilcoxon's signed-rank test, two-sided; None where the pairs
    are all alike, so that there is nothing random to test. `effect`: matched-pairs rank-biserial correlation (Kerby 2014),
    from -1 (x is always worse) to 1 (always better)."""

    wins: int
    ties: int
    losses: int
    p: float | None
    effect: float


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


def paired_test(x: Sequence[float], y: Sequence[float]) -> PairedTest:
    """Equally many values, at least one each. +inf stands for no result: two of them are alike, and one differs from any
    number by more than numbers do from each other."""
    differences = _differences(x, y)
    signs = [(d < 0) - (d > 0) for d in differences]
    wins, losses = signs.count(1), signs.count(-1)
    p, effect = None, 0.0
    if wins or losses:
        from scipy import stats

        ranks = stats.rankdata([abs(d) for d in differences if d])
        moved = [sign for sign in signs if sign]
        effect = float(sum(rank * sign for rank, sign in zip(ranks, moved, strict=True)) / sum(ranks))
        if _vary(x) or _vary(y):
            p = float(stats.wilcoxon(differences).pvalue)
    return PairedTest(wins, len(signs) - wins - losses, losses, p, effect)


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


def _vary(values: Sequence[float]) -> bool:
    return len(set(values)) > 1
