"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-=+*#@"
"""For terminals without Unicode."""


def sparkline(values: Sequence[float], blocks: str = BLOCKS) -> str:
    """One character a value, from the lowest to the highest of them; a space where there is none (not finite)."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return " " * len(values)
    low, high = min(known), max(known)
    top = len(blocks) - 1

    def block(value: float) -> str:
        if not math.isfinite(value):
            return " "
        return blocks[0 if high == low else round(top * (value - low) / (high - low))]

    return "".join(block(value) for value in values)


def best_so_far_at(improvements: Sequence[tuple[float, float]], until_s: float, width: int) -> list[float]:
    """What had been reached at the ends of `width` equal parts of [0, until_s]. `improvements`: (seconds, value), in order
    of time. NaN before the first."""
    reached, values, following = math.nan, list[float](), 0
    for part in range(1, width + 1):
        end_s = until_s * part / width
        while following < len(improvements) and (improvements[following][0] <= end_s or part == width):
            reached = improvements[following][1]
            following += 1
        values.append(reached)
    return values
