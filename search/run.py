"""One run of a study: the loop around any strategy and any executor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kilotune.search.abandoning import Watch
from kilotune.search.budget import Budget
from kilotune.search.candidates import count_candidates
from kilotune.search.encoding import Key
from kilotune.search.executor import Executor, Recalls
from kilotune.search.measuring import ChunkedMeasuring
from kilotune.search.opening import OpenedStrategy
from kilotune.search.result import Course, Progress, Status, as_metric, relative_gap
from kilotune.search.space import Assignment, Measurement, Trial
from kilotune.search.stopping import StoppingState, StopRule
from kilotune.search.strategy import Outcome, Strategy, TimeAware

if TYPE_CHECKING:
    from kilotune.search.study import Study

PROPOSALS_PER_ROUND = 1024  # at most; a strategy's own batches are usually smaller
WRITE_EVERY_S = 0.8
POLL_OTHERS_S = 0.1
CHUNKS_CLAIMED_ALONE = 8  # at once: a claim is a transaction; a process that joins waits for these at most
ABANDON_AFTER_S = 0.4
"""How long a step may still go on once the budget is spent, or the run has been asked to stop; then it is abandoned."""
DUPLICATES_UNTIL_STALLED = 20_000  # in a row; a local search legitimately repeats whole neighbourhoods


class Run:
    """One run of a study: its strategy, its clock, its budget."""

    def __init__(
        self,
        study: Study,
        executor: Executor,
        budget: Budget,
        stop: StopRule,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._study, self._budget, self._stop, self._on_progress = study, budget, stop, on_progress
        self._watch = Watch(self._is_over)
        self._executor = executor
        self._measuring = ChunkedMeasuring(executor, self._must_stop, self._watch)
        self._division = study.division()
        self._unreplayed = study.book.keys()  # trials of earlier runs that this one has not proposed yet
        self.new_trials = 0
        self._proposed = 0  # distinct candidates
        self._duplicates = 0  # in a row
        self._size: int | None = None
        self._started_s: float | None = None if self._unreplayed else study.clock()
        self._written_s = time.monotonic()
        self._best_rank = study.front.best_rank
        self._improvements: list[tuple[float, Trial]] = []
        self._round_end = 0  # new trials once all of this round's are measured
        self._improved = (0.0, 0)  # seconds, and new trials at the end of the round; at the last improvement
        self._proved: tuple[float, int] | None = None  # the same, of the first objective

    def elapsed_s(self) -> float:
        """Since the end of the replay."""
        return 0.0 if self._started_s is None else self._study.clock() - self._started_s

    def course(self) -> Course:
        """How it has gone."""
        proved_s = None if self._proved is None else self._proved[0]
        return Course(self._budget, self.elapsed_s(), self.new_trials, proved_s, tuple(self._improvements))

    def leave(self) -> None:
        """Other processes of the study may take over what this run has not finished."""
        self._division.leave()

    def rounds(self) -> None:
        """The loop of every search."""
        with self._watch:
            with self._watch.stretch() as beginning:
                self._size = count_candidates(self._study.space)
                strategy = self._study.make_strategy()
            if beginning.abandoned:
                self._give_up()
            else:
                self._rounds_of(strategy)
        self._report()

    def _rounds_of(self, strategy: Strategy) -> None:
        study, watch = self._study, self._watch
        allow = strategy.allow if isinstance(strategy, TimeAware) else None
        while study.status is Status.RUNNING:
            with watch.stretch() as thinking:
                if allow is not None:
                    allow(self._budget.seconds - self.elapsed_s())
                proposals = strategy.propose(PROPOSALS_PER_ROUND)
            if thinking.abandoned:
                return self._give_up()
            study.bound = max(study.bound, strategy.bound)
            if isinstance(strategy, OpenedStrategy):
                study.procedure = strategy.procedure
            if proposals:
                trials = self._answer(proposals)
                if trials is not None:
                    with watch.stretch() as learning:
                        strategy.learn(trials)
                    if learning.abandoned:
                        return self._give_up()
            self._look_around()
            if not proposals and strategy.outcome is not None:
                self._finish(strategy.outcome)
        return None

    def _give_up(self) -> None:
        """The strategy was abandoned in the middle of a step, so it can't be asked again."""
        self._study.status = Status.INTERRUPTED if self._study.stopped else Status.BUDGET_SPENT

    def _answer(self, proposals: Sequence[Assignment]) -> list[Trial] | None:
        """The trials of all proposals; None when the run has to stop before all are measured."""
        study = self._study
        book, encode = study.book, study.book.encoding.key
        keys = [encode(candidate) for candidate in proposals]
        fresh: dict[Key, tuple[int, Assignment]] = {}
        for key, candidate in zip(keys, proposals, strict=True):
            if key not in book and key not in fresh:
                fresh[key] = (book.number_for(self._proposed), candidate)
            elif key in self._unreplayed:
                self._unreplayed.remove(key)
            else:
                self._duplicates += 1
                continue
            self._proposed += 1
            self._duplicates = 0
        if fresh and not self._measure(fresh):
            return None
        return [book.trial(key, candidate) for key, candidate in zip(keys, proposals, strict=True)]

    def _measure(self, fresh: Mapping[Key, tuple[int, Assignment]]) -> bool:
        """Measure and record as many as the budget allows, or have other processes of the study do it; whether that was
        all of them."""
        if self._started_s is None:
            self._started_s = self._study.clock()
        waiting = {number: (key, candidate) for key, (number, candidate) in fresh.items()}
        self._round_end = self.new_trials + len(waiting)
        self._recall(waiting)
        taken: dict[int, tuple[Key, Assignment]] = {}
        claimed: list[int] = []  # and not taken yet, last one first

        def take(most: int) -> list[tuple[int, Assignment]]:
            if not claimed:
                wanted = most if self._division.others else most * CHUNKS_CLAIMED_ALONE
                affordable = int(min(self._trials_left() - len(taken), wanted))
                claimed.extend(reversed(self._division.claim(list(waiting), affordable)))
            mine = [claimed.pop() for _ in range(min(most, len(claimed)))]
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

    def _recall(self, waiting: dict[int, tuple[Key, Assignment]]) -> None:
        """Record what is known from earlier studies."""
        if not isinstance(self._executor, Recalls):
            return
        numbers = list(waiting)
        found = self._executor.recall([candidate for _, candidate in waiting.values()])
        known = sorted(found)[: int(min(self._trials_left(), len(found)))]
        measured = [waiting.pop(numbers[position]) for position in known]
        self._record([numbers[position] for position in known], measured, [found[position] for position in known])

    def _record(
        self, numbers: Sequence[int], measured: Sequence[tuple[Key, Assignment]], measurements: Sequence[Measurement]
    ) -> None:
        elapsed_s = self.elapsed_s()
        self.new_trials += len(numbers)
        for number, (key, candidate), measurement in zip(numbers, measured, measurements, strict=True):
            self._study.record(key, number, candidate, measurement, elapsed_s)
        self._notice()
        if self._division.others or time.monotonic() - self._written_s > WRITE_EVERY_S:
            self._report()

    def _notice(self) -> None:
        """Whether there is a better candidate, and a proof. Both count from the end of their round: within one, what has been
        measured so far depends on the machine's speed, and a budget in trials has to give the same trials everywhere."""
        front, now = self._study.front, (self.elapsed_s(), self._round_end)
        if front.best is not None and front.best_rank < self._best_rank:
            self._best_rank, self._improved = front.best_rank, now
            self._improvements.append((now[0], front.best))
        if self._proved is None and front.feasible and front.best_rank[1] <= self._study.bound:
            self._proved = now

    def _welcome(self, waiting: dict[int, tuple[Key, Assignment]]) -> int:
        """Take in what other processes have measured of the waiting trials; how many there were. Where one has measured
        another candidate under that number (a strategy with a solver's time limit), ours gets a new number."""
        book, rows = self._study.book, self._division.arrivals(list(waiting))
        book.load(rows)
        for row in rows:
            key, candidate = waiting.pop(row.number)
            if key not in book:
                waiting[book.dodge(waiting)] = (key, candidate)
        return len(rows)

    def _look_around(self) -> None:
        """Is there a reason to end?"""
        study = self._study
        if not self._unreplayed and self._started_s is None:
            self._started_s = study.clock()
        if self._started_s is None and not study.stopped:
            return  # a replay must not end before the trial at which the run that it replays went on
        self._notice()
        if self._size is not None and len(study.book) >= self._size:
            self._finish(Outcome.EXHAUSTED)
        elif (
            len(study.space.objectives) == 1
            and study.book.front.feasible
            and study.book.front.best_rank[1] <= study.bound
        ):
            self._finish(Outcome.PROVED)
        elif self._study.stopped:
            study.status = Status.INTERRUPTED
        elif self._must_stop() or self._trials_left() <= 0:
            study.status = Status.BUDGET_SPENT
        elif self._duplicates >= DUPLICATES_UNTIL_STALLED:
            self._finish(Outcome.STALLED)
        elif self._stop.ends(
            StoppingState(self.elapsed_s(), self.new_trials, self._improved, self._proved), self._budget
        ):
            study.status = Status.SETTLED
        elif time.monotonic() - self._written_s > WRITE_EVERY_S:
            self._report()

    def _finish(self, outcome: Outcome) -> None:
        self._study.status, self._study.outcome = Status.FINISHED, outcome

    def _must_stop(self) -> bool:
        return self._study.stopped or self.elapsed_s() >= self._budget.seconds

    def _is_over(self) -> bool:
        """Whether a step that still goes on is to be abandoned."""
        return (
            self._study.stopped_for_s() >= ABANDON_AFTER_S or self.elapsed_s() >= self._budget.seconds + ABANDON_AFTER_S
        )

    def _trials_left(self) -> float:
        return self._budget.trials - self.new_trials

    def _report(self) -> None:
        """Write first: what has been reported is never lost."""
        self._study.save(self.elapsed_s())
        self._written_s = time.monotonic()
        if self._on_progress is not None:
            self._on_progress(self._progress())

    def _progress(self) -> Progress:
        study, elapsed_s = self._study, self.elapsed_s()
        bound = study.reported_bound()
        return Progress(
            trials=len(study.book),
            new_trials=self.new_trials,
            incumbent=study.book.front.best,
            feasible=study.book.front.feasible,
            bound=as_metric(bound, study.space.objectives[0]),
            gap=relative_gap(study.book.front.best_rank[1] if study.book.front.feasible else math.inf, bound),
            trials_per_s=self.new_trials / elapsed_s if elapsed_s > 0 else 0.0,
            elapsed_s=elapsed_s,
            seconds_left=max(0.0, self._budget.seconds - elapsed_s),
            trials_left=max(0.0, self._trials_left()),
            proved_s=None if self._proved is None else self._proved[0],
        )
