"""One run of a study: the loop around any strategy and any executor."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kilotune.search.abandoning import Watch
from kilotune.search.budget import Budget
from kilotune.search.candidates import count_candidates
from kilotune.search.chunked_measuring import ChunkedMeasuring
from kilotune.search.encoding import CandidateKey
from kilotune.search.executor import Executor, Recalls
from kilotune.search.front import Front, Ranking
from kilotune.search.racing import Hurdle, NamesHurdle, asks_again, is_raced
from kilotune.search.result import Course, Progress, Status, as_metric, relative_gap
from kilotune.search.space import Assignment, Clock, Measurement, SearchesInThreads, Trial
from kilotune.search.stop_request import StopRequest
from kilotune.search.stopping import StoppingState, StopRule
from kilotune.search.store import StoreError
from kilotune.search.strategy import ClockAware, Outcome, Strategy, TimeAware
from kilotune.search.study_record import StudyRecord
from kilotune.search.warm_start import WarmStartedStrategy

PROPOSALS_PER_ROUND = 1024  # at most; a strategy's own batches are usually smaller
WRITE_EVERY_S = 0.8
POLL_OTHERS_S = 0.1
CHUNKS_CLAIMED_ALONE = 8  # at once: a claim is a transaction; a process that joins waits for these at most
ABANDON_AFTER_S = 0.4
"""How long a step may still go on once the budget is spent, or the run has been asked to stop; then it is abandoned."""
MOST_UNRANKED = 4096
DUPLICATES_UNTIL_STALLED = 20_000  # in a row; a local search legitimately repeats whole neighbourhoods


@dataclass(frozen=True)
class RunEnd:
    """What ends a run, besides its strategy: a budget whose seconds are those of `clock`, a rule, and being asked to.

    `first_answer_s`: how long beyond the budget's seconds a study without any trial goes on for its first one.
    """

    budget: Budget
    rule: StopRule
    clock: Clock
    request: StopRequest
    first_answer_s: float = 0.0


class Run:
    """One run of a study: its strategy, its clock, its budget."""

    def __init__(
        self,
        record: StudyRecord,
        make_strategy: Callable[[], Strategy],
        executor: Executor,
        end: RunEnd,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        """`make_strategy`: a fresh one, which proposes what the one of every run of the study proposes."""
        self._record, self._make_strategy, self._end, self._on_progress = record, make_strategy, end, on_progress
        self._budget, self._clock = end.budget, end.clock
        self._watch = Watch(self._is_over, self._save_in_time)
        self._executor = executor
        self._recalls = executor if isinstance(executor, Recalls) else None
        self._measuring = ChunkedMeasuring(executor, self._must_stop, self._watch)
        self._sharing = record.work_sharing()
        self._unreplayed = record.book.numbers()  # trials of earlier runs that this one has not proposed yet
        self._races, self._asks_again = False, False  # known once there is a strategy
        self._round_hurdle: Hurdle | None = None
        self._answered = Front(Ranking.of(record.space))  # rounds that are over: other processes find the same
        self._unranked: list[Trial] = []  # that are to come to these
        self.new_trials = 0
        self._proposed = 0  # distinct candidates
        self._duplicates = 0  # in a row
        self._size: int | None = None
        self._begun_s = self._clock()
        self._started_s: float | None = None if self._unreplayed else self._begun_s
        self._written_s, self._thinks = time.monotonic(), False
        self._best_rank = record.front.best_rank
        self._improvements: list[tuple[float, Trial]] = []
        self._round_end = 0  # new trials once all of this round's are measured
        self._improved = (0.0, 0)  # seconds, and new trials at the end of the round; at the last improvement
        self._proved: tuple[float, int] | None = None  # the same, of the first objective

    def elapsed_s(self) -> float:
        """Since the end of the replay."""
        return 0.0 if self._started_s is None else self._clock() - self._started_s

    def course(self) -> Course:
        """How it has gone."""
        proved_s = None if self._proved is None else self._proved[0]
        replayed_s = (self._clock() if self._started_s is None else self._started_s) - self._begun_s
        return Course(self._budget, self.elapsed_s(), self.new_trials, proved_s, tuple(self._improvements), replayed_s)

    def leave(self) -> None:
        """Other processes of the study may take over what this run has not finished."""
        self._sharing.leave()

    def rounds(self) -> None:
        """The loop of every search."""
        with self._watch:
            with self._watch.stretch() as beginning:
                self._size = count_candidates(self._record.space)
                if isinstance(self._record.space, SearchesInThreads):
                    self._record.space.threads = min(self._executor.workers, os.cpu_count() or 1)
                strategy = self._make_strategy()
            if beginning.abandoned:
                self._give_up()
            else:
                self._rounds_of(strategy)
        self._report()

    def _rounds_of(self, strategy: Strategy) -> None:
        record, watch = self._record, self._watch
        allow = strategy.allow if isinstance(strategy, TimeAware) else None
        warm = strategy if isinstance(strategy, WarmStartedStrategy) else None
        if isinstance(strategy, ClockAware):
            strategy.count_by(self._clock)
        self._asks_again = asks_again(strategy)  # once: to ask whether an object has an ability takes long
        raced = is_raced(record.space, self._asks_again)
        named = strategy if raced and isinstance(strategy, NamesHurdle) else None
        self._races = named is not None
        while record.status is Status.RUNNING:
            with watch.stretch() as thinking:
                if allow is not None:
                    allow(self._budget.seconds - self.elapsed_s())
                self._expect_thought(warm)
                self._thinks = True
                proposals = strategy.propose(PROPOSALS_PER_ROUND)
            self._thinks = False
            if thinking.abandoned:
                return self._give_up()
            record.bound = max(record.bound, strategy.bound)
            if warm is not None:
                record.take_in_procedure(warm)
            if proposals:
                self._round_hurdle = None if named is None else self._hurdle(named)
                trials = self._answer(proposals)
                if trials is not None:
                    with watch.stretch() as learning:
                        strategy.learn(trials)
                    if learning.abandoned:
                        return self._give_up()
            self._check_for_end()
            if not proposals and strategy.outcome is not None:
                self._finish(strategy.outcome)
        return self._conclude(strategy)

    def _conclude(self, strategy: Strategy) -> None:
        """A procedure whose last candidate the budget sufficed for, and nothing after it, has ended all the same."""
        if not isinstance(strategy, WarmStartedStrategy):
            return
        with self._watch.stretch() as concluding:
            strategy.conclude()
        if not concluding.abandoned:
            self._record.take_in_procedure(strategy)

    def _expect_thought(self, strategy: WarmStartedStrategy | None) -> None:
        """The replay ends at a thought that the run before did not think to its end."""
        if strategy is not None and strategy.thinks_again and self._started_s is None:
            self._started_s = self._clock()

    def _give_up(self) -> None:
        """The strategy was abandoned in the middle of a step, so it can't be asked again."""
        self._record.status = Status.INTERRUPTED if self._end.request.asked else Status.BUDGET_SPENT

    def _hurdle(self, strategy: NamesHurdle) -> Hurdle | None:
        """What the strategy's last proposals have to clear. It hangs on what came before their round, so it is the same in every run of the
        study, on any number of workers."""
        wanted = strategy.hurdle
        if wanted is None:
            return None
        self._rank_answered()
        return Hurdle.of(wanted, self._answered, not self._asks_again)

    def _rank_answered(self) -> None:
        self._answered.update(self._unranked)
        self._unranked.clear()

    def _answer(self, proposals: Sequence[Assignment]) -> list[Trial] | None:
        """The trials of all proposals; None when the run has to stop before all are measured."""
        record = self._record
        book, encode, hurdle = record.book, record.book.encoding.key, self._round_hurdle
        keys = [encode(candidate) for candidate in proposals]
        fresh: dict[CandidateKey, tuple[int, Assignment]] = {}
        for key, candidate in zip(keys, proposals, strict=True):
            number = book.answer(key, hurdle)
            if number is None and key not in fresh:
                fresh[key] = (book.number_for(self._proposed), candidate)
            elif number is not None and number in self._unreplayed:
                self._unreplayed.remove(number)
            else:
                self._duplicates += 1
                continue
            self._proposed += 1
            self._duplicates = 0
        if fresh and not self._measure(fresh):
            return None
        trials = [book.trial(key, candidate, hurdle) for key, candidate in zip(keys, proposals, strict=True)]
        if self._races:
            self._unranked += trials
            if len(self._unranked) > MOST_UNRANKED:  # a strategy may name no hurdle for hours
                self._rank_answered()
        return trials

    def _measure(self, fresh: Mapping[CandidateKey, tuple[int, Assignment]]) -> bool:
        """Measure and record as many as the budget allows, or have other processes of the study do it; whether that was
        all of them."""
        if self._started_s is None:
            self._started_s = self._clock()
        waiting = {number: (key, candidate) for key, (number, candidate) in fresh.items()}
        self._round_end = self.new_trials + len(waiting)
        self._recall(waiting)
        taken: dict[int, tuple[CandidateKey, Assignment]] = {}
        claimed: list[int] = []  # and not taken yet, last one first

        def take(most: int) -> list[tuple[int, Assignment]]:
            if not claimed:
                wanted = most if self._sharing.others else most * CHUNKS_CLAIMED_ALONE
                affordable = int(min(self._trials_left() - len(taken), wanted))
                claimed.extend(reversed(self._sharing.claim(list(waiting), affordable)))
            mine = [claimed.pop() for _ in range(min(most, len(claimed)))]
            taken.update((number, waiting.pop(number)) for number in mine)
            return [(number, taken[number][1]) for number in mine]

        while waiting:
            for numbers, measurements in self._measuring.chunks(
                take, len(waiting), self._sharing.others, self._round_hurdle
            ):
                self._take_in(numbers, [taken.pop(number) for number in numbers], measurements)
            if taken or (waiting and (self._must_stop() or self._trials_left() <= 0)):
                return False
            if waiting and not self._load_arrivals(waiting):
                time.sleep(POLL_OTHERS_S)
        return True

    def _recall(self, waiting: dict[int, tuple[CandidateKey, Assignment]]) -> None:
        """Record what is known from earlier studies, where that changes no trial: of a round that the budget ends in only the beginning
        counts, whatever is known of the rest, and what may have been censored here is measured again."""
        if self._recalls is None:
            return
        numbers = list(waiting)[: int(min(self._trials_left(), len(waiting)))]
        found = self._recalls.recall([waiting[number][1] for number in numbers])
        hurdle = self._round_hurdle
        known = [at for at, one in sorted(found.items()) if hurdle is None or not hurdle.is_out(dict(one.metrics))]
        measured = [waiting.pop(numbers[position]) for position in known]
        self._take_in([numbers[position] for position in known], measured, [found[position] for position in known])

    def _take_in(
        self,
        numbers: Sequence[int],
        measured: Sequence[tuple[CandidateKey, Assignment]],
        measurements: Sequence[Measurement],
    ) -> None:
        elapsed_s = self.elapsed_s()
        self.new_trials += len(numbers)
        for number, (key, candidate), measurement in zip(numbers, measured, measurements, strict=True):
            self._record.record(key, number, candidate, measurement, elapsed_s)
        self._notice()
        if self._sharing.others or time.monotonic() - self._written_s > WRITE_EVERY_S:
            self._report()

    def _notice(self) -> None:
        """Whether there is a better candidate, and a proof. Both count from the end of their round: within one, what has been
        measured so far depends on the machine's speed, and a budget in trials has to give the same trials everywhere."""
        front, now = self._record.front, (self.elapsed_s(), self._round_end)
        if front.best is not None and front.best_rank < self._best_rank:
            self._best_rank, self._improved = front.best_rank, now
            self._improvements.append((now[0], front.best))
        if self._proved is None and front.feasible and front.best_rank[1] <= self._record.bound:
            self._proved = now

    def _load_arrivals(self, waiting: dict[int, tuple[CandidateKey, Assignment]]) -> int:
        """Take in what other processes have measured of the waiting trials; how many there were. Where one has measured
        another candidate under that number (a strategy with a solver's time limit), ours gets a new number."""
        book, rows = self._record.book, self._sharing.arrivals(list(waiting))
        book.load(rows)
        for row in rows:
            key, candidate = waiting.pop(row.number)
            if book.answer(key, self._round_hurdle) is None:
                waiting[book.free_number(waiting)] = (key, candidate)
        return len(rows)

    def _check_for_end(self) -> None:
        """Is there a reason to end?"""
        record = self._record
        if not self._unreplayed and self._started_s is None:
            self._started_s = self._clock()
        if self._started_s is None and not self._end.request.asked:
            return  # a replay must not end before the trial at which the run that it replays went on
        self._notice()
        if self._size is not None and record.book.candidates >= self._size:
            self._finish(Outcome.EXHAUSTED)
        elif (
            len(record.space.objectives) == 1
            and record.book.front.feasible
            and record.book.front.best_rank[1] <= record.bound
        ):
            self._finish(Outcome.PROVED)
        elif self._end.request.asked:
            record.status = Status.INTERRUPTED
        elif self._must_stop() or self._trials_left() <= 0:
            record.status = Status.BUDGET_SPENT
        elif self._duplicates >= DUPLICATES_UNTIL_STALLED:
            self._finish(Outcome.STALLED)
        elif self._end.rule.ends(
            StoppingState(self.elapsed_s(), self.new_trials, self._improved, self._proved), self._budget
        ):
            record.status = Status.SETTLED
        elif time.monotonic() - self._written_s > WRITE_EVERY_S:
            self._report()

    def _finish(self, outcome: Outcome) -> None:
        self._record.status, self._record.outcome = Status.FINISHED, outcome

    def _must_stop(self) -> bool:
        return self._end.request.asked or self.elapsed_s() >= self._seconds()

    def _is_over(self) -> bool:
        """Whether a step that still goes on is to be abandoned."""
        return self._end.request.seconds() >= ABANDON_AFTER_S or self.elapsed_s() >= self._seconds() + ABANDON_AFTER_S

    def _seconds(self) -> float:
        """What the run may take: a study that has nothing at all to show for it goes on for a first trial."""
        return self._budget.seconds + (0.0 if len(self._record.book) else self._end.first_answer_s)

    def _trials_left(self) -> float:
        return self._budget.trials - self.new_trials

    def _save_in_time(self) -> None:
        """While the strategy thinks, for minutes maybe: what has been measured is written as soon as it would be between two rounds."""
        if self._thinks and self._record.has_unwritten and time.monotonic() - self._written_s > WRITE_EVERY_S:
            with contextlib.suppress(StoreError):  # the next report says so
                self._record.save(self.elapsed_s())
            self._written_s = time.monotonic()

    def _report(self) -> None:
        """Write first: what has been reported is never lost."""
        self._record.save(self.elapsed_s())
        self._written_s = time.monotonic()
        if self._on_progress is not None:
            self._on_progress(self._progress())

    def _progress(self) -> Progress:
        record, elapsed_s = self._record, self.elapsed_s()
        bound = record.reported_bound()
        return Progress(
            trials=len(record.book),
            new_trials=self.new_trials,
            incumbent=record.book.front.best,
            feasible=record.book.front.feasible,
            bound=as_metric(bound, record.space.objectives[0]),
            gap=relative_gap(record.book.front.best_rank[1] if record.book.front.feasible else math.inf, bound),
            trials_per_s=self.new_trials / elapsed_s if elapsed_s > 0 else 0.0,
            elapsed_s=elapsed_s,
            seconds_left=max(0.0, self._budget.seconds - elapsed_s),
            trials_left=max(0.0, self._trials_left()),
            proved_s=None if self._proved is None else self._proved[0],
        )
