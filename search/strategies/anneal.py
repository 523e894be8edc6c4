"""Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983): the space's own where it has one, else over its decisions.

Over decisions, a move answers one of them otherwise, and a worse candidate is accepted with a probability that falls. The
temperature needs no unit: a candidate competes by its rank among the latest measured ones, so that bytes, ticks and
violated limits are treated alike. After each cooling the walk starts again, warm, from the best candidate.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from kilotune.search.candidates import first_candidate
from kilotune.search.front import Rank, Ranking
from kilotune.search.space import Assignment, HasAnnealing, Space
from kilotune.search.strategies.moves import Moves
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps

SCALE_TRIALS = 64
"""So many latest trials tell how much worse a worse candidate is: by the share of them that lies between."""

HOT, COLD = 0.3, 0.01
COOLING_TRIALS = 600


class AnnealSearch:
    """For spaces that can anneal by themselves it hands on what they find."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._ranking = Ranking.of(space)

    def steps(self) -> Steps:
        if isinstance(self._space, HasAnnealing):
            for candidate in self._space.anneal(self._seed):
                yield [] if candidate is None else [candidate]
            return Outcome.FINISHED
        return (yield from self._over_decisions())

    def _over_decisions(self) -> Steps:
        rng = np.random.default_rng(self._seed)
        moves = Moves(self._space)
        (trial,) = yield [first_candidate(self._space)]
        here = best = (self._ranking.rank(trial.measurement), trial.assignment)
        latest: list[Rank] = [here[0]]
        for step in range(1 << 62):
            if step % COOLING_TRIALS == 0:
                here = best
            temperature = HOT * (COLD / HOT) ** (step % COOLING_TRIALS / COOLING_TRIALS)
            (trial,) = yield [moves.kick(here[1], 1, rng)]
            found: tuple[Rank, Assignment] = (self._ranking.rank(trial.measurement), trial.assignment)
            if rng.random() < math.exp(-_share_between(latest, here[0], found[0]) / temperature):
                here = found
            best = min(best, found, key=lambda point: point[0])
            latest = [*latest[1 - SCALE_TRIALS :], found[0]]
        return None


def _share_between(latest: list[Rank], here: Rank, there: Rank) -> float:
    """0 when `there` is no worse; else the share of the latest ranks that are no better than `here` and better than it."""
    if there <= here:
        return 0.0
    ordered = sorted(latest)
    return (1 + bisect_left(ordered, there) - bisect_left(ordered, here)) / (1 + len(ordered))
