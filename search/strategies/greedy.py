"""The space's own heuristic where it has one; else the best guess all the way, then the nearest local optimum."""

from __future__ import annotations

from kilotune.search.candidates import first_candidate
from kilotune.search.front import Ranking
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import HasProcedure, Space
from kilotune.search.strategies.local import LocalSearch, MeasuredCandidate
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps


class GreedySearch:
    """Deterministic when the space has a procedure; the seed orders the changes of the local improvement."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed

    def steps(self) -> Steps:
        if isinstance(self._space, HasProcedure):
            yield from self._space.procedure()
        else:
            (first,) = yield [first_candidate(self._space)]
            rank = Ranking.of(self._space).rank(first.measurement)
            yield from LocalSearch(self._space, self._seed).descend(MeasuredCandidate(first.assignment, rank))
        return Outcome.FINISHED


STRATEGY = OwnStrategy("GreedySearch", Needs.WHOLE, "the paper's own procedure", rank=10)
