"""Best-so-far curves: what a run had reached after so many evaluations, and after so many seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kilotune.search.front import Ranking
from kilotune.search.space import Measurement

RESOLUTION_S = 0.001
"""CPU times that are closer than this are no different. The same run made again ten times, on a busy machine, reached its tenth
trial after times that spread by 1.6 ms for the quickest of six studies (median 3.5 ms), and by 13 to 630 ms for the others
(`experiments/benchmarks/time_resolution.py`)."""


@dataclass(frozen=True)
class Improvement:
    """A new best feasible `loss` of one objective, the first unless another was asked for, with the run's `evaluations`-th
    measurement, after `seconds`."""

    evaluations: int
    seconds: float
    loss: float


@dataclass(frozen=True)
class Curve:
    """One run: its improvements in order, and how long it went on altogether."""

    steps: tuple[Improvement, ...]
    evaluations: int
    seconds: float

    @property
    def loss(self) -> float:
        """At the end; +inf when nothing feasible was found."""
        return self.steps[-1].loss if self.steps else math.inf

    def first(self, loss: float) -> Improvement | None:
        """When the run was as good as `loss`; None: never."""
        return next((step for step in self.steps if step.loss <= loss), None)

    def later_than(self, other: Curve) -> float:
        """By how many seconds this run was later to whatever `other` reached, at worst: 0 or less, never; +inf where it did not
        get as far."""
        mine = ((self.first(step.loss), step.seconds) for step in other.steps)
        return max((math.inf if own is None else own.seconds - theirs_s for own, theirs_s in mine), default=0.0)

    def alike(self, other: Curve) -> bool:
        """Whether both reached the same losses at times that cannot be told apart."""
        return self.later_than(other) < RESOLUTION_S and other.later_than(self) < RESOLUTION_S

    def mean_loss(self, seconds: float, at_most: float) -> float:
        """Best-so-far averaged over [0, seconds]; `at_most` stands for whatever is worse, and for nothing."""
        area, since_s, level = 0.0, 0.0, at_most
        for step in self.steps:
            until_s = min(step.seconds, seconds)
            area += level * (until_s - since_s)
            since_s, level = until_s, min(step.loss, at_most)
        return (area + level * (seconds - since_s)) / seconds


def best_so_far(
    measured: Iterable[tuple[float, Measurement]], ranking: Ranking, seconds: float, objective: int = 0
) -> Curve:
    """The curve of a run that took `seconds`; measurements by number, each with when it was made on the same clock.

    objective: whose losses the curve is of. Those of a later one than the first are of the best candidate so far in all
    objectives up to it, and may rise where an earlier objective improves."""
    steps, count, now_s, best = list[Improvement](), 0, 0.0, (math.inf,) * (objective + 1)
    for count, (elapsed_s, measurement) in enumerate(measured, start=1):
        now_s = max(now_s, elapsed_s)
        losses = ranking.losses(measurement)[: objective + 1]
        if losses < best and ranking.rank(measurement)[0] == 0.0:
            if losses[-1] != best[-1]:
                steps.append(Improvement(count, now_s, losses[-1]))
            best = losses
    return Curve(tuple(steps), count, seconds)
