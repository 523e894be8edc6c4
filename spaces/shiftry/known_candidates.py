"""The candidates that a search for a front has measured: where its front is, and what is missing around it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray
from kilotune.search.front import Rank, Ranking
from kilotune.search.hypervolume import GrowingFront
from kilotune.search.space import Assignment, Constraint, Decision, Metrics, Objective, Trial

Columns = npt.NDArray[np.int64]
"""Candidates [N, variables]: the number of each variable's option among its own."""


MOST_POINTS = 2048
"""Points of which the costs of changes are kept: those of the front are asked for again and again."""


class Costed(Protocol):
    """What a search for a front needs of a space."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """One a variable."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What a feasible candidate must keep."""

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        """The metrics that are costs, without a measurement."""

    @property
    def fingerprint(self) -> str:
        """Hash of what is searched."""

    @property
    def error_metric(self) -> str:
        """The metric whose squares add up over variables whose errors do not depend on one another."""


@dataclass(frozen=True)
class FrontQuestion:
    """Which front is asked for: `objectives`, the costs and precision behind them; `reference`, as
    `kilotune.search.space.HasReferencePoint`; `cheapest`: costs below which none is better than another."""

    objectives: tuple[Objective, ...]
    reference: Rank
    cheapest: Rank

    @staticmethod
    def whole(objectives: tuple[Objective, ...], reference: Rank | None) -> FrontQuestion:
        """All of it. ValueError without a reference point: then no front is asked for."""
        if reference is None:
            raise ValueError("A search for a front needs a reference point.")
        return FrontQuestion(objectives, reference, (0.0,) * (len(reference) - 1))


class KnownCandidates:
    """All that were measured, by what they chose."""

    def __init__(self, space: Costed, asked: FrontQuestion) -> None:
        self._space, self._ranking = space, Ranking(asked.objectives, space.constraints)
        self.reference, self._costs_asked = asked.reference, asked.objectives[:-1]
        self._cheapest = np.array(asked.cheapest)
        limits = {c.metric: c.limit for c in space.constraints if not c.at_least}
        costs = zip(self._costs_asked, self.reference, strict=False)
        self._most_costs = np.array([min(most, limits.get(objective.metric, math.inf)) for objective, most in costs])
        self.counts = [len(decision.options) for decision in space.decisions]
        self.firsts = np.concatenate([[0], np.cumsum(self.counts)[:-1]]).astype(np.int64)
        """The place of each variable's first option where all options stand one after another."""
        self._numbers = [{option: i for i, option in enumerate(d.options)} for d in space.decisions]
        self._typecode = np.min_scalar_type(max(self.counts, default=0))
        self._places: dict[bytes, int] = {}  # there may be millions, so candidates are kept once, as short keys
        self._rows: list[bytes] = []
        self._squares = array("d")
        self._front = GrowingFront(self.reference)
        self._of_losses: dict[Rank, int] = {}
        self._error_front = GrowingFront((*(math.inf for _ in self.reference[1:]), math.inf))
        self._visited: set[int] = set()
        self._singles_costs: dict[bytes, FloatArray] = {}
        self.largest_feasible = 0.0
        """The largest squared error of a feasible candidate."""

    def __len__(self) -> int:
        """How many have been measured."""
        return len(self._places)

    @property
    def complete(self) -> bool:
        """Whether every candidate has been measured."""
        return len(self._places) >= math.prod(self.counts)

    def assignments(self, columns: Columns) -> list[Assignment]:
        """As the space has them."""
        decisions = self._space.decisions
        return [{d.name: d.options[i] for d, i in zip(decisions, row, strict=True)} for row in columns.tolist()]

    def take_in(self, trials: Sequence[Trial]) -> None:
        """Measured candidates. One that failed is known, and otherwise left aside."""
        for trial in trials:
            row = np.array(
                [n[trial.assignment[d.name]] for n, d in zip(self._numbers, self._space.decisions, strict=True)]
            )
            square = trial.metrics.get(self._space.error_metric, math.inf) ** 2
            losses = self._worth(self._ranking.losses(trial.measurement))
            key = self._key(row)
            if key in self._places or not math.isfinite(square):
                self._places.setdefault(key, -1)
                continue
            place = self._places[key] = len(self._rows)
            self._rows.append(key)
            self._squares.append(square)
            self._error_front.add((*losses[:-1], square))
            if self._ranking.violation(trial.measurement) == 0.0:
                self.largest_feasible = max(self.largest_feasible, square)
                if self._front.add(losses):
                    self._of_losses[losses] = place

    def _key(self, row: Columns) -> bytes:
        return row.astype(self._typecode).tobytes()

    def _columns(self, place: int) -> Columns:
        return np.frombuffer(self._rows[place], self._typecode).astype(np.int64)

    def _worth(self, losses: Rank) -> Rank:
        """The losses, with costs that are cheap enough as the cheapest ones."""
        return (*np.maximum(losses[:-1], self._cheapest).tolist(), losses[-1])

    def singles(self, point: Columns) -> Columns:
        """All changes of one variable [N, variables]."""
        changed = [
            np.concatenate([point[:v], [option], point[v + 1 :]])
            for v, count in enumerate(self.counts)
            for option in range(count)
            if option != point[v]
        ]
        return np.array(changed, dtype=np.int64).reshape(len(changed), len(self.counts))

    def costs(self, candidates: Columns) -> FloatArray:
        """The costs [N, costs] of candidates, measured or not."""
        found = self._space.costs(self.assignments(candidates))
        losses = [[objective.loss(metrics) for objective in self._costs_asked] for metrics in found]
        return np.array(losses, dtype=np.float64).reshape(len(losses), len(self.reference) - 1)

    def square(self, point: Columns) -> float | None:
        """The squared error of a candidate; None where it has not been measured."""
        place = self._places.get(self._key(point), -1)
        return None if place < 0 else self._squares[place]

    def singles_costs(self, point: Columns) -> FloatArray:
        """By how much the costs [options, costs] change with each option, all variables' one after another."""
        known = self._singles_costs.get(point.tobytes())
        if known is None:
            if len(self._singles_costs) == MOST_POINTS:
                self._singles_costs.clear()
            known = self._singles_costs[point.tobytes()] = self._costs_of_changes(point)
        return known

    def _costs_of_changes(self, point: Columns) -> FloatArray:
        here = (point + self.firsts).tolist()
        changes = np.zeros((sum(self.counts), len(self.reference) - 1))
        others = np.setdiff1d(np.arange(len(changes)), here)
        changes[others] = self.costs(self.singles(point)) - self.costs(point[None])
        return changes

    def singles_squares(self, point: Columns, unknown: FloatArray) -> FloatArray:
        """By how much the squared error [options] changes with each option, as far as that has been measured; `unknown` elsewhere."""
        at_point = self.square(point)
        squares = unknown.copy()
        if at_point is None:
            return squares
        others = np.setdiff1d(np.arange(len(squares)), point + self.firsts)
        for place, row in zip(others.tolist(), self.singles(point), strict=True):
            found = self.square(row)
            if found is not None:
                squares[place] = found - at_point
        return squares

    def new(self, candidates: Columns, most: int) -> list[list[Assignment]]:
        """The first `most` candidates that have not been measured, each once: one batch, or none where there are none."""
        rows = {self._key(row): row for row in candidates}
        fresh = [row for key, row in rows.items() if key not in self._places][:most]
        return [self.assignments(np.array(fresh))] if fresh else []

    def latest(self, most: int) -> tuple[Columns, FloatArray]:
        """The last so many candidates that were measured and are near the front [N, variables], and their squared errors [N]."""
        near = [i for i in range(len(self._squares)) if self._squares[i] <= 4 * self.largest_feasible][-most:] or [0]
        return np.array([self._columns(i) for i in near]), np.array([self._squares[i] for i in near])

    def promise(self, costs: FloatArray, squares: FloatArray) -> FloatArray:
        """By how much candidates of these costs [N, costs] and squared errors [N] are ahead of the best known that cost no more: the
        logarithm of the ratio of squared errors; -inf for what is too imprecise to be feasible."""
        known = np.array(self._error_front.losses)
        dearer = (known[None, :, :-1] > np.maximum(costs, self._cheapest)[:, None, :] + 1e-9).any(axis=2)
        best = np.where(dearer, np.inf, known[None, :, -1]).min(axis=1)
        most = 2 * self.largest_feasible or 2 * float(known[:, -1].max())
        ahead = np.log(np.clip(best, 1e-30, 8 * most + 1e-30) / np.maximum(squares, 1e-30))
        inside = (costs <= self._most_costs).all(axis=1) & (squares <= most)
        return np.asarray(np.where(inside, ahead, -np.inf))

    def widest(self, rng: np.random.Generator) -> tuple[Columns, bool]:
        """A point of the front, and whether it is the first time: of those that have not been given out the one with the most room around
        it, else any."""
        losses = self._front.losses
        if not losses:
            return self._columns(int(rng.integers(len(self._rows)))), False
        places = [self._of_losses[one] for one in losses]
        unvisited = [i for i, place in enumerate(places) if place not in self._visited]
        if not unvisited:
            return self._columns(places[int(rng.integers(len(places)))]), False
        scaled = np.array([self.reference, *losses, self.reference]) / np.array(self.reference)
        rooms = np.abs(np.diff(scaled, axis=0)).prod(axis=1)
        chosen = max(unvisited, key=lambda i: rooms[i] + rooms[i + 1])
        self._visited.add(places[chosen])
        return self._columns(places[chosen]), True

    def any_of_front(self, rng: np.random.Generator) -> Columns:
        """A point of the front; without any, of what has been measured."""
        places = [self._of_losses[losses] for losses in self._front.losses] or range(len(self._rows))
        return self._columns(places[int(rng.integers(len(places)))])

    def kicked(self, rng: np.random.Generator, count: int) -> Columns:
        """Points of the front with two or three variables changed at random."""
        rows = np.array([self.any_of_front(rng) for _ in range(count)])
        for row in rows:
            for v in rng.integers(len(self.counts), size=int(rng.integers(2, 4))):
                row[v] = rng.integers(self.counts[v])
        return rows
