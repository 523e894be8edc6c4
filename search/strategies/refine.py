"""The space's own procedure first, then local search from the best that it has seen: never worse than the heuristic.

Where no change of one decision improves, two are tried that pay for one another: one that would be better in the first objective but breaks
a constraint, with one that gives room at less than what the other gains.

Where a part of the options is a problem of its own, that one is searched first: what it ends at, the whole begins with. A larger choice so
costs the time that the smaller one takes, not its answer. A search of the space's own that sees farther (its opening) comes next, but for
its first candidates, which come before everything: a short search, too, ends with one of them at least.

In a space of several flat views, whose opening may end in any of them, local search goes on in that one.

Where candidates can be finished, what the search settles at is. A finished candidate may keep a constraint that it broke before, so those
follow that would be better if it did.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator

from kilotune.search.front import Rank
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import (
    Assignment,
    HasCore,
    HasFinish,
    HasFlatViews,
    HasOpening,
    HasProcedure,
    Procedure,
    Space,
    Trial,
)
from kilotune.search.strategies.local import DescentSteps, LocalSearch, MeasuredCandidate
from kilotune.search.strategies.moves import Moves

CORE_KICKS = 4
"""Kicks in vain that end the search of a space's core."""

KICKS_BEFORE_FINISH = 2
"""Kicks in vain after which a search has settled."""

FINISHED_BESIDE = 2
"""How many candidates that break a constraint, and would be better, are finished beside what was settled at."""

TRADED = 12
"""How many changes of either kind are tried with one another."""


class RefineSearch(LocalSearch):
    """Local search with a warm start. For a space without a procedure it begins as plain local search."""

    asks_again = True  # for halves of trades

    def __init__(self, space: Space, seed: int) -> None:
        self._whole = space
        self._finishing = space if isinstance(space, HasFinish) else None
        super().__init__(space if self._finishing is None else self._finishing.flat_view(), seed)
        self._seed = seed
        self._settled_at: list[Assignment] = []

    def start(self) -> DescentSteps:
        """The best-ranked candidate of the procedure's; in a space with a core, what a search of that finds from there; or what the
        space's opening finds, where that is better."""
        opening = self._opening()
        first = [] if opening is None else next(opening, [])
        trials = (yield first) if first else []
        met = self._ranked(trials)
        here = yield from self._of_core((yield from self._first()))
        if opening is not None and first:
            met += yield from self._met(opening, trials)
        here = min([here, *met], key=lambda measured: measured.rank)
        if isinstance(self._whole, HasFlatViews):
            self._space = self._whole.flat_view_of(here.candidate)
            self._moves = Moves(self._space)
        return here

    def _opening(self) -> Procedure | None:
        """That of the space, else that of its flat view."""
        opens = self._whole if isinstance(self._whole, HasOpening) else self._space
        return opens.opening(self._seed) if isinstance(opens, HasOpening) else None

    def _of_core(self, here: MeasuredCandidate) -> DescentSteps:
        """What a search of the core finds from here; `here` in a space without one."""
        core = self._space.core() if isinstance(self._space, HasCore) else None
        if core is None:
            return here
        self._moves, finishing, self._finishing = Moves(self._space, core), self._finishing, None
        here = yield from self.descend(here)
        # Otherwise what keeps the limits lies outside, and a walk to the nearest that does not may take all trials.
        if here.rank[0] == 0.0:
            here = yield from self.walk(here, CORE_KICKS)
        self._moves, self._finishing = Moves(self._space), finishing
        return here

    def settled(self, home: MeasuredCandidate, in_vain: int) -> Generator[list[Assignment], list[Trial], None]:
        """Once at each place: finish it, and go on from a better one beside it."""
        if self._finishing is None or in_vain != KICKS_BEFORE_FINISH or home.candidate in self._settled_at:
            return
        self._settled_at.append(home.candidate)
        self.hurdle, best = None, None
        chosen = yield [home.candidate]
        while chosen:
            finished = [self._finishing.finished(trial.assignment, trial.measurement) for trial in chosen]
            pairs = [
                (trial.assignment, whole) for trial, whole in zip(chosen, finished, strict=True) if whole is not None
            ]
            if not pairs:
                return
            ranked = self._ranked((yield [whole for _, whole in pairs]))
            rank, here = min(
                ((point.rank, before) for point, (before, _) in zip(ranked, pairs, strict=True)),
                key=lambda pair: pair[0],
            )
            if best is not None and rank >= best:
                return
            best = rank
            chosen = yield from self._promising(here, rank)

    def _promising(self, here: Assignment, best: Rank) -> Generator[list[Assignment], list[Trial], list[Trial]]:
        """Changes of one decision that would be better than `best` if they broke no constraint, those first that break it least."""
        trials = yield [self._moves.apply(here, dict([move])) for move in self._moves.of(here)]
        ranked = [(self._ranking.rank(trial.measurement), trial) for trial in trials]
        better = [(rank, trial) for rank, trial in ranked if rank[0] > 0.0 and rank[1:] < best[1:]]
        return [trial for _, trial in sorted(better, key=lambda pair: pair[0])[:FINISHED_BESIDE]]

    def _first(self) -> DescentSteps:
        if not isinstance(self._space, HasProcedure):
            return (yield from super().start())
        met = yield from self._met(self._space.procedure())
        if not met:
            return (yield from super().start())
        return min(met, key=lambda measured: measured.rank)

    def _met(
        self, procedure: Procedure, answered: list[Trial] | None = None
    ) -> Generator[list[Assignment], list[Trial], list[MeasuredCandidate]]:
        """What a procedure measures; `answered`: the trials of its last batch, where it has begun. It looks at losses that do not rank, so
        there is no hurdle."""
        self.hurdle = None
        met: list[MeasuredCandidate] = []
        trials = answered
        while True:
            try:
                batch = next(procedure) if trials is None else procedure.send(trials)
            except StopIteration:
                return met
            if not batch:
                return met
            trials = yield batch
            met += self._ranked(trials)

    def descend(self, here: MeasuredCandidate) -> DescentSteps:
        """Improve by changes of single decisions, and by trades of two, until neither improves."""
        while True:
            here = yield from super().descend(here)
            traded = yield from self._traded(here)
            if traded.rank >= here.rank:
                return here
            here = traded

    def _traded(self, here: MeasuredCandidate) -> DescentSteps:
        """The best of the pairs of changes, or what is here where none is better. All single changes are known, but for those that were
        stopped early: a change that is worth trading is no improvement, so it has nothing to beat here."""
        moves = self._moves.of(here.candidate)
        if len(here.rank) < 3 or not moves:
            return here
        self.hurdle = None
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
        self.hurdle = here.rank
        return min([here, *self._ranked((yield pairs))], key=lambda point: point.rank)


STRATEGY = OwnStrategy("RefineSearch", Needs.WHOLE, "the paper's procedure, then local search from its best", rank=30)
