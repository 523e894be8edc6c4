"""Alternate between a constraint-programming model and measurements.

Where the model knows the objective exactly, the first solution is the answer and its bound the proof. Where the
objective is only known by measuring, the model carries a surrogate fitted to the trials so far: solve, measure the
best few, refit (as sequential model-based optimisation does, with a solver in place of an acquisition sampler).
"""

from __future__ import annotations

import math
import time

from kilotune.search.front import Rank, Ranking
from kilotune.search.hypervolume import GrowingFront
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import (
    Assignment,
    Clock,
    HasModel,
    SaysWhyNoModel,
    SolveLimit,
    Space,
    Trial,
    reference_point,
)
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps

CANDIDATES_PER_ROUND = 8
FIRST_WORK, MOST_WORK = 1.0, 30.0  # of `SolveLimit`
SHORTEST_SOLVE_S = 0.05
SOLVES_IN_VAIN = 8


class ModelSearch:
    """ValueError for a space without a model."""

    def __init__(self, space: Space, seed: int) -> None:
        if not isinstance(space, HasModel):
            why = f" {space.why_no_model}" if isinstance(space, SaysWhyNoModel) else ""
            raise ValueError(f"Strategy 'cp' needs a constraint model, and the space {space.name!r} has none{why}.")
        self.bound = UNKNOWN_BOUND
        self._space: HasModel = space
        self._seed = seed
        self._ranking = Ranking.of(space)
        self._best: Rank = (math.inf,) * (1 + len(space.objectives))
        reference = reference_point(space)
        self._front = None if reference is None else GrowingFront(reference)
        self._seconds_left = math.inf
        self._clock: Clock = time.monotonic

    def allow(self, seconds: float) -> None:
        self._seconds_left = seconds

    def count_by(self, clock: Clock) -> None:
        self._clock = clock

    def steps(self) -> Steps:
        trials: list[Trial] = []
        excluded: dict[int, Assignment] = {}
        work, in_vain = FIRST_WORK, 0
        for round_number in range(1 << 30):
            limit = SolveLimit(work, max(SHORTEST_SOLVE_S, self._seconds_left), self._clock)
            model = self._space.model(trials)
            answer = model.solve(CANDIDATES_PER_ROUND, list(excluded.values()), self._seed + round_number, limit)
            if answer.candidates:
                new = yield list(answer.candidates)
            else:
                new = []
            improved = False
            for trial in new:
                if trial.number not in excluded:
                    excluded[trial.number] = trial.assignment
                    trials.append(trial)
                improved |= self._improves(trial)
            if answer.exhausted:
                self.bound = max(self.bound, self._best_loss())
                return Outcome.PROVED
            # Read as a bound on what is left, or on everything: this holds for both.
            self.bound = max(self.bound, min(answer.bound, self._best_loss()))
            if self._best_loss() <= answer.bound and (len(self._best) == 2 or not improved) and self._best[0] == 0.0:
                return Outcome.PROVED
            in_vain = 0 if new else in_vain + 1
            if not improved:  # more time for the solver is what may still close the gap
                work = min(2 * work, MOST_WORK)
            if in_vain == SOLVES_IN_VAIN:
                return Outcome.STALLED
            yield []
        return None

    def _improves(self, trial: Trial) -> bool:
        """Take in a trial; whether it is the best so far, or where a front is asked for, on it."""
        rank = self._ranking.rank(trial.measurement)
        is_best, self._best = rank < self._best, min(self._best, rank)
        return is_best or (self._front is not None and rank[0] == 0.0 and self._front.add(rank[1:]))

    def _best_loss(self) -> float:
        return self._best[1] if self._best[0] == 0.0 else math.inf


STRATEGY = OwnStrategy(
    "ModelSearch",
    Needs.WHOLE,
    "CP-SAT on the space's model, with a surrogate refitted to the trials where it needs one",
    rank=70,
    libraries=("ortools.sat.python.cp_model",),
    ability="HasModel",
)
