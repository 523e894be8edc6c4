"""Best-so-far curves: what a run had reached after so many evaluations, and after so many seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kilotune.search.front import Ranking
from kilotune.search.space import Measurement


@dataclass(frozen=True)
class Step:
    """A new best feasible `loss` of the first objective, with the run's `evaluations`-th measurement, after `seconds`."""

    evaluations: int
    seconds: float
    loss: float


@dataclass(frozen=True)
class Curve:
    """One run: its improvements in order, and how long it went on altogether."""

    steps: tuple[Step, ...]
    evaluations: int
    seconds: float

    @property
    def loss(self) -> float:
        """At the end; +inf when nothing feasible was found."""
        return self.steps[-1].loss if self.steps else math.inf

    def first(self, loss: float) -> Step | None:
        """When the run was as good as `loss`; None: never."""
        return next((step for step in self.steps if step.loss <= loss), None)

    def loss_after(self, seconds: float) -> float:
        """Best-so-far at that time; +inf before anything feasible was found."""
        return next((step.loss for step in reversed(self.steps) if step.seconds <= seconds), math.inf)

    def mean_loss(self, seconds: float, at_most: float) -> float:
        """Best-so-far averaged over [0, seconds]; `at_most` stands for whatever is worse, and for nothing."""
        area, since_s, level = 0.0, 0.0, at_most
        for step in self.steps:
            until_s = min(step.seconds, seconds)
            area += level * (until_s - since_s)
            since_s, level = until_s, min(step.loss, at_most)
        return (area + level * (seconds - since_s)) / seconds


def best_so_far(measured: Iterable[tuple[float, Measurement]], ranking: Ranking, seconds: float) -> Curve:
    """The curve of a run that took `seconds`; measurements by number, each with when it was made on the same clock."""
    steps, count, now_s, best = list[Step](), 0, 0.0, math.inf
    for count, (elapsed_s, measurement) in enumerate(measured, start=1):
        now_s = max(now_s, elapsed_s)
        loss = ranking.losses(measurement)[0]
        if loss < best and ranking.rank(measurement)[0] == 0.0:
            best = loss
            steps.append(Step(count, now_s, loss))
    return Curve(tuple(steps), count, seconds)
