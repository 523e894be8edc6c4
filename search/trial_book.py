"""What a study has measured: one trial a candidate, under the number at which it was proposed."""

from __future__ import annotations

from collections.abc import Iterable

from kilotune.search.encoding import CandidateKey, Encoding, encoding_of
from kilotune.search.front import Front, Ranking
from kilotune.search.kept_trials import KeptTrials
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.stored_rows import TrialRow

NOTHING_MEASURED = "the evaluator returned no metrics"
"""Why a trial failed whose evaluator gave neither metrics nor a failure: in a store, a trial without both has lost its metrics."""


class TrialBook:
    """Trials by canonical key, and the front of the feasible ones."""

    def __init__(self, space: Space) -> None:
        self.encoding: Encoding = encoding_of(space)
        self.front = Front(Ranking.of(space))
        self._known, self._censored = KeptTrials(), KeptTrials()
        self._recensored = 0  # candidates that have been measured to the end after all
        self._foreign: set[int] = set()  # numbers of trials of other runs, and of those that got a free number instead

    def __len__(self) -> int:
        return len(self._known) + len(self._censored)

    def __contains__(self, key: CandidateKey) -> bool:
        return key in self._known or key in self._censored

    @property
    def candidates(self) -> int:
        """How many candidates have a trial. One that was censored, and then measured to the end, has two."""
        return len(self) - self._recensored

    def numbers(self) -> set[int]:
        """The numbers of all trials."""
        return {*self._known.numbers(), *self._censored.numbers()}

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

    def trials(self) -> list[Trial]:
        """All trials, by number."""
        kept = [
            Trial(one.number, self.encoding.candidate(key), one.measurement, one.elapsed_s)
            for trials in (self._known, self._censored)
            for key, one in trials.items()
        ]
        return sorted(kept, key=lambda trial: trial.number)

    def measurement(self, candidate: Assignment) -> Measurement | None:
        """What was measured of a candidate; None when nothing was, or when it decides other things."""
        try:
            known = self._known.get(self.encoding.key(candidate))
        except ValueError:
            return None
        return None if known is None else known.measurement

    def record(
        self, key: CandidateKey, number: int, candidate: Assignment, measurement: Measurement, elapsed_s: float
    ) -> TrialRow:
        """Take in a trial of this run; its row for the store."""
        self._keep(key, number, candidate, measurement, elapsed_s)
        text = self.encoding.text(key)
        failure = NOTHING_MEASURED if not measurement.metrics and measurement.failure is None else measurement.failure
        return TrialRow(number, text, measurement.metrics, failure, elapsed_s, measurement.censored)

    def _keep(
        self, key: CandidateKey, number: int, candidate: Assignment, measurement: Measurement, elapsed_s: float
    ) -> None:
        kept, others = (self._censored, self._known) if measurement.censored else (self._known, self._censored)
        self._recensored += key in others and key not in kept
        kept.put(key, number, measurement, elapsed_s)
        self.front.add(Trial(number, candidate, measurement, elapsed_s))

    def load(self, rows: Iterable[TrialRow]) -> None:
        """Take in trials of other runs. ValueError, which names the trial, for a candidate of another space."""
        for row in rows:
            try:
                key = self.encoding.key_of_text(row.candidate)
                candidate = self.encoding.candidate(key)
            except (ValueError, KeyError, TypeError) as error:  # an answer is missing, or is of another kind
                why = f"it has no answer {error}" if not isinstance(error, ValueError) else error
                raise ValueError(f"trial {row.number}, column candidate: {why}") from None
            self._foreign.add(row.number)
            self._keep(key, row.number, candidate, row.measurement, row.elapsed_s)

    def number_for(self, proposed: int) -> int:
        """The number of a new candidate: its place among all distinct proposals, which a resumed study finds again. Only a
        strategy that does not repeat itself (one with a solver's time limit) meets a number that is taken."""
        return self.free_number() if proposed in self._foreign else proposed

    def free_number(self, above: Iterable[int] = ()) -> int:
        """A number that no trial has, and that is above the given ones."""
        number = max([*self._foreign, *above, *self.numbers()]) + 1
        self._foreign.add(number)
        return number
