"""What a study has measured: one trial a candidate, under the number at which it was proposed."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

from kilotune.search.encoding import CandidateKey, Encoding, encoding_of
from kilotune.search.front import Front, Ranking
from kilotune.search.kept_trials import KeptTrial, KeptTrials
from kilotune.search.number_set import NumberSet
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.stored_rows import TrialRow

NOTHING_MEASURED = "the evaluator returned no metrics"
"""Why a trial failed whose evaluator gave neither metrics nor a failure: in a store, a trial without both has lost its metrics."""

BEST_AT_ONCE = 2000


class TrialBook:
    """Trials by canonical key, and the front of the feasible ones."""

    def __init__(self, space: Space) -> None:
        self.encoding: Encoding = encoding_of(space)
        self.front = Front(Ranking.of(space))
        self._known, self._censored = KeptTrials(), KeptTrials()
        self._recensored = 0  # candidates that have been measured to the end after all
        self._foreign = NumberSet()  # numbers of trials of other runs, and of those that got a free number instead
        self._has_foreign = False
        self._greatest = -1  # of all numbers

    def __len__(self) -> int:
        return len(self._known) + len(self._censored)

    def __contains__(self, key: CandidateKey) -> bool:
        return key in self._known or key in self._censored

    @property
    def candidates(self) -> int:
        """How many candidates have a trial. One that was censored, and then measured to the end, has two."""
        return len(self) - self._recensored

    def numbers(self) -> NumberSet:
        """The numbers of all trials."""
        numbers = NumberSet()
        for trials in (self._known, self._censored):
            for number in trials.numbers():
                numbers.add(number)
        return numbers

    def answer(self, key: CandidateKey, hurdle: Hurdle | None) -> int | None:
        """The number of the trial that answers a proposal; None where there is none. A censored one does where it is out of the race
        by this hurdle too. It does so also where there is another by now, as it did before there was: a study that is resumed
        has to find the same numbers."""
        return (self._known if hurdle is None else self._answering(key, hurdle)).number(key)

    def _answering(self, key: CandidateKey, hurdle: Hurdle) -> KeptTrials:
        """Where the trial is that answers a proposal, if there is one."""
        censored = self._censored.get(key)
        if censored is not None and hurdle.is_out(dict(censored.measurement.metrics)):
            return self._censored
        return self._known

    def trial(self, key: CandidateKey, candidate: Assignment, hurdle: Hurdle | None = None) -> Trial:
        """The trial that answers a proposal, with the candidate as it was just proposed. KeyError where there is none."""
        kept = (self._known if hurdle is None else self._answering(key, hurdle)).get(key)
        if kept is None:
            raise KeyError(key)
        return Trial(kept.number, candidate, kept.measurement, kept.elapsed_s)

    def each_trial(self) -> Iterator[Trial]:
        """All trials by number, one made at a time: a long search has tens of millions, of which a list would not fit into memory."""
        return (self._trial(key, kept) for key, kept in self._each_kept())

    def each_measurement(self) -> Iterator[tuple[float, Measurement]]:
        """When each trial was measured, and what: as `each_trial`, and quicker."""
        return ((kept.elapsed_s, kept.measurement) for _, kept in self._each_kept())

    def _each_kept(self) -> Iterator[tuple[CandidateKey, KeptTrial]]:
        kept = (trials.by_number() for trials in (self._known, self._censored))
        return heapq.merge(*kept, key=lambda item: item[1].number)

    def best_first(
        self, ranking: Ranking, accepts: Callable[[Measurement], bool] | None = None, within_limits: bool = True
    ) -> Iterator[Trial]:
        """The trials by rank and then by number: those that keep the ranking's limits, or all; of those that are accepted. The first
        thousands take a walk through all, and eight times as many the next one."""
        most, greatest = BEST_AT_ONCE, 0.0 if within_limits else math.inf
        after: tuple[float, ...] = (-math.inf,)
        while True:
            ranked = (
                ((*ranking.rank(kept.measurement), kept.number), key, kept)
                for key, kept in self._each_kept()
                if accepts is None or accepts(kept.measurement)
            )
            following = (one for one in ranked if one[0][0] <= greatest and one[0] > after)
            best = heapq.nsmallest(most, following, itemgetter(0))
            yield from (self._trial(key, kept) for _, key, kept in best)
            if len(best) < most:
                return
            most, after = 8 * most, best[-1][0]

    def numbered(self, number: int) -> Trial | None:
        """The trial of a number; None where there is none."""
        found = self._known.numbered(number) or self._censored.numbered(number)
        return None if found is None else self._trial(*found)

    def _trial(self, key: CandidateKey, kept: KeptTrial) -> Trial:
        return Trial(kept.number, self.encoding.candidate(key), kept.measurement, kept.elapsed_s)

    @property
    def next_number(self) -> int:
        """A number above those of all trials."""
        return self._greatest + 1

    def trial_of(self, candidate: Assignment) -> Trial | None:
        """The trial of a candidate that was measured to the end; None when it was not, or when it decides other things."""
        try:
            known = self._known.get(self.encoding.key(candidate))
        except ValueError:
            return None
        return None if known is None else Trial(known.number, candidate, known.measurement, known.elapsed_s)

    def measurement(self, candidate: Assignment) -> Measurement | None:
        """What was measured of a candidate; None when nothing was, or when it decides other things."""
        known = self.trial_of(candidate)
        return None if known is None else known.measurement

    def record(
        self, key: CandidateKey, number: int, candidate: Assignment, measurement: Measurement, elapsed_s: float
    ) -> None:
        """Take in a trial of this run."""
        kept, others = (self._censored, self._known) if measurement.censored else (self._known, self._censored)
        is_new = kept.put(key, number, measurement, elapsed_s)
        self._recensored += is_new and key in others
        if number > self._greatest:
            self._greatest = number
        self.front.add(Trial(number, candidate, measurement, elapsed_s))

    def row(self, key: CandidateKey, number: int, measurement: Measurement, elapsed_s: float) -> TrialRow:
        """A trial as the store keeps it."""
        failure = NOTHING_MEASURED if not measurement.metrics and measurement.failure is None else measurement.failure
        return TrialRow(number, self.encoding.text(key), measurement.metrics, failure, elapsed_s, measurement.censored)

    def load(self, rows: Iterable[TrialRow]) -> None:
        """Take in trials of other runs. ValueError, which names the trial, for a candidate of another space."""
        for row in rows:
            try:
                key = self.encoding.key_of_text(row.candidate)
                candidate = self.encoding.candidate(key)
            except (ValueError, KeyError, TypeError) as error:  # an answer is missing, or is of another kind
                why = f"it has no answer {error}" if not isinstance(error, ValueError) else error
                raise ValueError(f"trial {row.number}, column candidate: {why}") from None
            self._add_foreign(row.number)
            self.record(key, row.number, candidate, row.measurement, row.elapsed_s)

    def number_for(self, proposed: int) -> int:
        """The number of a new candidate: its place among all distinct proposals, which a resumed study finds again. Only a
        strategy that does not repeat itself (one with a solver's time limit) meets a number that is taken."""
        return self.free_number() if self._has_foreign and proposed in self._foreign else proposed

    def free_number(self, above: Iterable[int] = ()) -> int:
        """A number that no trial has, and that is above the given ones."""
        number = max([self._greatest, *above]) + 1
        self._add_foreign(number)
        self._greatest = number
        return number

    def _add_foreign(self, number: int) -> None:
        self._foreign.add(number)
        self._has_foreign = True
