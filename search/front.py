"""Which trial is better: rank, incumbent, Pareto front. Feasible candidates always come first."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import le

from kilotune.search.space import Constraint, Direction, Measurement, Objective, Space, Trial

Rank = tuple[float, ...]
"""(violation, loss of each objective in order); smaller is better, compared lexicographically."""


@dataclass(frozen=True)
class Ranking:
    """The order that objectives and constraints put on measurements."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()

    @classmethod
    def of(cls, space: Space) -> Ranking:
        return cls(tuple(space.objectives), tuple(space.constraints))

    def violation(self, measurement: Measurement) -> float:
        """0 when feasible. Else the sum, over constraints, of the excess relative to the limit (bytes and per cent
        do not add up, shares of their limits do); +inf for a failure or an absent metric."""
        if measurement.failure is not None:
            return math.inf
        total = 0.0
        metric = measurement.metrics.get  # as `Constraint.violation`, which is called too often to be called
        for name, limit, at_least, unit in self._limits:
            value = metric(name)
            if value is None or value != value:
                return math.inf
            over = limit - value if at_least else value - limit
            if over > 0.0:
                total += over / unit
        return total

    def losses(self, measurement: Measurement) -> Rank:
        """One loss per objective, in order; +inf where there is no metric."""
        if measurement.failure is not None:
            return (math.inf,) * len(self.objectives)
        metric = measurement.metrics.get  # as `Objective.loss`, likewise
        return tuple(
            [
                math.inf if (value := metric(name)) is None or value != value else value if is_least else -value
                for name, is_least in self._aims
            ]
        )

    @cached_property
    def _limits(self) -> tuple[tuple[str, float, bool, float], ...]:
        """Metric, limit, whether it is a least one, and what excess is a share of."""
        return tuple((c.metric, c.limit, c.at_least, abs(c.limit) or 1.0) for c in self.constraints)

    @cached_property
    def _aims(self) -> tuple[tuple[str, bool], ...]:
        return tuple((o.metric, o.direction is Direction.MINIMIZE) for o in self.objectives)

    def rank(self, measurement: Measurement) -> Rank:
        """Shape (1 + objectives,). A candidate without one of its objectives' metrics is a failure."""
        losses = self.losses(measurement)
        return (math.inf if math.inf in losses else self.violation(measurement), *losses)


class Front:
    """The incumbent and the set of trials that no other trial dominates, kept up to date one trial at a time.

    Among equal losses the trial with the smallest number stays, so the order of arrival does not matter.
    """

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        self._best: tuple[Rank, int, Trial] | None = None
        self._losses: list[Rank] = []  # ascending, lexicographically; parallel to _trials
        self._trials: list[Trial] = []
        self._last_dominator: Rank | None = None
        self._as_tuple: tuple[Rank, ...] | None = None

    @property
    def best(self) -> Trial | None:
        """The lexicographic best of the feasible trials; without any, the one nearest to feasible. None: no trial."""
        return self._best[2] if self._best else None

    @property
    def feasible(self) -> bool:
        """Whether `best` keeps all constraints."""
        return self._best is not None and self._best[0][0] == 0.0

    @property
    def best_rank(self) -> Rank:
        """Rank of `best`; all +inf when there is none."""
        return self._best[0] if self._best else (math.inf,) * (1 + len(self.ranking.objectives))

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The non-dominated feasible trials, best first objective first. Empty when none is feasible."""
        return tuple(self._trials)

    @property
    def losses(self) -> tuple[Rank, ...]:
        """The losses of `trials`; the same object until these are others."""
        if self._as_tuple is None:
            self._as_tuple = tuple(self._losses)
        return self._as_tuple

    def add(self, trial: Trial) -> bool:
        """Take a trial in; True when it is the new incumbent."""
        rank = self.ranking.rank(trial.measurement)
        if rank[0] == 0.0:
            self._insert(rank[1:], trial)
        if self._best is not None and (self._best[0], self._best[1]) <= (rank, trial.number):
            return False
        self._best = (rank, trial.number, trial)
        return True

    def update(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self.add(trial)

    def _insert(self, losses: Rank, trial: Trial) -> None:
        # Most trials are dominated, and often by the same one: ask it first.
        last = self._last_dominator
        if last is not None and last != losses and no_worse(last, losses):
            return
        at = bisect_left(self._losses, losses)
        if at < len(self._losses) and self._losses[at] == losses:
            if trial.number < self._trials[at].number:
                self._trials[at] = trial
            return
        # Whatever dominates sorts before what it dominates.
        for other in reversed(self._losses[:at]):
            if no_worse(other, losses):
                self._last_dominator = other
                return
        self._as_tuple = None
        kept = [i for i in range(at, len(self._losses)) if not no_worse(losses, self._losses[i])]
        self._losses[at:] = [losses, *[self._losses[i] for i in kept]]
        self._trials[at:] = [trial, *[self._trials[i] for i in kept]]


def no_worse(left: Rank, right: Rank) -> bool:
    """Whether the losses `left` are at least as good as `right`, each of them; both have the losses of one ranking."""
    return all(map(le, left, right))
