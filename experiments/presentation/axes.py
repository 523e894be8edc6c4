"""Axes that show what matters: the curve and not the stragglers, a single point as one, levels only where they are near."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

FAR = 1.5
"""A level that many times the height of all else away from it is not drawn: it would flatten everything."""

FEW_TICKS = 10
"""Whole numbers that span no more are labelled one by one."""


def near(level: float, values: Sequence[float], spans: float = FAR) -> bool:
    """Whether an axis can show `level` with these values, and they remain as far apart as one can see. Values that are all
    the same have nothing to be flattened."""
    low, high = min(values), max(values)
    return low == high or low - spans * (high - low) <= level <= high + spans * (high - low)


ROOM_FOR_DOTS = 0.02
"""The share of an axis that stays beyond its end, so that a dot there is drawn whole."""


def possible_range(low: float, high: float, values: Sequence[float], percent: bool = False) -> tuple[float, float]:
    """A range without what is impossible: below 0 where no value is, above 100 for a percentage that never is. Room for dots stays,
    in which there is no tick."""
    room = ROOM_FOR_DOTS * (high - low)
    if values and min(values) >= 0.0:
        low = max(low, -room)
    if percent and values and max(values) <= 100.0:
        high = min(high, 100.0 + room)
    return low, high


def focused_range(
    curve: Sequence[float], dots: Sequence[float], levels: Sequence[float], percent: bool = False
) -> tuple[float, float]:
    """What an axis of a best-so-far curve spans: the curve and the levels near it; of dots those that are about as near, since
    single candidates may be far worse than the best ever was. With a level curve most of the dots."""
    shown = [*curve, *(level for level in levels if near(level, curve))]
    low, high = min(shown), max(shown)
    ordered = sorted(dots)
    if ordered and min(curve) == max(curve):
        shown += [ordered[len(ordered) // 20], ordered[-1 - len(ordered) // 20]]
    elif ordered:
        reach = high - low
        shown += [min(max(dot, low - reach), high + reach) for dot in (ordered[0], ordered[-1])]
    low, high = min(shown), max(shown)
    margin = 0.06 * (high - low) or abs(high) * 0.05 or 1.0
    return possible_range(low - margin, high + margin, shown, percent)


def axis_of(values: Sequence[float]) -> dict[str, Any]:
    """What an axis with nothing but these values needs besides Plotly's own choice: room around a single value, and no tick
    between whole numbers."""
    if not values:
        return {}
    low, high = min(values), max(values)
    if low < high:
        return ticks_of(values, low, high)
    margin = max(1.0 if _whole(values) else 0.0, 0.05 * abs(low)) or 1.0
    low, high = possible_range(low - margin, high + margin, values)
    return {"range": [low, high], **ticks_of(values, low, high)}


def ticks_of(values: Sequence[float], low: float, high: float) -> dict[str, Any]:
    """No tick between whole numbers, where there are few of them from `low` to `high`."""
    return {"dtick": 1} if _whole(values) and high - low <= FEW_TICKS else {}


def _whole(values: Sequence[float]) -> bool:
    return all(math.isfinite(value) and float(value).is_integer() for value in values)
