"""The front of programs whose codes are fitted: the search for the front of rounded ones, and what of it is worth fitting.

Fitting takes seconds for a candidate (`fitted_codes`), measuring one with rounded codes less than a millisecond. So about half of the
time goes to either: after so many rounded candidates as one takes to fit, those are fitted that promise to enlarge the front most, if
fitting does for them what it has done for others on average. A candidate that is imprecise as it is rounded may be on the front of fitted
ones, and before another that rounding harms less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from kilotune.search.front import Rank, Ranking
from kilotune.search.hypervolume import GrowingFront
from kilotune.search.space import Assignment, Procedure, Trial

FITTED_TOGETHER = 2
"""Candidates that are fitted in one batch, for as many workers."""

KEPT_OF_EQUAL_COST = 3
"""Candidates of equal costs that may be fitted: the most precise ones."""

FIRST_GAIN = 0.5
"""The share of its loss of precision that a candidate is expected to keep, before one has been fitted."""

TRUSTED_AFTER = 4
"""So many fits weigh as much as `FIRST_GAIN` does."""


class Promising:
    """Measured candidates by what they would add to a front, within a reference point, if they were fitted."""

    def __init__(self, ranking: Ranking, reference: Rank) -> None:
        self._ranking, self._reference = ranking, reference
        precision = ranking.objectives[-1].metric
        self._cost_limits = tuple(limit for limit in ranking.constraints if limit.metric != precision)
        self._front = GrowingFront(reference)
        self._open: dict[Rank, list[tuple[float, int, Assignment]]] = {}
        self._gains = [math.log(FIRST_GAIN)] * TRUSTED_AFTER

    def take_in(self, trials: Sequence[Trial]) -> None:
        """Candidates with rounded codes."""
        for trial in trials:
            *costs, imprecision = self._ranking.losses(trial.measurement)
            if not math.isfinite(imprecision) or any(limit.violation(trial.metrics) for limit in self._cost_limits):
                continue
            self._add(trial)
            alike = self._open.setdefault(tuple(costs), [])
            if len(alike) == KEPT_OF_EQUAL_COST and imprecision >= alike[-1][0]:
                continue
            alike.append((imprecision, trial.number, trial.assignment))
            alike.sort(key=lambda known: known[:2])
            del alike[KEPT_OF_EQUAL_COST:]

    def take_in_fitted(self, before: Sequence[float], trials: Sequence[Trial]) -> None:
        """Candidates that have been fitted, and how imprecise they were."""
        for imprecision, trial in zip(before, trials, strict=True):
            after = self._ranking.losses(trial.measurement)[-1]
            self._add(trial)
            if imprecision > 0.0 and after < math.inf:
                self._gains.append(math.log(max(after, 1e-3 * imprecision) / imprecision))

    def _add(self, trial: Trial) -> None:
        if self._ranking.violation(trial.measurement) == 0.0:
            self._front.add(self._ranking.losses(trial.measurement))

    def take_best(self, most: int) -> tuple[list[Assignment], list[float]]:
        """Those that would add most, one after the other, which are given out once, and how imprecise they are now."""
        kept = math.exp(float(np.mean(self._gains)))
        chosen, before = list[Assignment](), list[float]()
        front = GrowingFront(self._reference)
        for losses in self._front.losses:
            front.add(losses)
        for _ in range(most):
            best = self._largest_gain(front, kept)
            if best is None:
                break
            imprecision, _, assignment = self._open[best].pop(0)
            front.add((*best, kept * imprecision))
            chosen.append(assignment)
            before.append(imprecision)
        return chosen, before

    def _largest_gain(self, front: GrowingFront, kept: float) -> Rank | None:
        """The costs of the candidate that would enlarge a front most; None where none would."""
        expected = GrowingFront(self._reference)
        for costs, alike in self._open.items():
            if alike:
                expected.add((*costs, kept * alike[0][0]))
        gains = [(_volume_with(front, losses, self._reference) - front.volume, losses) for losses in expected.losses]
        gain, losses = max(gains, default=(0.0, ()))
        return losses[:-1] if gain > 0.0 else None


def _volume_with(front: GrowingFront, losses: Rank, reference: Rank) -> float:
    larger = GrowingFront(reference)
    for known in (*front.losses, losses):
        larger.add(known)
    return larger.volume


def search_fitted_front(
    known: Promising, rounded: Procedure, fitted: Callable[[Assignment], Assignment], candidates_a_fit: float
) -> Procedure:
    """Batches of candidates: those of `rounded`, a search for the front, and between them some that are fitted.

    `known`: nothing yet. `fitted`: the fitted candidate of one with rounded codes. `candidates_a_fit`: as many of those as are measured
    while one is fitted.
    Ends when `rounded` has ended and nothing is left that promises to be on the front.
    """
    measured, due = 0, candidates_a_fit
    batch = next(rounded, None)
    while True:
        if batch is not None:
            trials = yield batch
            known.take_in(trials)
            measured += len(trials)
            try:
                batch = rounded.send(trials)
            except StopIteration:
                batch = None
        if batch is None or measured >= due:
            chosen, before = known.take_best(FITTED_TOGETHER)
            due = measured + max(1, len(chosen)) * candidates_a_fit
            if chosen:
                known.take_in_fitted(before, (yield [fitted(candidate) for candidate in chosen]))
            elif batch is None:
                return
