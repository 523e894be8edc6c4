"""The space's own procedure first, then local search from the best that it has seen: never worse than the heuristic."""

from __future__ import annotations

from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import HasProcedure
from kilotune.search.strategies.local import DescentSteps, LocalSearch, MeasuredCandidate


class RefineSearch(LocalSearch):
    """Local search with a warm start. For a space without a procedure it is plain local search."""

    def start(self) -> DescentSteps:
        """The best-ranked candidate of the procedure's."""
        if not isinstance(self._space, HasProcedure):
            return (yield from super().start())
        procedure = self._space.procedure()
        met: list[MeasuredCandidate] = []
        batch = next(procedure, [])
        while batch:
            trials = yield batch
            met += self._ranked(trials)
            try:
                batch = procedure.send(trials)
            except StopIteration:
                break
        if not met:
            return (yield from super().start())
        return min(met, key=lambda measured: measured.rank)


STRATEGY = OwnStrategy("RefineSearch", Needs.WHOLE, "the paper's procedure, then local search from its best", rank=30)
