"""The most precise program within limits, by the search for a front: sensitivities and knapsacks that end at the limits.

Local search changes one or two variables at a time, and with many formats a variable it settles where another distribution of the bytes
flips a third of the samples, or a tenth. A knapsack distributes all bytes at once. So the search for the whole front (`front_search`) goes
first, in which whatever nearly uses the limits counts as costing the same: all of it is about the program at the limits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Sequence
from typing import Protocol

from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Objective, Procedure, Trial
from kilotune.spaces.shiftry.front_search import search_front
from kilotune.spaces.shiftry.known_candidates import FrontQuestion
from kilotune.spaces.shiftry.within_limits import Narrowed, first_within

NEARLY_USED = 0.95
"""The share of a limit from which on programs count as equally dear."""

PATIENCE = 500
"""Candidates without a gain, besides as many as came before the last one, that end the search."""


class Limited(Narrowed, Protocol):
    """A space whose constraints are limits on costs, none of which is a least."""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Precision first."""


def front_at_limits(space: Limited) -> FrontQuestion:
    """What is limited against precision, of which anything is worth having; the limits may be reached."""
    return FrontQuestion(
        (*(Objective(limit.metric) for limit in space.constraints), space.objectives[0]),
        (*(math.nextafter(limit.limit, math.inf) for limit in space.constraints), sys.float_info.max),
        tuple(NEARLY_USED * limit.limit for limit in space.constraints),
    )


def search_within_limits(space: Limited, seed: int) -> Procedure:
    """Batches of candidates, those first that only costs say are within the limits; ends when there has been no better one for a while, or
    all have been measured."""
    asked = front_at_limits(space)
    ranking, best = Ranking(space.objectives, space.constraints), None
    first = first_within(space)
    opened = (yield first) if first else []
    search = search_front(space, asked, seed)
    measured = gained_at = 0
    batch = next(search, None)
    while batch is not None and measured < 2 * gained_at + PATIENCE:
        trials = yield from _with_those_known(batch, opened)
        for trial in trials:
            measured += 1
            rank = ranking.rank(trial.measurement)
            if best is None or rank < best:
                best, gained_at = rank, measured
        try:
            batch = search.send(trials)
        except StopIteration:
            return


def _with_those_known(
    batch: Sequence[Assignment], known: Sequence[Trial]
) -> Generator[list[Assignment], list[Trial], list[Trial]]:
    """Trials of a batch, in its order; those that are known are not asked for again."""
    places = {position: trial for trial in known for position, one in enumerate(batch) if one == trial.assignment}
    others = [one for position, one in enumerate(batch) if position not in places]
    measured = iter((yield others) if others else ())
    return [places[position] if position in places else next(measured) for position in range(len(batch))]
