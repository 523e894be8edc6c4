"""No step of a search outlasts its budget or Ctrl-C, whatever it does; and what was abandoned leaves no trace.

Endless work is the test: what is not abandoned fails it. No time here is the machine's: budgets are of a clock that stands still until
somebody is inside work that does not end, and where a tick of the timer has to come, the test sends it.
"""

from __future__ import annotations

import itertools
import math
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.abandoning import Abandoned
from kilotune.search.budget import Budget
from kilotune.search.result import Result, Status
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.store import Store
from kilotune.search.strategies import random
from kilotune.search.strategy import Outcome, SteppedStrategy, Steps, Strategy, make_strategy
from kilotune.search.study import Study
from tests.search.endless_work import Clock
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Slow(FlatProblem):
    """The evaluation of the candidates with this answer to the first decision does not end."""

    work: Callable[[], None] = pytest.fail
    trap: int = 12

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        if any(candidate["d0"] == self.trap for candidate in batch):
            self.work()
        return super().evaluate(batch)


class Stuck:
    """A strategy that never comes back from one of its steps, after some proposals."""

    outcome: Outcome | None = None
    bound = -math.inf

    def __init__(self, space: FlatProblem, seed: int, where: str, clock: Clock, after: int = 3) -> None:
        self._work = clock.work_for_ever
        if where == "making":
            self._work()
        self._random, self._where, self._left = make_strategy("random", space, seed), where, after

    def propose(self, count: int) -> list[Assignment]:
        self._left -= 1
        if self._where == "propose" and self._left < 0:
            self._work()
        return self._random.propose(count)

    def learn(self, trials: Sequence[Trial]) -> None:
        if self._where == "learn" and self._left < 0:
            self._work()
        self._random.learn(trials)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["making", "propose", "learn"])
def test_a_step_of_a_strategy_that_does_not_end_is_abandoned(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine would cut up what random search proposes, which is counted here."""
    monkeypatch.setattr(random, "LONGEST_PROPOSAL_S", math.inf)
    space, clock = FlatProblem(20, 4, 1), Clock()
    study = Study(space, factory=lambda space, seed: Stuck(space, seed, where, clock), clock=clock)
    result = study.run(InProcessExecutor(space), Budget(seconds=0.5))
    assert result.status is Status.BUDGET_SPENT
    assert result.evaluations == (0 if where == "making" else 3 * 64 if where == "propose" else 4 * 64)


@pytest.mark.parametrize("work", [Clock.work_for_ever, Clock.swallow_for_ever])
def test_an_evaluation_that_does_not_end_is_abandoned_and_not_recorded(work: Callable[[Clock], None]) -> None:
    clock = Clock()
    space = Slow(6, 3, 1, work=lambda: work(clock))
    study = Study(space, "random", clock=clock)
    result = study.run(InProcessExecutor(space), Budget(seconds=0.5))
    assert result.status is Status.BUDGET_SPENT
    assert clock.is_over()
    assert all(trial.assignment["d0"] != 12 and trial.measurement.failure is None for trial in study.trials())


def test_it_is_the_study_s_clock_that_says_when() -> None:
    """One that is an hour further at every look."""
    looks = itertools.count()
    space = Slow(6, 3, 1, work=Clock().work_for_ever)
    study = Study(space, "random", clock=lambda: 3600.0 * next(looks))
    result = study.run(InProcessExecutor(space), Budget(seconds=20 * 3600.0))
    assert result.elapsed_s >= 20 * 3600.0
    assert result.status is Status.BUDGET_SPENT


@pytest.mark.parametrize(("more_s", "trials"), [(0.0, 0), (1.5, 0), (5.0, 1)])
def test_a_study_without_a_trial_goes_on_beyond_its_budget_for_a_first_one_and_no_more(
    more_s: float, trials: int
) -> None:
    """What its strategy needs before the first proposal takes three times the budget."""
    space, now = FlatProblem(6, 3, 1), [0.0]

    def made(space: Space, seed: int) -> Strategy:
        now[0] += 3.0
        return make_strategy("random", space, seed)

    study = Study(space, factory=made, clock=lambda: now[0])
    result = study.run(InProcessExecutor(space), Budget(seconds=1.0), first_answer_s=more_s)
    assert result.evaluations == trials
    assert result.status is Status.BUDGET_SPENT


def test_the_time_for_a_first_trial_ends_too() -> None:
    space, clock = FlatProblem(6, 3, 1), Clock()
    study = Study(space, factory=lambda space, seed: Stuck(space, seed, "making", clock), clock=clock)
    result = study.run(InProcessExecutor(space), Budget(seconds=0.1), first_answer_s=0.3)
    assert (result.status, result.evaluations) == (Status.BUDGET_SPENT, 0)


def test_ctrl_c_does_not_wait_for_an_evaluation() -> None:
    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        Clock().work_for_ever()

    space = Slow(6, 3, 1, work=interrupted)
    result = Study(space, "random").run(InProcessExecutor(space))
    assert result.status is Status.INTERRUPTED


def test_a_study_whose_evaluation_was_abandoned_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    clock = Clock()
    space, slow = FlatProblem(6, 3, 1), Slow(6, 3, 1, work=clock.work_for_ever)
    assert slow.fingerprint != space.fingerprint
    object.__setattr__(slow, "name", space.name)
    whole = Study(space, "local", 4)
    whole.run(InProcessExecutor(space), Budget(trials=200))
    store = Store(str(tmp_path / "studies.db"))
    cut = Study.create(store, "cut", space, "local", 4, clock=clock)
    first = cut.run(InProcessExecutor(slow), Budget(seconds=0.3))
    assert (first.status, first.evaluations < 200) == (Status.BUDGET_SPENT, True)
    resumed = Study.resume(store, "cut", space)
    resumed.run(InProcessExecutor(space), Budget(trials=200 - first.evaluations))
    assert resumed.trials() == whole.trials()


def test_off_the_main_thread_the_clock_is_looked_at_between_steps() -> None:
    space, looks = FlatProblem(20, 4, 1), itertools.count()
    found: list[Result] = []

    def search() -> None:
        study = Study(space, "random", clock=lambda: float(next(looks)))
        found.append(study.run(InProcessExecutor(space), Budget(seconds=50, trials=100_000)))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert found[0].evaluations < 100_000
    assert [result.status for result in found] == [Status.BUDGET_SPENT]


def test_it_is_no_failure_of_a_candidate() -> None:
    assert not issubclass(Abandoned, Exception)


class Thinking:
    """Straight-line code that swallows the exception and then goes on as if nothing had been."""

    bound = -math.inf

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def steps(self) -> Steps:
        yield [{"d0": 10, "d1": 10}]
        self._clock.swallow_for_ever()
        yield [{"d0": 11, "d1": 10}]
        return Outcome.FINISHED


class Claiming(Thinking):
    """Takes the end of its interrupted work for the end of the search."""

    def steps(self) -> Steps:
        yield [{"d0": 10, "d1": 10}]
        self._clock.swallow_for_ever()
        return Outcome.EXHAUSTED


@pytest.mark.parametrize("kind", [Thinking, Claiming])
def test_what_comes_after_a_swallowed_exception_is_not_used(kind: type[Thinking]) -> None:
    space, clock = FlatProblem(2, 3, 1), Clock()
    thinking = SteppedStrategy(kind(clock))
    study = Study(space, factory=lambda _space, _seed: thinking, clock=clock)
    result = study.run(InProcessExecutor(space), Budget(seconds=0.2))
    assert [trial.assignment for trial in study.trials()] == [{"d0": 10, "d1": 10}]
    assert result.status is Status.BUDGET_SPENT
