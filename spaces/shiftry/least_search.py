"""The least memory (flash, cycles) within a permitted loss, by searches for a front that close in on it.

A program of the least memory has lost what it may, by distributing the loss over all of its variables. Local search changes one or two of
them at a time, and what saves bytes breaks what is permitted long before that. The search for a front of cost against precision
(`front_search`) distributes at once; but most of the front is dearer than what is asked for, or far too imprecise. So it is asked for
whole at first, until nothing better has come for a while; then for what costs less than the best that keeps what is permitted, and is not
much less precise than it; and so on, until one of them brings nothing. Local search does the rest.

What is permitted may be a loss of accuracy, a staircase that says nothing between its steps. So it bounds no front: precision leads there.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from kilotune.search.front import Rank, Ranking
from kilotune.search.space import Assignment, Constraint, Decision, Metrics, Objective, Option, Procedure, Trial
from kilotune.search.work_memory import WorkMemory, memory_of
from kilotune.spaces.shiftry.front_search import search_front
from kilotune.spaces.shiftry.known_candidates import FrontQuestion
from kilotune.spaces.shiftry.within_limits import Narrowed

PATIENCE = 60
"""Candidates without a gain, besides as many as came before the last one, that end a search for a front."""

NEARLY_LEAST = 0.8
"""The share of the best's cost from which on programs count as equally cheap in the next front."""

WIDE = 3.0
"""How many times as imprecise as the best a program may be that is asked about in the next front."""


LEAST_SHARE = 0.001
"""The share of the worst precision that a program counts as at the least which is more precise: one may be as precise as can be."""


class CostSeeking(Narrowed, Protocol):
    """A space whose first objective is a cost and whose second is precision, a loss."""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Cost and precision first."""

    @property
    def worst_precision(self) -> float:
        """From where on nothing keeps what is permitted, above 0."""


def search_least(space: CostSeeking, seed: int) -> Procedure:
    """Batches of candidates that have not been measured; ends when a search for a front has brought nothing better that keeps what is
    permitted, or all have been measured."""
    search = _Closing(space, seed)
    asked, stage = search.question(), 0
    while asked is not None:
        yield from search.stage(asked, stage)
        asked, stage = search.question(), stage + 1


@dataclass(frozen=True)
class _Unbound:
    """A space of which only limits on costs bound a front."""

    space: CostSeeking
    constraints: tuple[Constraint, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Those of the space."""
        return self.space.decisions

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        """Those of the space."""
        return self.space.costs(batch)

    @property
    def fingerprint(self) -> str:
        """That of the space."""
        return self.space.fingerprint

    @property
    def error_metric(self) -> str:
        """That of the space."""
        return self.space.error_metric

    @property
    def work_memory(self) -> WorkMemory:
        """That of the space."""
        return memory_of(self.space)


@dataclass
class _Closing:
    """`asked_about`: the rank of the best when the last front was asked for."""

    space: CostSeeking
    seed: int
    best: tuple[Rank, Trial] | None = None
    asked_about: Rank | None = None
    known: dict[tuple[Option, ...], Trial] = field(default_factory=dict)

    @cached_property
    def _ranking(self) -> Ranking:
        return Ranking(self.space.objectives, self.space.constraints)

    @cached_property
    def _dearest(self) -> Metrics:
        return self.space.costs(self.space.narrowings()[:1])[0]

    def question(self) -> FrontQuestion | None:
        """The next front to search: whole at first; None where the last one has brought nothing better, or nothing keeps what is
        permitted."""
        cost, precision = self.space.objectives[:2]
        if self.best is None:
            most = max(cost.loss(self._dearest), 1.0)
            return FrontQuestion((cost, precision), (most, self.space.worst_precision), (0.0,))
        rank, trial = self.best
        if rank[0] > 0.0 or rank == self.asked_about:
            return None
        self.asked_about = rank
        most = math.nextafter(cost.loss(trial.metrics), math.inf)
        worst = WIDE * max(precision.loss(trial.metrics), self.space.worst_precision * LEAST_SHARE)
        return FrontQuestion((cost, precision), (most, min(self.space.worst_precision, worst)), (NEARLY_LEAST * most,))

    def stage(self, asked: FrontQuestion, number: int) -> Procedure:
        """One search for a front, until it has gained nothing for a while."""
        limits = tuple(limit for limit in self.space.constraints if limit.metric in self._dearest)
        search = search_front(_Unbound(self.space, limits), asked, self.seed + number)
        batch, measured, gained_at = next(search, None), 0, 0
        while batch is not None and measured < gained_at + PATIENCE:
            before, known = self.best, len(self.known)
            trials = yield from self._answered(batch)
            measured += len(self.known) - known
            gained_at = measured if self.best != before else gained_at
            try:
                batch = search.send(trials)
            except StopIteration:
                return

    def _answered(self, batch: Sequence[Assignment]) -> Generator[list[Assignment], list[Trial], list[Trial]]:
        """Trials of a batch, in its order; those that are known are not asked for again."""
        keys = [tuple(one[d.name] for d in self.space.decisions) for one in batch]
        fresh = [one for key, one in zip(keys, batch, strict=True) if key not in self.known]
        for trial in (yield fresh) if fresh else ():
            self.known[tuple(trial.assignment[d.name] for d in self.space.decisions)] = trial
            rank = self._ranking.rank(trial.measurement)
            if self.best is None or rank < self.best[0]:
                self.best = rank, trial
        return [self.known[key] for key in keys]
