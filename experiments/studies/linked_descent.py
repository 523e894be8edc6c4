"""Descent by what programs link to: what finalists leave of a limit on the flash of whole programs is used.

A search goes by an estimate of linked bytes (`kilotune.evaluators.code_size`), so its best are some tens of bytes below the limit or beyond
it. Linking takes a fifth of a second, far more than measuring a candidate, and far less than fitting its codes. So of what the
search has measured all that promises to be better than the finalist is linked first, in the order of its precision, if it keeps the limit
by the estimate as corrected at the nearest candidate that was linked (`kilotune.search.corrected_estimate`). From the best with rounded
codes local search goes on: changes of one decision, and trades of one that takes bytes with one that gives them. Of all that were measured
and that link within the limit the best are finished then, where the space has that, and the best of all is delivered.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kilotune.experiments.studies.finished_finalists import (
    NEW,
    Finishing,
    independent_view,
    is_whole,
    of_view,
)
from kilotune.experiments.studies.linked_programs import (
    BEYOND_DEVICE,
    ESTIMATE,
    Linking,
    bytes_linked,
    without_estimate,
)
from kilotune.search.corrected_estimate import CorrectedEstimate
from kilotune.search.encoding import CandidateKey
from kilotune.search.front import Rank, Ranking
from kilotune.search.space import (
    Assignment,
    FlatSpace,
    HasFinish,
    Measurement,
    Trial,
)
from kilotune.search.strategies.moves import Move, Moves

MOST_LINKED = 60
"""Candidates that are linked, besides the finalists."""

MOST_MEASURED = 6000
"""Candidates that are measured."""

LINKED_TO_FINISH = 24
"""Candidates that are linked for that, the finished ones among them."""

DOUBT = 0.01
"""By which share of the limit a candidate may be beyond it by the corrected estimate, and is yet linked."""

TRADED = 16
"""Changes of either kind that are tried with one another."""

WORST: Rank = (math.inf,)
"""Behind the rank of any trial."""


class LinkedDescent:
    """`best`: the best so far that links within the limit, of number NEW where the study does not have it; `bytes_of_best`: to what;
    `linked`: how many were linked.

    `run` may be abandoned at any time: what it has come to stays.
    """

    def __init__(self, linking: Linking, first: Trial) -> None:
        """`first`: a trial that links within the limit, or from which that is to be `reached`; it was linked."""
        study, linked = linking.study, linking.sizes
        self._problem, self._limit, self._space = linking.problem, linking.limit, study.space
        self._most = (1.0 + DOUBT) * linking.limit
        self._ranking, self._key = without_estimate(Ranking.of(study.space)), study.book.encoding.key
        self._book = study.book
        self._new = dict[CandidateKey, Trial]()  # measured by the descent
        self._corrected, self._linked = CorrectedEstimate(), dict[CandidateKey, int]()
        self._trials_linked = dict[CandidateKey, Trial]()
        for number in sorted(linked):
            trial = study.book.numbered(number)
            if trial is not None:
                self._keep(trial, linked[number])
        self._links_left, self._measurements_left = MOST_LINKED, MOST_MEASURED
        self.linked, self._tell = 0, linking.tell
        self.best, self.bytes_of_best = first, linked[first.number]

    def offer(self, trial: Trial) -> None:
        """Take a trial, such as what an earlier descent has come to, if it is better and links within the limit."""
        if self._rank(trial) < self._rank(self.best) and self._links_within(trial):
            self._take(trial)

    @property
    def is_within(self) -> bool:
        """Whether the best links within the limit."""
        return self.bytes_of_best <= self._limit

    def reached(self) -> bool:
        """From a first trial beyond the limit: the best measured one that links within it by what is known now of the estimate. If there is
        none, what costs the least for each byte is given up, until what is left links within it. What is linked in vain corrects the
        estimate. False where nothing more can be given up."""
        known = self._first_within(self._book.best_first(self._ranking, is_whole), WORST)
        if known is not None:
            self.best, self.bytes_of_best = known, self._linked[self._key(known.assignment)]
            return True
        self._links_left = MOST_LINKED
        flat = independent_view(self._space, self.best)
        if not isinstance(flat, FlatSpace):
            return False
        moves, met = Moves(flat), set[CandidateKey]()
        home = next(iter(self._measure([self._rounded(flat)])), None)
        while home is not None:
            if self._bytes(home) <= self._limit and self._links_within(home):
                self.best, self.bytes_of_best = home, self._linked[self._key(home.assignment)]
                return True
            met.add(self._key(home.assignment))
            home = self._smaller(moves, home, met)
        return False

    def _smaller(self, moves: Moves, home: Trial, met: set[CandidateKey]) -> Trial | None:
        """The candidate not met yet, one change away, that takes fewer bytes at the least loss for each."""
        rank, size = self._rank(home), self._bytes(home)
        singles = self._measure([moves.apply(home.assignment, dict([change])) for change in moves.of(home.assignment)])
        fewer = [
            trial
            for trial in singles
            if self._bytes(trial) < size and self._rank(trial)[0] <= rank[0] and self._key(trial.assignment) not in met
        ]

        def price(trial: Trial) -> tuple[float, float]:
            loss = self._rank(trial)[1] - rank[1]
            given = size - self._bytes(trial)
            return (loss / given, -given) if loss > 0.0 else (0.0, loss)

        return min(fewer, key=price, default=None)

    def run(self) -> bool:
        """Link, descend and finish; True when that has come to its end."""
        self._take(self._first_within(self._book.best_first(self._ranking, is_whole), self._rank(self.best)))
        flat = independent_view(self._space, self.best)
        if isinstance(flat, FlatSpace):
            home = self._start(flat)
            while home is not None:
                self._take(home)
                home = self._step(flat, Moves(flat), home)
        if isinstance(self._space, HasFinish):
            self._finish(self._space)
        return True

    def _start(self, flat: FlatSpace) -> Trial | None:
        """The best candidate of the flat view that is known to keep the limit: that of the best, or another."""
        for same in self._measure([self._rounded(flat)]):
            self._links_within(same)
        return min(self._within_limit(flat), key=self._rank, default=None)

    def _rounded(self, flat: FlatSpace) -> Assignment:
        """The best, without what finishing has decided."""
        return {decision.name: self.best.assignment[decision.name] for decision in flat.decisions}

    def _within_limit(self, flat: FlatSpace) -> list[Trial]:
        """Candidates of the flat view that were linked within the limit."""
        within = (trial for key, trial in self._trials_linked.items() if self._linked[key] <= self._limit)
        return list(of_view(flat, within))

    def _measured_best_first(self) -> Iterator[Trial]:
        """All that were measured, those that break other limits last."""
        known = self._book.best_first(self._ranking, is_whole, within_limits=False)
        new = (trial for trial in self._new.values() if trial.metrics)
        return heapq.merge(known, sorted(new, key=self._rank), key=self._rank)

    def _step(self, flat: FlatSpace, moves: Moves, home: Trial) -> Trial | None:
        """The best neighbour that is better and links within the limit: by one change, or by two that pay for one another."""
        changes = moves.of(home.assignment)
        singles = self._measure([moves.apply(home.assignment, dict([change])) for change in changes])
        pairs = self._trades(home, dict(zip(changes, singles, strict=True))) if singles else []
        traded = self._measure([moves.apply(home.assignment, dict(pair)) for pair in pairs])
        return self._first_within(sorted([*singles, *traded], key=self._rank), self._rank(home))

    def _trades(self, home: Trial, singles: Mapping[Move, Trial]) -> list[tuple[Move, Move]]:
        """Pairs of a change that would be better beyond the limit and of one that gives bytes at less than the other gains, the cheapest
        of these first."""
        rank, size = self._rank(home), self._bytes(home)
        loss = {change: self._rank(trial)[1] - rank[1] for change, trial in singles.items()}
        given = {change: size - self._bytes(trial) for change, trial in singles.items()}
        gains = [change for change, trial in singles.items() if self._rank(trial) < rank and loss[change] < 0.0]
        gains = sorted((c for c in gains if size - given[c] > self._limit), key=loss.__getitem__)[:TRADED]
        most = -min((loss[change] for change in gains), default=0.0)
        rooms = [change for change in singles if given[change] > 0.0 and loss[change] < most]
        rooms = sorted(rooms, key=lambda change: loss[change] / given[change])[:TRADED]
        return [
            (gain, room)
            for gain, room in itertools.product(gains, rooms)
            if gain[0] != room[0] and loss[gain] + loss[room] < 0.0 and size - given[gain] - given[room] <= self._most
        ]

    def _finish(self, space: HasFinish) -> None:
        """Finish the best candidates that link within the limit, and take what is better."""
        flat = independent_view(self._space, self.best)
        assert isinstance(flat, FlatSpace)
        self._links_left = LINKED_TO_FINISH
        finishing = Finishing(
            self._problem, space, self._ranking, self._as_linked, self._finished, self._tell, ranks_finished=True
        )
        best_first = itertools.takewhile(
            lambda _: self._links_left >= 2,  # one for a candidate, one for what comes of it
            of_view(flat, self._measured_best_first()),
        )
        for found in finishing.better(self.best, best_first):
            self.best, self.bytes_of_best = found, self._linked[self._key(found.assignment)]

    def _as_linked(self, trial: Trial) -> Measurement | None:
        """The measurement of a trial that links within the limit, with these bytes in place of the estimate, which may be beyond it."""
        if self._bytes(trial) > self._most or not self._links_within(trial):
            return None
        size = float(self._linked[self._key(trial.assignment)])
        return replace(trial.measurement, metrics={**trial.metrics, ESTIMATE: size})

    def _finished(self, candidate: Assignment) -> Trial | None:
        """A finished candidate that links within the limit."""
        return next((found for found in self._measure([candidate]) if self._links_within(found)), None)

    def _first_within(self, best_first: Iterable[Trial], rank: Rank) -> Trial | None:
        """The best of those that are better than that and link within the limit; only those that it is expected of are linked."""
        for trial in itertools.takewhile(lambda trial: self._rank(trial) < rank, best_first):
            if self._bytes(trial) <= self._most and self._links_within(trial):
                return trial
        return None

    def _take(self, trial: Trial | None) -> None:
        if trial is not None and self._rank(trial) < self._rank(self.best):
            self.best, self.bytes_of_best = trial, self._linked[self._key(trial.assignment)]

    def _links_within(self, trial: Trial) -> bool:
        key = self._key(trial.assignment)
        if key not in self._linked:
            if self._links_left == 0:
                return False
            self._links_left -= 1
            self.linked += 1
            self._tell(f"linking programs, {self.linked} so far")
            self._keep(trial, bytes_linked(self._problem, trial))
        return self._linked[key] <= self._limit

    def _keep(self, trial: Trial, size: int) -> None:
        key = self._key(trial.assignment)
        self._linked[key], self._trials_linked[key] = size, trial
        if size < BEYOND_DEVICE:
            self._corrected.learn(trial.assignment, trial.metrics[ESTIMATE], size)

    def _bytes(self, trial: Trial) -> float:
        """Linked bytes of a trial, else by the estimate, as it is off near it."""
        known = self._linked.get(self._key(trial.assignment))
        estimate = trial.metrics.get(ESTIMATE, math.inf)  # without one it could not be measured
        return self._corrected.corrected(trial.assignment, estimate) if known is None else known

    def _measure(self, candidates: list[Assignment]) -> list[Trial]:
        """Trials of the candidates; none where there are too many."""
        keys = [self._key(candidate) for candidate in candidates]
        known = {key: self._known(key, one) for key, one in zip(keys, candidates, strict=True)}
        new = {key: one for key, one in zip(keys, candidates, strict=True) if known[key] is None}
        if len(new) > self._measurements_left:
            return []
        self._measurements_left -= len(new)
        measured = self._space.evaluate(list(new.values())) if new else []
        for (key, candidate), measurement in zip(new.items(), measured, strict=True):
            known[key] = self._new[key] = Trial(NEW, candidate, measurement)
        return [trial for key in keys if (trial := known[key]) is not None]

    def _known(self, key: CandidateKey, candidate: Assignment) -> Trial | None:
        if key in self._new:
            return self._new[key]
        trial = self._book.trial_of(candidate)
        return None if trial is None or not trial.metrics else trial

    def _rank(self, trial: Trial) -> Rank:
        return self._ranking.rank(trial.measurement)
