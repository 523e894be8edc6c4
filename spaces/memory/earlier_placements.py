"""The best placement among the trials of earlier runs, without a check of each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

from kilotune.search.space import Trial

PlacementT = TypeVar("PlacementT")


def best_that_holds(
    trials: Sequence[Trial], metric: str, checked: Callable[[Trial], tuple[int | Fraction, PlacementT] | None]
) -> PlacementT | None:
    """The placement of least cost by the check, among the trials whose `metric` does not say that they are worse than one already
    checked; the first of several. None: none of them holds.

    `checked`: the cost of a trial's placement, in the unit of `metric`, and the placement; None where it is none. A check of 10^5 buffers
    takes a second, and a study has hundreds of trials; so they are checked in the order of what they measured, and mostly one is.
    """
    best: tuple[int | Fraction, PlacementT] | None = None
    for trial in sorted(trials, key=lambda one: one.metrics.get(metric, math.inf)):
        if best is not None and trial.metrics.get(metric, math.inf) >= best[0]:
            break
        found = checked(trial)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return None if best is None else best[1]
