"""A study: the durable record of a search. Its loop is `search.run`.

Resuming is replaying: a fresh strategy of the same seed proposes the same candidates again, those that the store
holds are answered from it, and the first that it does not hold is where the search goes on. So a study that was
killed and resumed has the same trials as one that never was.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from kilotune.search.adoption import adopt, decisions_table
from kilotune.search.budget import Budget
from kilotune.search.executor import Executor
from kilotune.search.interrupts import stops_on_interrupt
from kilotune.search.result import Course, Progress, Result, Status, as_metric, relative_gap
from kilotune.search.run import Run, RunEnd
from kilotune.search.schema import UNKNOWN_FINGERPRINT
from kilotune.search.space import Clock, Space
from kilotune.search.stop_request import StopRequest
from kilotune.search.stopping import NEVER, StopRule
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow
from kilotune.search.strategy import GoesOn, Strategy, make_strategy
from kilotune.search.study_record import StudyRecord
from kilotune.search.warm_start import WarmStartedStrategy

StrategyFactory = Callable[[Space, int], Strategy]


class Study(StudyRecord):
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
        procedure_first: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        """Use `create` or `resume` for a study in a store. `factory` makes a strategy that has no registered name. With
        `procedure_first` the space's own procedure comes before the strategy (`search.warm_start`). `clock` is what a budget's
        seconds and the trials' times are taken from."""
        super().__init__(space, name, store)
        self.strategy, self.seed = strategy, seed
        self.clock = clock
        self.procedure_first = procedure_first
        self._factory = factory or (lambda space, seed: make_strategy(strategy, space, seed))
        self._stop_request = StopRequest()
        self._has_run = False
        self._course: Course | None = None

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
        procedure_first: bool = False,
        clock: Clock = time.monotonic,
    ) -> Study:
        """A new study in `store`. `request` is a JSON object of the caller's, kept for `resume`; there the caller also says
        `procedure_first` again. StoreError: the name is taken. ValueError: no such strategy."""
        make_strategy(strategy, space, seed)  # an unknown name leaves no empty study behind
        study = cls(space, strategy, seed, name=name, store=store, procedure_first=procedure_first, clock=clock)
        store.create(
            StudyRow(
                name=name,
                space=space.name,
                fingerprint=space.fingerprint,
                strategy=strategy,
                seed=seed,
                budget=str(budget or Budget()),
                decisions=decisions_table(study.book.encoding),
                request=request or {},
            )
        )
        return study

    @classmethod
    def resume(
        cls, store: Store, name: str, space: Space, *, procedure_first: bool = False, clock: Clock = time.monotonic
    ) -> Study:
        """The stored study with all its trials; `procedure_first` as it was created. StoreError: unknown, or `space` is not the
        one that it searched."""
        row = store.study(name)
        study = cls(space, row.strategy, row.seed, name=name, store=store, procedure_first=procedure_first, clock=clock)
        if row.space == space.name and row.fingerprint == UNKNOWN_FINGERPRINT:
            adopt(store, row, space, study.book.encoding)
            row = store.study(name)
        if row.space != space.name or row.fingerprint != space.fingerprint:
            raise StoreError(
                f"Study {name!r} searched the space {row.space!r} with fingerprint {row.fingerprint:.16}, and this is "
                f"{space.name!r} with {space.fingerprint:.16}: its input, its limits or how this version measures have "
                "changed, so start a new study."
            )
        if row.decisions != decisions_table(study.book.encoding):
            raise StoreError(f"Study {name!r} was made with other decisions than the space has now: start a new study.")
        study.take_in(row, store.trials(name))
        return study

    def stop(self) -> None:
        """End the current run after the step that it is in, which is abandoned when it takes longer than half a second; from
        another thread or a signal handler. Before the first run it is that one which ends, as soon as it begins."""
        self._stop_request.ask()

    @property
    def stopped(self) -> bool:
        """Whether `stop` has been called in this run."""
        return self._stop_request.asked

    def stopped_for_s(self) -> float:
        """Seconds since `stop` was called; -inf when it has not been."""
        return self._stop_request.seconds()

    def result(self) -> Result:
        """Where the study stands, and how its last run in this process went."""
        front, bound = self.book.front, self.reported_bound()
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
            proved=self.is_proved(),
            evaluations=len(self.book),
            new_evaluations=0 if self._course is None else self._course.trials,
            elapsed_s=self.elapsed_before_s,
            course=self._course,
        )

    def run(
        self,
        executor: Executor,
        budget: Budget | None = None,
        *,
        stop: StopRule = NEVER,
        on_progress: Callable[[Progress], None] | None = None,
        handle_interrupts: bool = True,
        first_answer_s: float = 0.0,
    ) -> Result:
        """Search until the budget is spent, the strategy ends, the best trial is proved or `stop` says so. The budget counts what
        this run measures, not what it replays; what is still going on shortly after its end is abandoned and not recorded (in
        the main thread; see `search.abandoning`). With `handle_interrupts` the first Ctrl-C ends the run in the same way
        (status INTERRUPTED), the second raises KeyboardInterrupt. `first_answer_s`: how long beyond the budget's seconds a
        study without any trial goes on for its first one. StoreError: the store fails."""
        if self._has_run:
            self._stop_request = StopRequest()
        self._has_run = True
        try:
            end = RunEnd(budget or Budget(), stop, self.clock, self._stop_request, first_answer_s)
            run = Run(self, self.make_strategy, executor, end, on_progress)
        except ValueError as error:
            raise ValueError(f"Study {self.name!r}: {error}") from None
        self.status, self.outcome = Status.RUNNING, None
        with stops_on_interrupt(self) if handle_interrupts else contextlib.nullcontext():
            try:
                run.rounds()
            except BaseException:
                self.status = Status.INTERRUPTED
                executor.cancel()
                with contextlib.suppress(StoreError):
                    self.save(run.elapsed_s())
                raise
            else:  # before it leaves: a study that says it is running, and on which nobody works, is a dead one
                self._course = run.course()
                self.elapsed_before_s += self._course.seconds
                self.save(0.0)
            finally:
                run.leave()
        return self.result()

    def make_strategy(self) -> Strategy:
        """A fresh strategy, which proposes what the one of every run of this study proposes: because it does so of itself, or because
        it is told what earlier runs have measured."""
        strategy = self._factory(self.space, self.seed)
        if len(self.book) and isinstance(strategy, GoesOn):
            strategy.go_on(self.trials)
        if not self.procedure_first:
            return strategy
        return WarmStartedStrategy(self.space, strategy, self.procedure_before())
