"""Iterated local search over single-decision changes (Lourenco, Martin, Stutzle 2003).

From the space's best guess: measure changes of one decision in small batches, take the best that improves, try the
improving ones of a batch together as well, until no single change improves. Then kick a few decisions of the best
candidate at random and descend again; a descent that does not get back to the best one's rank is given up for it.
After many kicks in vain, start from a random candidate.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

import numpy as np

from kilotune.search.candidates import first_candidate, random_candidate
from kilotune.search.front import Rank, Ranking
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import Assignment, Option, Space, Trial
from kilotune.search.strategies.moves import Move, Moves
from kilotune.search.strategy import UNKNOWN_BOUND, Steps

SMALLEST_BATCH = 4
LARGEST_BATCH = 64
SMALLEST_KICK = 4  # decisions; with 2 a descent too often leads back to where it came from
KICKS_PER_STRENGTH = 4  # kicks in vain until one more decision is kicked
KICKS_UNTIL_RESTART = 40


@dataclass(frozen=True)
class MeasuredCandidate:
    """A measured candidate and its rank."""

    candidate: Assignment
    rank: Rank


DescentSteps = Generator[list[Assignment], list[Trial], MeasuredCandidate]
"""Yields batches, is sent their trials, returns where it ended."""


class LocalSearch:
    """Feasibility first: a rank is (violation, losses...), so an infeasible start walks towards feasible candidates."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._rng = np.random.default_rng(seed)
        self._ranking = Ranking.of(space)
        self._moves = Moves(space)
        self.hurdle: Rank | None = None  # a change that does not improve is none, however bad it is

    def steps(self) -> Steps:
        best = yield from self.descend((yield from self.start()))
        while True:
            home = yield from self.walk(best, KICKS_UNTIL_RESTART)
            best = min(best, home, key=lambda measured: measured.rank)
            restarted = random_candidate(self._space, self._rng)
            found = yield from self.descend((yield from self._measured(restarted)))
            best = min(best, found, key=lambda measured: measured.rank)

    def walk(self, home: MeasuredCandidate, kicks: int) -> DescentSteps:
        """Kick and descend until so many kicks in a row were in vain."""
        in_vain = 0
        while in_vain < kicks:
            yield from self.settled(home, in_vain)
            strength = SMALLEST_KICK + in_vain // KICKS_PER_STRENGTH
            kicked = self._moves.kick(home.candidate, strength, self._rng)
            found = yield from self.descend((yield from self._measured(kicked)))
            in_vain = 0 if found.rank < home.rank else in_vain + 1
            if found.rank <= home.rank:  # equal ones too: that is how it crosses a plateau
                home = found
        return home

    def settled(self, home: MeasuredCandidate, in_vain: int) -> Generator[list[Assignment], list[Trial], None]:
        """What is done before the next kick where so many from `home` were in vain: nothing."""
        yield from ()

    def start(self) -> DescentSteps:
        """Where the first descent begins: the space's best guess."""
        return (yield from self._measured(first_candidate(self._space)))

    def descend(self, here: MeasuredCandidate) -> DescentSteps:
        """Improve by changes of single decisions until none improves."""
        todo = self._shuffled(self._moves.of(here.candidate))
        tried: list[Move] = []
        batch_size = SMALLEST_BATCH
        while todo:
            batch, todo = todo[:batch_size], todo[batch_size:]
            candidates: list[Assignment] = [self._moves.apply(here.candidate, dict([move])) for move in batch]
            self.hurdle = here.rank
            points = self._ranked((yield candidates))
            better = sorted(
                ((point, move) for point, move in zip(points, batch, strict=True) if point.rank < here.rank),
                key=lambda pair: pair[0].rank,
            )
            if not better:
                tried += batch
                batch_size = min(2 * batch_size, LARGEST_BATCH)
                continue
            here = yield from self._combined(here, better)
            # What has not been tried lately comes first; what has been is tried again, for the ground has changed.
            # (dict, not set: the order of a set of strings differs from process to process)
            allowed = dict.fromkeys(self._moves.of(here.candidate))
            queue = dict.fromkeys([*todo, *tried, *batch])
            new = self._shuffled(move for move in allowed if move not in queue)
            todo = [move for move in queue if move in allowed] + new
            tried, batch_size = [], SMALLEST_BATCH
        return here

    def _combined(self, here: MeasuredCandidate, better: list[tuple[MeasuredCandidate, Move]]) -> DescentSteps:
        """The best of the improving changes, or of the 2, 3, ... best of different decisions taken together."""
        best = better[0][0]
        changes: dict[str, Option] = {}
        candidates: list[Assignment] = []
        for _, (name, option) in better:
            if name not in changes:
                changes[name] = option
                if len(changes) > 1:
                    candidates.append(self._moves.apply(here.candidate, changes))
        if candidates:
            self.hurdle = best.rank
            together = self._ranked((yield candidates))
            best = min([best, *together], key=lambda point: point.rank)
        return best

    def _measured(self, candidate: Assignment) -> DescentSteps:
        self.hurdle = None
        return self._ranked((yield [candidate]))[0]

    def _ranked(self, trials: Iterable[Trial]) -> list[MeasuredCandidate]:
        return [MeasuredCandidate(trial.assignment, self._ranking.rank(trial.measurement)) for trial in trials]

    def _shuffled(self, moves: Iterable[Move]) -> list[Move]:
        ordered = list(moves)
        return [ordered[i] for i in self._rng.permutation(len(ordered))]


STRATEGY = OwnStrategy("LocalSearch", Needs.ANY, "iterated local search over single decisions", rank=20)
