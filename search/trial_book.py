"""What a study has measured: one trial a candidate, under the number at which it was proposed."""

from __future__ import annotations

from collections.abc import Iterable

from kilotune.search.encoding import CandidateKey, Encoding, encoding_of
from kilotune.search.front import Front, Ranking
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.stored_rows import TrialRow


class TrialBook:
    """Trials by canonical key, and the front of the feasible ones."""

    def __init__(self, space: Space) -> None:
        self.encoding: Encoding = encoding_of(space)
        self.front = Front(Ranking.of(space))
        self._known: dict[CandidateKey, tuple[int, Measurement, float]] = {}  # number, what was measured, when
        self._foreign: set[int] = set()  # numbers of trials of other runs, and of those that got a free number instead

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: CandidateKey) -> bool:
        return key in self._known

    def keys(self) -> set[CandidateKey]:
        """The canonical keys of all trials."""
        return set(self._known)

    def trial(self, key: CandidateKey, candidate: Assignment) -> Trial:
        """The trial of a candidate that has been measured, with the candidate as it was just proposed."""
        number, measurement, elapsed_s = self._known[key]
        return Trial(number, candidate, measurement, elapsed_s)

    def trials(self) -> list[Trial]:
        """All trials, by number."""
        numbered = sorted((number, key) for key, (number, _, _) in self._known.items())
        return [self.trial(key, self.encoding.candidate(key)) for _, key in numbered]

    def measurement(self, candidate: Assignment) -> Measurement | None:
        """What was measured of a candidate; None when nothing was, or when it decides other things."""
        try:
            known = self._known.get(self.encoding.key(candidate))
        except ValueError:
            return None
        return None if known is None else known[1]

    def record(
        self, key: CandidateKey, number: int, candidate: Assignment, measurement: Measurement, elapsed_s: float
    ) -> TrialRow:
        """Take in a trial of this run; its row for the store."""
        self._known[key] = (number, measurement, elapsed_s)
        self.front.add(Trial(number, candidate, measurement, elapsed_s))
        return TrialRow(number, self.encoding.text(key), measurement.metrics, measurement.failure, elapsed_s)

    def load(self, rows: Iterable[TrialRow]) -> None:
        """Take in trials of other runs. ValueError, which names the trial, for a candidate of another space."""
        for row in rows:
            try:
                key = self.encoding.key_of_text(row.candidate)
                candidate = self.encoding.candidate(key)
            except (ValueError, KeyError, TypeError) as error:  # an answer is missing, or is of another kind
                why = f"it has no answer {error}" if not isinstance(error, ValueError) else error
                raise ValueError(f"trial {row.number}, column candidate: {why}") from None
            self._known[key] = (row.number, Measurement(row.metrics, row.failure), row.elapsed_s)
            self._foreign.add(row.number)
            self.front.add(self.trial(key, candidate))

    def number_for(self, proposed: int) -> int:
        """The number of a new candidate: its place among all distinct proposals, which a resumed study finds again. Only a
        strategy that does not repeat itself (one with a solver's time limit) meets a number that is taken."""
        return self.free_number() if proposed in self._foreign else proposed

    def free_number(self, above: Iterable[int] = ()) -> int:
        """A number that no trial has, and that is above the given ones."""
        number = max([*self._foreign, *above, *(known for known, _, _ in self._known.values())]) + 1
        self._foreign.add(number)
        return number
