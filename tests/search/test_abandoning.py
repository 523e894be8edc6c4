"""No step of a search outlasts its budget or Ctrl-C, whatever it does; and what was abandoned leaves no trace.

Endless work is the test: what is not abandoned fails it.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.abandoning import Abandoned, Watch, abandonable, uninterrupted
from kilotune.search.budget import Budget
from kilotune.search.result import Result, Status
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.store import Store
from kilotune.search.strategy import Outcome, SteppedStrategy, Strategy, make_strategy
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow

HARD_END_S = 20.0
"""Of CPU: endless work gives up by itself, so that a broken mechanism fails a test instead of stopping the suite."""


def work_for_ever() -> None:
    end = time.process_time() + HARD_END_S
    while time.process_time() < end:
        sum(range(100))
    pytest.fail("nobody abandoned it")


def swallow_for_ever() -> None:
    """What badly written code does."""
    end = time.process_time() + HARD_END_S
    while time.process_time() < end:
        try:
            work_for_ever()
        except BaseException:
            if time.process_time() > end - HARD_END_S + 0.3:
                return
    pytest.fail("nobody abandoned it")


@dataclass(frozen=True)
class Slow(FlatProblem):
    """The evaluation of the candidates with this answer to the first decision does not end."""

    trap: int = 12
    work: Callable[[], None] = work_for_ever

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        if any(candidate["d0"] == self.trap for candidate in batch):
            self.work()
        return super().evaluate(batch)


class Stuck:
    """A strategy that never comes back from one of its steps, after some proposals."""

    outcome: Outcome | None = None
    bound = -math.inf

    def __init__(self, space: FlatProblem, seed: int, where: str, after: int = 3) -> None:
        if where == "making":
            work_for_ever()
        self._random, self._where, self._left = make_strategy("random", space, seed), where, after

    def propose(self, count: int) -> list[Assignment]:
        self._left -= 1
        if self._where == "propose" and self._left < 0:
            work_for_ever()
        return self._random.propose(count)

    def learn(self, trials: Sequence[Trial]) -> None:
        if self._where == "learn" and self._left < 0:
            work_for_ever()
        self._random.learn(trials)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["making", "propose", "learn"])
def test_a_step_of_a_strategy_that_does_not_end_is_abandoned(where: str) -> None:
    space = FlatProblem(20, 4, 1)
    study = Study(space, factory=lambda space, seed: Stuck(space, seed, where))
    result = study.run(InProcessExecutor(space), Budget(seconds=0.5))
    assert result.status is Status.BUDGET_SPENT
    assert result.evaluations == (0 if where == "making" else 3 * 64 if where == "propose" else 4 * 64)


@pytest.mark.parametrize("work", [work_for_ever, swallow_for_ever])
def test_an_evaluation_that_does_not_end_is_abandoned_and_not_recorded(work: Callable[[], None]) -> None:
    space = Slow(6, 3, 1, work=work)
    study = Study(space, "random")
    result = study.run(InProcessExecutor(space), Budget(seconds=0.5))
    assert result.status is Status.BUDGET_SPENT
    assert result.evaluations > 0 or study.trials() == []
    assert all(trial.assignment["d0"] != 12 and trial.measurement.failure is None for trial in study.trials())


def test_it_is_the_study_s_clock_that_says_when() -> None:
    """One that is an hour further at every look."""
    space, looks = Slow(6, 3, 1), itertools.count()
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
    space = FlatProblem(6, 3, 1)
    study = Study(space, factory=lambda space, seed: Stuck(space, seed, "making"))
    result = study.run(InProcessExecutor(space), Budget(seconds=0.1), first_answer_s=0.3)
    assert (result.status, result.evaluations) == (Status.BUDGET_SPENT, 0)


def test_ctrl_c_does_not_wait_for_an_evaluation() -> None:
    space = Slow(6, 3, 1)
    study = Study(space, "random")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    result = study.run(InProcessExecutor(space))
    assert result.status is Status.INTERRUPTED


def test_a_study_whose_evaluation_was_abandoned_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    space, slow = FlatProblem(6, 3, 1), Slow(6, 3, 1)
    assert slow.fingerprint != space.fingerprint
    object.__setattr__(slow, "name", space.name)
    whole = Study(space, "local", 4)
    whole.run(InProcessExecutor(space), Budget(trials=200))
    store = Store(str(tmp_path / "studies.db"))
    cut = Study.create(store, "cut", space, "local", 4)
    first = cut.run(InProcessExecutor(slow), Budget(seconds=0.3))
    assert (first.status, first.evaluations < 200) == (Status.BUDGET_SPENT, True)
    resumed = Study.resume(store, "cut", space)
    resumed.run(InProcessExecutor(space), Budget(trials=200 - first.evaluations))
    assert resumed.trials() == whole.trials()


def test_off_the_main_thread_the_clock_is_looked_at_between_steps() -> None:
    space = FlatProblem(20, 4, 1, sleep_s=0.01)
    found: list[Result] = []

    def search() -> None:
        found.append(Study(space, "random").run(InProcessExecutor(space), Budget(seconds=0.3)))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join(10.0)
    assert [result.status for result in found] == [Status.BUDGET_SPENT]


def over_after(seconds: float) -> Callable[[], bool]:
    end = time.process_time() + seconds
    return lambda: time.process_time() >= end


def test_work_that_ends_in_time_is_left_alone() -> None:
    with abandonable(over_after(60.0)) as stretch:
        total = sum(range(1000))
    assert (stretch.abandoned, total) == (False, 499500)


def test_nothing_is_abandoned_between_two_stretches() -> None:
    with Watch(lambda: True) as watch:
        end = time.process_time() + 0.4
        while time.process_time() < end:
            sum(range(100))
        with watch.stretch() as stretch:
            work_for_ever()
    assert stretch.abandoned


def test_a_write_inside_a_stretch_is_whole() -> None:
    written: list[int] = []
    with abandonable(lambda: True) as stretch:
        while True:
            with uninterrupted():
                written += [0]
                end = time.process_time() + 0.3
                while time.process_time() < end:
                    sum(range(100))
                written += [1]
    assert stretch.abandoned
    assert written == [0, 1]


def test_an_inner_stretch_ends_with_the_outer_one() -> None:
    reached = False
    with abandonable(over_after(0.2)) as outer:
        with abandonable(over_after(60.0)):
            work_for_ever()
        reached = True
    assert outer.abandoned
    assert not reached


def test_an_outer_stretch_goes_on_after_an_inner_one_was_abandoned() -> None:
    with abandonable(over_after(0.8)) as outer:
        with abandonable(over_after(0.2)) as inner:
            work_for_ever()
        assert inner.abandoned
        work_for_ever()
    assert outer.abandoned


def test_other_exceptions_and_the_timer_of_others_are_left_as_they_were() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: rung.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyError), abandonable(lambda: False):
            raise KeyError
        with abandonable(over_after(0.05)):
            work_for_ever()
        assert not rung
        time.sleep(0.6)
        assert rung == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_finaliser_that_swallows_it_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    class Finalised:
        def __del__(self) -> None:
            end = time.process_time() + 0.3
            while time.process_time() < end:
                sum(range(100))

    with abandonable(lambda: True) as stretch:
        thing = Finalised()
        del thing
        work_for_ever()
    assert stretch.abandoned
    assert "Abandoned" not in capsys.readouterr().err


def test_it_is_no_failure_of_a_candidate() -> None:
    assert not issubclass(Abandoned, Exception)


class Thinking:
    """Straight-line code that swallows the exception and then goes on as if nothing had been."""

    bound = -math.inf

    def steps(self) -> Iterator[list[Assignment]]:
        yield [{"d0": 10, "d1": 10}]
        swallow_for_ever()
        yield [{"d0": 11, "d1": 10}]


def test_what_comes_after_a_swallowed_exception_is_not_used() -> None:
    space = FlatProblem(2, 3, 1)
    study = Study(space, factory=lambda _space, _seed: SteppedStrategy(Thinking()))  # type: ignore[arg-type]
    result = study.run(InProcessExecutor(space), Budget(seconds=0.2))
    assert [trial.assignment for trial in study.trials()] == [{"d0": 10, "d1": 10}]
    assert result.status is Status.BUDGET_SPENT


def test_an_exception_that_it_became_on_its_way_ends_the_stretch_too() -> None:
    """ctypes makes an ArgumentError of what is raised while it converts an argument; it ended the command."""
    over_s = time.monotonic() + 0.1
    with abandonable(lambda: time.monotonic() > over_s) as stretch:
        try:
            while True:
                sum(range(1000))
        except BaseException as error:
            raise ValueError("converted") from error
    assert stretch.abandoned
    with pytest.raises(ValueError, match="its own"), abandonable(lambda: False):
        raise ValueError("its own")
