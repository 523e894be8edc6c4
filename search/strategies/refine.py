"""The space's own procedure first, then local search from the best that it has seen: never worse than the heuristic.

Where no change of one decision improves, two are tried that pay for one another: one that would be better in the first objective but breaks
a constraint, with one that gives room at less than what the other gains.

Where a part of the options is a problem of its own, that one is searched first: what it ends at, the whole begins with. A larger choice so
costs the time that the smaller one takes, not its answer.
"""

from __future__ import annotations

import itertools

from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import Assignment, HasCore, HasProcedure
from kilotune.search.strategies.local import DescentSteps, LocalSearch, MeasuredCandidate
from kilotune.search.strategies.moves import Moves

CORE_KICKS = 4
"""Kicks in vain that end the search of a space's core."""

TRADED = 12
"""How many changes of either kind are tried with one another."""


class RefineSearch(LocalSearch):
    """Local search with a warm start. For a space without a procedure it begins as plain local search."""

    def start(self) -> DescentSteps:
        """The best-ranked candidate of the procedure's; in a space with a core, what a search of that finds from there."""
        here = yield from self._first()
        core = self._space.core() if isinstance(self._space, HasCore) else None
        if core is None:
            return here
        self._moves = Moves(self._space, core)
        here = yield from self.walk((yield from self.descend(here)), CORE_KICKS)
        self._moves = Moves(self._space)
        return here

    def _first(self) -> DescentSteps:
        if not isinstance(self._space, HasProcedure):
            return (yield from super().start())
        procedure = self._space.procedure()  # it looks at losses that do not rank, so there is no hurdle
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

    def descend(self, here: MeasuredCandidate) -> DescentSteps:
        """Improve by changes of single decisions, and by trades of two, until neither improves."""
        while True:
            here = yield from super().descend(here)
            traded = yield from self._traded(here)
            if traded.rank >= here.rank:
                return here
            here = traded

    def _traded(self, here: MeasuredCandidate) -> DescentSteps:
        """The best of the pairs of changes, or what is here where none is better. All single changes are known."""
        moves = self._moves.of(here.candidate)
        if len(here.rank) < 3 or not moves:
            return here
        singles = self._ranked((yield [self._moves.apply(here.candidate, dict([move])) for move in moves]))
        known = list(zip(singles, moves, strict=True))
        first = here.rank[1]
        gains = [(p, m) for p, m in known if p.rank[1] < first and p.rank[0] > here.rank[0]]
        gains = sorted(gains, key=lambda pair: pair[0].rank)[:TRADED]
        most = max((first - point.rank[1] for point, _ in gains), default=0.0)
        rooms = [(p, m) for p, m in known if p.rank[0] <= here.rank[0] and first <= p.rank[1] < first + most]
        rooms = sorted(rooms, key=lambda pair: pair[0].rank[2:])[:TRADED]
        pairs: list[Assignment] = [
            self._moves.apply(here.candidate, dict([gain, room]))
            for (gained, gain), (given, room) in itertools.product(gains, rooms)
            if gain[0] != room[0] and gained.rank[1] + given.rank[1] < 2 * first
        ]
        if not pairs:
            return here
        return min([here, *self._ranked((yield pairs))], key=lambda point: point.rank)


STRATEGY = OwnStrategy("RefineSearch", Needs.WHOLE, "the paper's procedure, then local search from its best", rank=30)
