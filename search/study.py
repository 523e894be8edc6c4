"""The engine: one loop around any strategy, any executor, and the durable record of what they found.

Resuming is replaying: a fresh strategy of the same seed proposes the same candidates again, those that the store
holds are answered from it, and the first that it does not hold is where the search goes on. So a study that was
killed and resumed has the same trials as one that never was.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kilotune.search.budget import Budget
from kilotune.search.candidates import count_candidates
from kilotune.search.division import Alone, Division, Shared
from kilotune.search.encoding import Encoding, FlatEncoding, Key, encoding_of
from kilotune.search.executor import Executor
from kilotune.search.front import Front, Ranking
from kilotune.search.interrupts import stops_on_interrupt
from kilotune.search.measuring import ChunkedMeasuring
from kilotune.search.result import Progress, Result, Status, as_metric, relative_gap
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.store import Store, StoreError, StudyRow, TrialRow
from kilotune.search.strategy import Outcome, Strategy, TimeAware, make_strategy

PROPOSALS_PER_ROUND = 1024  # at most; a strategy's own batches are usually smaller
WRITE_EVERY_S = 0.4
POLL_OTHERS_S = 0.1
DUPLICATES_UNTIL_STALLED = 20_000  # in a row; a local search legitimately repeats whole neighbourhoods

StrategyFactory = Callable[[Space, int], Strategy]


class Study:
    """A search of one space by one strategy from one seed. Without a store it lives in memory only."""

    def __init__(
        self,
        space: Space,
        strategy: str = "local",
        seed: int = 0,
        *,
        name: str = "unnamed",
        store: Store | None = None,
        factory: StrategyFactory | None = None,
    ) -> None:
        """Use `create` or `resume` for a study in a store. `factory` makes a strategy that has no registered name."""
        self.space, self.strategy, self.seed, self.name = space, strategy, seed, name
        self.front = Front(Ranking.of(space))
        self.status, self.outcome = Status.RUNNING, None
        self._factory = factory or (lambda space, seed: make_strategy(strategy, space, seed))
        self._store = store
        self._encoding: Encoding = encoding_of(space)
        self._known: dict[Key, tuple[int, Measurement, float]] = {}  # number, what was measured, when
        self._numbers: set[int] = set()  # of trials that an earlier run left, and of those that had to dodge them
        self._unwritten: list[TrialRow] = []
        self._elapsed_before_s = 0.0
        self._new_trials = 0
        self._bound = space.start().bound()
        self._stopped = threading.Event()

    status: Status
    outcome: Outcome | None

    @classmethod
    def create(
        cls,
        store: Store,
        name: str,
        space: Space,
        strategy: str = "local",
        seed: int = 0,
        *,
        budget: Budget | None = None,
        request: Mapping[str, Any] | None = None,
    ) -> Study:
        """A new study in `store`. `request` is a JSON object of the caller's, kept for `resume`. StoreError: the name
        is taken. ValueError: no such strategy."""
        make_strategy(strategy, space, seed)  # an unknown name leaves no empty study behind
        study = cls(space, strategy, seed, name=name, store=store)
        store.create(
            StudyRow(
                name=name,
                space=space.name,
                fingerprint=space.fingerprint,
                strategy=strategy,
                seed=seed,
                budget=str(budget or Budget()),
                decisions=_decisions_table(study._encoding),
                request=request or {},
            )
        )
        return study

    @classmethod
    def resume(cls, store: Store, name: str, space: Space) -> Study:
        """The stored study with all its trials. StoreError: unknown, or `space` is not the one that it searched."""
        row = store.study(name)
        if row.space != space.name or row.fingerprint != space.fingerprint:
            raise StoreError(
                f"Study {name!r} searched the space {row.space!r} with fingerprint {row.fingerprint}, and this is "
                f"{space.name!r} with {space.fingerprint}: its input or limits have changed, so start a new study."
            )
        study = cls(space, row.strategy, row.seed, name=name, store=store)
        if row.decisions != _decisions_table(study._encoding):
            raise StoreError(f"Study {name!r} was made with other decisions than the space has now: start a new study.")
        study.status, study.outcome = Status(row.status), Outcome(row.outcome) if row.outcome else None
        study._elapsed_before_s = row.elapsed_s
        study._bound = max(study._bound, -math.inf if row.bound is None else row.bound)
        study._load(store.trials(name))
        return study

    def stop(self) -> None:
        """End the current run after the chunk that is being measured; from another thread or a signal handler."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` has been called."""
        return self._stopped.is_set()

    def trials(self) -> list[Trial]:
        """All trials, by number."""
        numbered = sorted((number, key) for key, (number, _, _) in self._known.items())
        return [self._trial(key, self._encoding.candidate(key)) for _, key in numbered]

    def measurement(self, candidate: Assignment) -> Measurement | None:
        """What the study has measured of a candidate; None when it has not, or when it decides other things."""
        try:
            known = self._known.get(self._encoding.key(candidate))
        except ValueError:
            return None
        return None if known is None else known[1]

    def result(self) -> Result:
        """Where the study stands."""
        front, bound = self.front, self._reported_bound()
        objective = self.space.objectives[0]
        best_loss = front.best_rank[1] if front.feasible else math.inf
        return Result(
            study=self.name,
            status=self.status,
            outcome=self.outcome,
            best=front.best,
            feasible=front.feasible,
            front=front.trials,
            bound=as_metric(bound, objective),
            gap=relative_gap(best_loss, bound),
            proved=self._is_proved(),
            evaluations=len(self._known),
            new_evaluations=self._new_trials,
            elapsed_s=self._elapsed_before_s,
        )

    def run(
        self,
        executor: Executor,
        budget: Budget | None = None,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        handle_interrupts: bool = True,
    ) -> Result:
        """Search until the budget is spent, the strategy ends or the best trial is proved. The budget counts what
        this run measures, not what it replays. With `handle_interrupts` the first Ctrl-C ends the run after the
        current chunk (status INTERRUPTED), the second raises KeyboardInterrupt. StoreError: the store fails."""
        run = _Run(self, executor, budget or Budget(), on_progress)
        self._stopped.clear()
        self._new_trials, self.status, self.outcome = 0, Status.RUNNING, None
        with stops_on_interrupt(self) if handle_interrupts else contextlib.nullcontext():
            try:
                run.rounds()
            except BaseException:
                self.status = Status.INTERRUPTED
                executor.cancel()
                with contextlib.suppress(StoreError):
                    self._write(run.elapsed_s())
                raise
            finally:
                run.leave()
        self._elapsed_before_s += run.elapsed_s()
        self._write(0.0)
        return self.result()

    def _load(self, rows: Iterator[TrialRow]) -> None:
        for row in rows:
            self._load_one(row)

    def _load_one(self, row: TrialRow) -> None:
        key = self._encoding.key_of_text(row.candidate)
        self._known[key] = (row.number, Measurement(row.metrics, row.failure), row.elapsed_s)
        self._numbers.add(row.number)
        self.front.add(self._trial(key, self._encoding.candidate(key)))

    def _trial(self, key: Key, candidate: Assignment) -> Trial:
        number, measurement, elapsed_s = self._known[key]
        return Trial(number, candidate, measurement, elapsed_s)

    def _record(self, key: Key, number: int, candidate: Assignment, measurement: Measurement, elapsed_s: float) -> None:
        self._known[key] = (number, measurement, elapsed_s)
        self._new_trials += 1
        self.front.add(Trial(number, candidate, measurement, elapsed_s))
        if self._store is not None:
            text = self._encoding.text(key)
            self._unwritten.append(TrialRow(number, text, measurement.metrics, measurement.failure, elapsed_s))

    def _write(self, run_elapsed_s: float) -> None:
        if self._store is None:
            return
        self._store.append(
            self.name,
            self._unwritten,
            status=self.status.value,
            outcome=self.outcome.value if self.outcome else None,
            bound=self._bound if math.isfinite(self._bound) else None,
            elapsed_s=self._elapsed_before_s + run_elapsed_s,
        )
        self._unwritten.clear()

    def _is_proved(self) -> bool:
        if self.outcome in (Outcome.PROVED, Outcome.EXHAUSTED):
            return True
        return self.front.feasible and self.front.best_rank[1] <= self._bound

    def _reported_bound(self) -> float:
        """The bound, which the best trial itself gives once it is proved."""
        if self.outcome in (Outcome.PROVED, Outcome.EXHAUSTED):
            return self.front.best_rank[1] if self.front.feasible else math.inf
        return self._bound


class _Run:
    """One run of a study: its strategy, its clock, its budget."""

    def __init__(
        self, study: Study, executor: Executor, budget: Budget, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._study, self._budget, self._on_progress = study, budget, on_progress
        self._strategy = study._factory(study.space, study.seed)
        self._allow = self._strategy.allow if isinstance(self._strategy, TimeAware) else None
        self._measuring = ChunkedMeasuring(executor, self._must_stop)
        self._division: Division = Alone() if study._store is None else Shared(study._store, study.name)
        self._unreplayed = set(study._known)  # trials of earlier runs that this one has not proposed yet
        self._proposed = 0  # distinct candidates
        self._duplicates = 0  # in a row
        self._size = count_candidates(study.space)
        self._started_s: float | None = None if self._unreplayed else time.monotonic()
        self._written_s = time.monotonic()

    def elapsed_s(self) -> float:
        """Since the end of the replay."""
        return 0.0 if self._started_s is None else time.monotonic() - self._started_s

    def leave(self) -> None:
        """Other processes of the study may take over what this run has not finished."""
        self._division.leave()

    def rounds(self) -> None:
        """The loop of every search."""
        study, strategy = self._study, self._strategy
        while study.status is Status.RUNNING:
            if self._allow is not None:
                self._allow(self._budget.seconds - self.elapsed_s())
            proposals = strategy.propose(PROPOSALS_PER_ROUND)
            study._bound = max(study._bound, strategy.bound)
            if proposals:
                trials = self._answer(proposals)
                if trials is not None:
                    strategy.learn(trials)
            self._look_around()
            if not proposals and strategy.outcome is not None:
                self._finish(strategy.outcome)
        self._report()

    def _answer(self, proposals: Sequence[Assignment]) -> list[Trial] | None:
        """The trials of all proposals; None when the run has to stop before all are measured."""
        study = self._study
        known, encode = study._known, study._encoding.key
        keys = [encode(candidate) for candidate in proposals]
        fresh: dict[Key, tuple[int, Assignment]] = {}
        for key, candidate in zip(keys, proposals, strict=True):
            if key not in known and key not in fresh:
                fresh[key] = (self._next_number(), candidate)
            elif key in self._unreplayed:
                self._unreplayed.remove(key)
            else:
                self._duplicates += 1
                continue
            self._proposed += 1
            self._duplicates = 0
        if fresh and not self._measure(fresh):
            return None
        return [study._trial(key, candidate) for key, candidate in zip(keys, proposals, strict=True)]

    def _measure(self, fresh: Mapping[Key, tuple[int, Assignment]]) -> bool:
        """Measure and record as many as the budget allows, or have other processes of the study do it; whether that was
        all of them."""
        if self._started_s is None:
            self._started_s = time.monotonic()
        waiting = {number: (key, candidate) for key, (number, candidate) in fresh.items()}
        taken: dict[int, tuple[Key, Assignment]] = {}

        def take(most: int) -> list[tuple[int, Assignment]]:
            affordable = int(min(self._trials_left() - len(taken), most))
            mine = self._division.claim(list(waiting), affordable)
            taken.update((number, waiting.pop(number)) for number in mine)
            return [(number, taken[number][1]) for number in mine]

        while waiting:
            for numbers, measurements in self._measuring.chunks(take, len(waiting), self._division.others):
                self._record(numbers, [taken.pop(number) for number in numbers], measurements)
            if taken or self._must_stop() or self._trials_left() <= 0:
                return False
            if waiting and not self._welcome(waiting):
                time.sleep(POLL_OTHERS_S)
        return True

    def _record(
        self, numbers: Sequence[int], measured: Sequence[tuple[Key, Assignment]], measurements: Sequence[Measurement]
    ) -> None:
        elapsed_s = self._study._elapsed_before_s + self.elapsed_s()
        for number, (key, candidate), measurement in zip(numbers, measured, measurements, strict=True):
            self._study._record(key, number, candidate, measurement, elapsed_s)
        if self._division.others or time.monotonic() - self._written_s > WRITE_EVERY_S:
            self._report()

    def _welcome(self, waiting: dict[int, tuple[Key, Assignment]]) -> int:
        """Take in what other processes have measured of the waiting trials; how many there were. Where one has measured
        another candidate under that number (a strategy with a solver's time limit), ours gets a new number."""
        study = self._study
        rows = self._division.arrivals(list(waiting))
        for row in rows:
            study._load_one(row)
            key, candidate = waiting.pop(row.number)
            if key not in study._known:
                number = max([*study._numbers, *waiting, *(known for known, _, _ in study._known.values())]) + 1
                waiting[number] = (key, candidate)
                study._numbers.add(number)
        return len(rows)

    def _next_number(self) -> int:
        """The place among all distinct proposals, which a resumed study finds again. Only a strategy that does not
        repeat itself (one with a solver's time limit) meets a number that is taken."""
        number, taken = self._proposed, self._study._numbers
        if number in taken:
            number = max(taken) + 1
            taken.add(number)
        return number

    def _look_around(self) -> None:
        """Is there a reason to end?"""
        study = self._study
        if not self._unreplayed and self._started_s is None:
            self._started_s = time.monotonic()
        if self._started_s is None and not study.stopped:
            return  # a replay must not end before the trial at which the run that it replays went on
        if self._size is not None and len(study._known) >= self._size:
            self._finish(Outcome.EXHAUSTED)
        elif len(study.space.objectives) == 1 and study.front.feasible and study.front.best_rank[1] <= study._bound:
            self._finish(Outcome.PROVED)
        elif self._study.stopped:
            study.status = Status.INTERRUPTED
        elif self._must_stop() or self._trials_left() <= 0:
            study.status = Status.BUDGET_SPENT
        elif self._duplicates >= DUPLICATES_UNTIL_STALLED:
            self._finish(Outcome.STALLED)
        elif time.monotonic() - self._written_s > WRITE_EVERY_S:
            self._report()

    def _finish(self, outcome: Outcome) -> None:
        self._study.status, self._study.outcome = Status.FINISHED, outcome

    def _must_stop(self) -> bool:
        return self._study.stopped or self.elapsed_s() >= self._budget.seconds

    def _trials_left(self) -> float:
        return self._budget.trials - self._study._new_trials

    def _report(self) -> None:
        """Write first: what has been reported is never lost."""
        self._study._write(self.elapsed_s())
        self._written_s = time.monotonic()
        if self._on_progress is not None:
            self._on_progress(self._progress())

    def _progress(self) -> Progress:
        study, elapsed_s = self._study, self.elapsed_s()
        bound = study._reported_bound()
        return Progress(
            trials=len(study._known),
            new_trials=study._new_trials,
            incumbent=study.front.best,
            feasible=study.front.feasible,
            bound=as_metric(bound, study.space.objectives[0]),
            gap=relative_gap(study.front.best_rank[1] if study.front.feasible else math.inf, bound),
            trials_per_s=study._new_trials / elapsed_s if elapsed_s > 0 else 0.0,
            elapsed_s=elapsed_s,
            seconds_left=max(0.0, self._budget.seconds - elapsed_s),
            trials_left=max(0.0, self._trials_left()),
        )


def _decisions_table(encoding: Encoding) -> list[Any] | None:
    if not isinstance(encoding, FlatEncoding):
        return None
    return [[decision.name, list(decision.options)] for decision in encoding.decisions]
