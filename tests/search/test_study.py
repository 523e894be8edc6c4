"""The engine keeps its budgets, measures nothing twice, and goes on where it stopped."""

from __future__ import annotations

import itertools
import math
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.chunked_measuring import CHUNK_S
from kilotune.search.executor import Finished
from kilotune.search.racing import Hurdle
from kilotune.search.result import Progress, Status
from kilotune.search.space import Assignment, Objective, Space, Trial
from kilotune.search.store import Store
from kilotune.search.strategy import Outcome
from kilotune.search.study import Study
from tests.search.killed_study import SPACE as KILLED_SPACE
from tests.search.problems import FlatProblem, TreeProblem

ROOT = Path(__file__).parents[2]


class Scripted:
    """Proposes what it is told to, and notes what it learns."""

    outcome: Outcome | None = None
    bound = -math.inf

    def __init__(self, batches: Sequence[Sequence[Assignment]], for_ever: bool = False) -> None:
        self._batches, self._for_ever = list(batches), for_ever
        self.learnt: list[Trial] = []

    def propose(self, count: int) -> list[Assignment]:
        if not self._batches:
            self.outcome = Outcome.FINISHED
            return []
        return list(self._batches[0] if self._for_ever else self._batches.pop(0))

    def learn(self, trials: Sequence[Trial]) -> None:
        self.learnt += trials


class CountingExecutor(InProcessExecutor):
    """Remembers what was measured."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self.measured: list[Assignment] = []

    def submit(self, ticket: int, chunk: Sequence[Assignment], hurdle: Hurdle | None = None) -> None:
        self.measured += chunk
        super().submit(ticket, chunk)


def test_a_duplicate_is_answered_from_what_is_known_and_costs_no_trial() -> None:
    space = FlatProblem(2, 3, 1)
    a, b, c = ({"d0": 10, "d1": 10}, {"d0": 11, "d1": 10}, {"d0": 12, "d1": 10})
    strategy = Scripted([[a, b, a], [b, c], [a]])
    executor = CountingExecutor(space)
    study = Study(space, factory=lambda _space, _seed: strategy)
    result = study.run(executor, Budget(trials=4))
    assert executor.measured == [a, b, c]
    assert [t.number for t in strategy.learnt] == [0, 1, 0, 1, 2, 0]
    assert [t.assignment for t in strategy.learnt] == [a, b, a, b, c, a]
    assert strategy.learnt[0].measurement == strategy.learnt[2].measurement
    assert (result.evaluations, result.status) == (3, Status.FINISHED)


def test_a_strategy_that_only_repeats_itself_does_not_run_for_ever() -> None:
    space = FlatProblem(2, 3, 1)
    strategy = Scripted([[{"d0": 10, "d1": 10}]], for_ever=True)
    result = Study(space, factory=lambda _space, _seed: strategy).run(InProcessExecutor(space))
    assert (result.outcome, result.evaluations, result.proved) == (Outcome.STALLED, 1, False)


def test_a_study_that_has_seen_every_candidate_says_so() -> None:
    space = FlatProblem(3, 2, 1)
    study = Study(space, "local")
    result = study.run(InProcessExecutor(space))
    assert (result.outcome, result.evaluations, result.proved) == (Outcome.EXHAUSTED, 8, True)


@pytest.mark.parametrize("trials", [1, 7, 64, 65, 500])
@pytest.mark.parametrize("strategy", ["random", "local", "count_tpe"])
def test_a_budget_of_trials_is_kept_to_the_trial(strategy: str, trials: int) -> None:
    space = FlatProblem(20, 4, 1)
    result = Study(space, strategy).run(InProcessExecutor(space), Budget(trials=trials))
    assert (result.evaluations, result.status) == (trials, Status.BUDGET_SPENT)


class HandDrivenExecutor(InProcessExecutor):
    """Every evaluation takes `work_s`, by a clock that nothing else moves."""

    def __init__(self, space: Space, work_s: float) -> None:
        super().__init__(space)
        self.work_s, self.now_s = work_s, 100.0

    def results(self, timeout_s: float) -> list[Finished]:
        finished = [replace(one, work_s=len(one.measurements) * self.work_s) for one in super().results(timeout_s)]
        self.now_s += sum(one.work_s for one in finished)
        return finished


@pytest.mark.parametrize(
    ("work_s", "strategy"), [(0.001, "local"), (0.01, "random"), (0.15, "count_tpe"), (0.5, "local")]
)
def test_a_budget_of_time_is_kept_to_a_chunk(work_s: float, strategy: str) -> None:
    space = FlatProblem(20, 4, 1)
    executor = HandDrivenExecutor(space, work_s)
    result = Study(space, strategy, clock=lambda: executor.now_s).run(executor, Budget(seconds=0.6))
    assert 0.6 <= round(result.elapsed_s, 9) <= 0.6 + max(CHUNK_S, work_s)
    assert result.status is Status.BUDGET_SPENT
    assert result.evaluations == round(result.elapsed_s / work_s)


def test_a_search_that_finds_nothing_to_measure_still_looks_at_the_clock() -> None:
    bounds = itertools.count()

    class Endless(FlatProblem):
        def bound_of(self, answers: Assignment) -> float:  # type: ignore[override]
            assert next(bounds) < 5_000_000, "the budget of some looks at the clock is long spent"
            return math.inf if len(answers) == self.count else -math.inf

    space, looks = Endless(40, 2, 1), itertools.count()
    study = Study(space, "exhaustive", clock=lambda: float(next(looks)))
    result = study.run(InProcessExecutor(space), Budget(seconds=30))
    assert result.status is Status.BUDGET_SPENT


def test_a_run_ends_when_the_best_trial_meets_the_bound() -> None:
    space = FlatProblem(6, 3, 1, bounded=True)
    optimum = space.start().bound()
    exact = FlatProblem(6, 3, 1, bounded=False)
    object.__setattr__(exact, "bound_of", lambda answers: optimum + 2e-8)
    study = Study(exact, "local")
    result = study.run(InProcessExecutor(exact))
    assert (result.outcome, result.proved) == (Outcome.PROVED, True)
    assert result.evaluations < 3**6


def test_a_bound_is_reported_in_the_unit_of_the_metric() -> None:
    space = TreeProblem(4, 3, 2)
    study = Study(space, "exhaustive")
    result = study.run(InProcessExecutor(space))
    assert result.best is not None
    assert result.bound == result.best.measurement.metrics["gain"]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["random", "local", "count_tpe", "tpe", "exhaustive"])
@pytest.mark.parametrize(
    "space",
    [FlatProblem(10, 4, 2, pairs=5, objectives=(Objective("loss"), Objective("cost"))), TreeProblem(7, 5, 3)],
    ids=["flat", "tree"],
)
def test_a_resumed_study_has_the_trials_of_one_that_never_stopped(tmp_path: Path, strategy: str, space: Space) -> None:
    whole = Study(space, strategy, 3)
    whole.run(InProcessExecutor(space), Budget(trials=70))

    store = Store(str(tmp_path / "studies.db"))
    Study.create(store, "cut", space, strategy, 3).run(InProcessExecutor(space), Budget(trials=19))
    for _ in range(3):
        cut = Study.resume(store, "cut", space)
        executor = CountingExecutor(space)
        result = cut.run(executor, Budget(trials=17))
        assert len(executor.measured) == result.new_evaluations == 17
    assert cut.trials() == whole.trials()
    assert cut.front.trials == whole.front.trials
    assert Study.resume(store, "cut", space).trials() == whole.trials()


@pytest.mark.parametrize("strategy", ["local", "random", "exhaustive", "refine", "count_tpe"])
def test_a_resumed_study_makes_no_list_of_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """Of a search of a night it takes more memory than there is: only a space's own search that goes on asks for it."""
    space, store = FlatProblem(6, 4, 1, pairs=3), Store(str(tmp_path / "studies.db"))
    Study.create(store, "long", space, strategy, 3).run(InProcessExecutor(space), Budget(trials=30))
    resumed = Study.resume(store, "long", space)

    def listed() -> list[Trial]:
        raise MemoryError

    monkeypatch.setattr(resumed, "trials", listed)
    assert resumed.run(InProcessExecutor(space), Budget(trials=10)).new_evaluations == 10


def test_what_a_replay_takes_is_told_apart_from_what_the_run_takes(tmp_path: Path) -> None:
    """Whoever resumes asks for so many seconds of search, and measures the test data after them."""
    now = [0.0]

    class Thinking(FlatProblem):
        def bound_of(self, answers: Assignment) -> float:  # type: ignore[override]
            now[0] += 1.0  # a second for each step of the search
            return -math.inf

    space, store = Thinking(20, 4, 1), Store(str(tmp_path / "studies.db"))
    first = Study.create(store, "slow", space, "exhaustive", seed=1, clock=lambda: now[0])
    course = first.run(InProcessExecutor(space), Budget(trials=40))
    assert course.course is not None
    assert course.course.replay_s == 0.0
    again = Study.resume(store, "slow", space, clock=lambda: now[0])
    begun = now[0]
    went_on = again.run(InProcessExecutor(space), Budget(trials=10)).course
    assert went_on is not None
    assert went_on.replay_s >= 40.0
    assert went_on.replay_s + went_on.seconds == now[0] - begun


def test_resuming_finds_trials_that_are_missing_in_between(tmp_path: Path) -> None:
    """Parallel workers finish out of order, so a kill may leave trial 9 without trial 8."""
    space = FlatProblem(10, 4, 2, pairs=5)
    whole = Study(space, "local", 3)
    whole.run(InProcessExecutor(space), Budget(trials=100))
    path = tmp_path / "studies.db"
    store = Store(str(path))
    Study.create(store, "holes", space, "local", 3).run(InProcessExecutor(space), Budget(trials=60))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM trials WHERE number IN (8, 20, 21, 58)")
    cut = Study.resume(store, "holes", space)
    cut.run(InProcessExecutor(space), Budget(trials=44))
    assert cut.trials() == whole.trials()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["local", "count_tpe"])
def test_kill_minus_nine_loses_no_reported_trial_and_the_study_goes_on_identically(
    tmp_path: Path, strategy: str
) -> None:
    database = tmp_path / "studies.db"
    command = [sys.executable, "-m", "tests.search.killed_study", str(database), strategy]
    victim = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    reported = [int(victim.stdout.readline()) for _ in range(2)][-1]
    victim.send_signal(signal.SIGKILL)
    victim.wait()

    store = Store(str(database))
    kept = store.study("victim").trials
    assert kept >= reported > 0
    resumed = Study.resume(store, "victim", KILLED_SPACE)
    assert resumed.status is Status.RUNNING
    result = resumed.run(InProcessExecutor(KILLED_SPACE), Budget(trials=100))
    assert result.evaluations == kept + 100

    whole = Study(KILLED_SPACE, strategy, 5)
    whole.run(InProcessExecutor(KILLED_SPACE), Budget(trials=kept + 100))
    assert resumed.trials() == whole.trials()


def test_a_study_that_is_stopped_before_it_runs_ends_as_soon_as_it_begins() -> None:
    """Ctrl-C while the workers of a search are made: it was forgotten, and the whole budget was spent."""
    space = FlatProblem(12, 4, 1)
    study = Study(space, "random")
    study.stop()
    assert study.run(InProcessExecutor(space), Budget(trials=500)).status is Status.INTERRUPTED
    assert len(study.trials()) < 500
    assert study.run(InProcessExecutor(space), Budget(trials=500)).status is Status.BUDGET_SPENT


def test_ctrl_c_stops_after_the_chunk_and_the_study_can_be_resumed(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "studies.db"))
    space = FlatProblem(12, 4, 1)
    study = Study.create(store, "s", space, "random")

    class Interrupted(CountingExecutor):
        """By Ctrl-C, while it measures its third chunk."""

        chunks = 0

        def results(self, timeout_s: float) -> list[Finished]:
            self.chunks += 1
            if self.chunks == 3:
                os.kill(os.getpid(), signal.SIGINT)
            return super().results(timeout_s)

    executor = Interrupted(space)
    before = signal.getsignal(signal.SIGINT)
    result = study.run(executor, Budget(trials=100_000))
    assert signal.getsignal(signal.SIGINT) is before
    assert result.status is Status.INTERRUPTED
    assert executor.chunks == 3
    assert result.evaluations == len(executor.measured)
    row = store.study("s")
    assert (row.status, row.trials) == ("interrupted", result.evaluations)
    assert Study.resume(store, "s", space).run(InProcessExecutor(space), Budget(trials=5)).new_evaluations == 5


def test_progress_tells_incumbent_bound_gap_rate_and_what_is_left() -> None:
    space = FlatProblem(12, 4, 1, pairs=3, bounded=True, sleep_s=0.001)
    seen: list[Progress] = []
    Study(space, "random").run(InProcessExecutor(space), Budget(1.2, 10**6), on_progress=seen.append)
    assert len(seen) >= 2
    last = seen[-1]
    assert last.incumbent is not None
    best = last.incumbent.measurement.metrics["loss"]
    assert last.bound == pytest.approx(space.start().bound())
    assert last.bound is not None
    assert last.gap == pytest.approx((best - last.bound) / abs(best))
    assert last.trials_per_s == pytest.approx(last.new_trials / last.elapsed_s)
    assert last.trials_left == 10**6 - last.new_trials
    assert [p.seconds_left for p in seen] == sorted((p.seconds_left for p in seen), reverse=True)
    assert [p.trials for p in seen] == sorted(p.trials for p in seen)
