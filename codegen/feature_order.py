"""Features in another order than the model's own, as a program takes them whose input is frames of a window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FeatureOrder:
    """Feature i of the program is feature `places[i]` of the model."""

    places: tuple[int, ...]

    @property
    def formula(self) -> str:
        """Which feature of the model x[i] is, in C; "" where no sum of digits of i says it."""
        levels = _levels(self.places)
        if levels is None:
            return ""
        terms, below = list[str](), 1
        for extent, step in levels:
            digit = "i" if below == 1 else f"i / {below}"
            below *= extent
            digit += "" if below == len(self.places) else f" % {extent}"
            terms.append(digit if step == 1 else f"{digit} * {step}")
        return " + ".join(terms[::-1])


def _levels(places: Sequence[int]) -> list[tuple[int, int]] | None:
    """(extent, step) of loops, the innermost first, that count the places; None where there are no such loops."""
    levels: list[tuple[int, int]] = []
    rest = list(places)
    if not rest or rest[0] != 0:
        return None
    while len(rest) > 1:
        step = rest[1] - rest[0]
        extent = next((k for k, place in enumerate(rest) if place != k * step), len(rest))
        levels.append((extent, step))
        rest = rest[::extent]
    counted = [0]
    for extent, step in levels[::-1]:
        counted = [place + k * step for place in counted for k in range(extent)]
    fits = counted == list(places) and math.prod(extent for extent, _ in levels) == len(places)
    return levels if fits else None
