"""What is known of a study, and how it is kept: its trials, where it stands, and the store that both are written to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kilotune.search.encoding import CandidateKey
from kilotune.search.front import Front
from kilotune.search.result import Status
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import BestTrial, StudyRow, TrialRow
from kilotune.search.strategy import Outcome
from kilotune.search.trial_book import TrialBook
from kilotune.search.warm_start import GivenUp, ProcedureBefore, WarmStartedStrategy
from kilotune.search.work_sharing import SharedStudy, SoleWorker, WorkSharing, at_work

PROCEDURE = "procedure"  # in the request


class StudyRecord:
    """The trials of a study of `space`, and its standing. `bound`: a loss of the first objective that no candidate beats.
    `procedure`: the answer of the space's own procedure, once that has ended (`procedure_ended`), where it found one;
    `procedure_given_up`: the thought that it took too long over (`search.warm_start`).
    Without a store it lives in memory only."""

    status: Status
    outcome: Outcome | None
    procedure: Trial | None
    procedure_ended: bool
    procedure_given_up: GivenUp | None

    def __init__(self, space: Space, name: str, store: Store | None) -> None:
        self.space, self.name = space, name
        self.book = TrialBook(space)
        self.status, self.outcome = Status.RUNNING, None
        self.bound = space.start().bound()
        self.procedure, self.procedure_ended, self.procedure_given_up = None, False, None
        self.elapsed_before_s = 0.0  # of earlier runs
        self._store = store
        self._procedure_before = ProcedureBefore()
        self._unwritten: list[TrialRow] = []
        self._kept: dict[str, Any] = {}  # of the request, without a store

    @property
    def front(self) -> Front:
        """The best trials, and all that none dominates."""
        return self.book.front

    def each_trial(self) -> Iterator[Trial]:
        """All trials by number, one made at a time."""
        return self.book.each_trial()

    def trials(self) -> list[Trial]:
        """All trials, by number, as a list: about a kilobyte each, so for short searches."""
        return list(self.each_trial())

    def is_proved(self) -> bool:
        """Whether no candidate can be better than the best one."""
        if self.outcome in (Outcome.PROVED, Outcome.EXHAUSTED):
            return True
        return self.book.front.feasible and self.book.front.best_rank[1] <= self.bound

    def reported_bound(self) -> float:
        """The bound, which the best trial itself gives once it is proved."""
        if self.outcome in (Outcome.PROVED, Outcome.EXHAUSTED):
            return self.book.front.best_rank[1] if self.book.front.feasible else math.inf
        return self.bound

    def take_in(self, row: StudyRow, trials: Iterable[TrialRow]) -> None:
        """What the store holds: where the study stands, and trials that are not known here yet. Not during a run. StoreError
        for a trial that is none of the space's."""
        self.status, self.outcome = Status(row.status), Outcome(row.outcome) if row.outcome else None
        self.elapsed_before_s = row.elapsed_s
        self.bound = max(self.bound, -math.inf if row.bound is None else row.bound)
        try:
            self.book.load(trials)
        except ValueError as error:
            raise StoreError(f"Study {self.name!r} is damaged: {error}") from None

    def record(
        self, key: CandidateKey, number: int, candidate: Assignment, measurement: Measurement, run_s: float
    ) -> None:
        """A finished trial, `run_s` after the run began; `save` makes it durable."""
        elapsed_s = self.elapsed_before_s + run_s
        self.book.record(key, number, candidate, measurement, elapsed_s)
        if self._store is not None:
            self._unwritten.append(self.book.row(key, number, measurement, elapsed_s))

    @property
    def has_unwritten(self) -> bool:
        """Whether a trial has been recorded that is not in the store."""
        return bool(self._unwritten)

    def save(self, run_elapsed_s: float) -> None:
        """Write what has been recorded, and where the study stands."""
        if self._store is None:
            return
        self._store.append(
            self.name,
            self._unwritten,
            self._best(),
            len(self.book),
            status=self.status.value,
            outcome=self.outcome.value if self.outcome else None,
            bound=self.bound if math.isfinite(self.bound) else None,
            elapsed_s=self.elapsed_before_s + run_elapsed_s,
        )
        self._unwritten.clear()

    def _best(self) -> BestTrial | None:
        """The best of all trials that are known here."""
        front = self.book.front
        return None if front.best is None else BestTrial(front.best_rank, front.best.number)

    def take_in_procedure(self, strategy: WarmStartedStrategy) -> None:
        """How far the procedure has come, which is kept for later runs. StoreError."""
        self.procedure, self.procedure_ended = strategy.procedure, strategy.procedure_ended
        self.procedure_given_up = strategy.given_up
        known = ProcedureBefore(strategy.procedure_ended, strategy.given_up)
        if known not in (ProcedureBefore(), self._procedure_before):
            self.keep_in_request(PROCEDURE, known.as_json())
            self._procedure_before = known

    def procedure_before(self) -> ProcedureBefore:
        """How far earlier runs have come with the procedure. StoreError."""
        kept = self.stored_request().get(PROCEDURE, {})
        try:
            self._procedure_before = ProcedureBefore.from_json(kept)
        except ValueError as error:
            raise StoreError(f"Study {self.name!r} is damaged: {PROCEDURE!r} of its request: {error}") from None
        return self._procedure_before

    def stored_request(self) -> Mapping[str, Any]:
        """The caller's JSON object that the store holds with the study; without a store what was added to it. StoreError."""
        return self._kept if self._store is None else self._store.study(self.name).request

    def keep_in_request(self, key: str, value: Any) -> None:
        """Add what can be JSON to that object; without a store it lasts as long as the study does. StoreError."""
        request = {**self.stored_request(), key: value}
        if self._store is None:
            self._kept = request
        else:
            self._store.change_request(self.name, request)

    def work_sharing(self) -> WorkSharing:
        """How this process shares the study's trials with others."""
        return SoleWorker() if self._store is None else SharedStudy(self._store, self.name)

    def is_at_work(self) -> bool:
        """Whether some process works on it; looking takes a few seconds where one may be dead. StoreError."""
        return self._store is not None and at_work(self._store, self.name)
