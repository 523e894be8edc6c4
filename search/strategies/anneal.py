"""Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) by the space itself, compiled and on a cheap estimate.

There is none over decisions with a measurement for every move: local search was ahead of it wherever both were tried.
"""

from __future__ import annotations

from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import HasAnnealing, Space
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps


class AnnealSearch:
    """ValueError for a space that cannot anneal."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int) -> None:
        if not isinstance(space, HasAnnealing):
            raise ValueError(f"Strategy 'anneal' needs a space that anneals by itself, and {space.name!r} does not.")
        self._space: HasAnnealing = space
        self._seed = seed

    def steps(self) -> Steps:
        for candidate in self._space.anneal(self._seed):
            yield [] if candidate is None else [candidate]
        return Outcome.FINISHED


STRATEGY = OwnStrategy(
    "AnnealSearch",
    Needs.WHOLE,
    "the space's own compiled annealing, where it has one",
    rank=60,
    ability="HasAnnealing",
)
