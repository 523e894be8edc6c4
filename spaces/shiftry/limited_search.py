"""The most precise program within limits, by the search for a front: sensitivities and knapsacks that end at the limits.

Local search changes one or two variables at a time, and with many formats a variable it settles where another distribution of the bytes
flips a third of the samples, or a tenth. A knapsack distributes all bytes at once. So the search for the whole front (`front_search`) goes
first, in which whatever nearly uses the limits counts as costing the same: all of it is about the program at the limits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kilotune.search.front import Rank, Ranking
from kilotune.search.space import Assignment, Constraint, Decision, Metrics, Objective, Procedure
from kilotune.spaces.shiftry.front_search import search_front

NEARLY_USED = 0.95
"""The share of a limit from which on programs count as equally dear."""

PATIENCE = 500
"""Candidates without a gain, besides as many as came before the last one, that end the search."""


class Limited(Protocol):
    """What a search within limits needs of a space."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """One a variable."""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Precision first."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits, none of which is a least."""

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        """The metrics that are limited, without a measurement."""

    @property
    def error_metric(self) -> str:
        """As `kilotune.spaces.shiftry.known_candidates.Fronted`."""


@dataclass(frozen=True)
class FrontWithinLimits:
    """A problem with limits as that of a front: its costs are what is limited. Implements `known_candidates.Fronted`."""

    space: Limited

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Those of the problem."""
        return self.space.decisions

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What is limited, and precision behind it."""
        return (*(Objective(limit.metric) for limit in self.constraints), self.space.objectives[0])

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits."""
        return self.space.constraints

    @property
    def reference_point(self) -> Rank | None:
        """The limits, which may be reached, and no limit on precision."""
        return (*(math.nextafter(limit.limit, math.inf) for limit in self.constraints), sys.float_info.max)

    @property
    def cheapest(self) -> Rank:
        """Costs below which none is better than another."""
        return tuple(NEARLY_USED * limit.limit for limit in self.constraints)

    def costs(self, batch: Sequence[Assignment]) -> list[Metrics]:
        """Those of the problem."""
        return self.space.costs(batch)

    @property
    def error_metric(self) -> str:
        """That of the problem."""
        return self.space.error_metric


def search_within_limits(space: Limited, seed: int) -> Procedure:
    """Batches of candidates; ends when there has been no better one for a while, or all have been measured."""
    ranking, front = Ranking(space.objectives, space.constraints), FrontWithinLimits(space)
    search, best = search_front(front, seed, front.cheapest), None
    measured = gained_at = 0
    batch = next(search, None)
    while batch is not None and measured < 2 * gained_at + PATIENCE:
        trials = yield batch
        for trial in trials:
            measured += 1
            rank = ranking.rank(trial.measurement)
            if best is None or rank < best:
                best, gained_at = rank, measured
        try:
            batch = search.send(trials)
        except StopIteration:
            return
