"""No step of a search outlasts its budget or Ctrl-C, whatever it does; and what was abandoned leaves no trace.

Endless work is the test: what is not abandoned fails it. No time here is the machine's: budgets are of a clock that stands still until
somebody is inside work that does not end, and where a tick of the timer has to come, the test sends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.abandoning import TICK_S, Abandoned, Watch, abandonable, uninterrupted
from kilotune.search.budget import Budget
from kilotune.search.result import Result, Status
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.store import Store
from kilotune.search.strategy import Outcome, SteppedStrategy, Steps, Strategy, make_strategy
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow

HARD_END_S = 20.0
"""Of CPU: endless work gives up by itself, so that a broken mechanism fails a test instead of stopping the suite."""

LONG_S = 1000.0
"""What a clock of a test jumps by: beyond every budget here and what a step may take after it."""


class Clock:
    """Stands still until somebody is inside work that does not end, and is LONG_S further then."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def is_over(self) -> bool:
        """Whether somebody has been inside such work."""
        return self.now_s > 0.0

    def work_for_ever(self) -> None:
        """Until it is abandoned."""
        self.now_s = LONG_S
        end = time.process_time() + HARD_END_S
        while time.process_time() < end:
            sum(range(100))
        pytest.fail("nobody abandoned it")

    def swallow_for_ever(self) -> None:
        """What badly written code does: it goes on twice, then ends as if nothing had been."""
        for _ in range(3):
            with contextlib.suppress(Abandoned):
                self.work_for_ever()


def tick() -> None:
    """What the timer of a watch does."""
    signal.raise_signal(signal.SIGALRM)


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
def test_a_step_of_a_strategy_that_does_not_end_is_abandoned(where: str) -> None:
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


def test_work_that_ends_in_time_is_left_alone() -> None:
    asked: list[bool] = []

    def is_over() -> bool:
        asked.append(True)
        return False

    with abandonable(is_over) as stretch:
        tick()
        done = True
    assert (stretch.abandoned, done) == (False, True)
    assert asked


def test_nothing_is_abandoned_between_two_stretches() -> None:
    with Watch(lambda: True) as watch:
        tick()
        with watch.stretch() as stretch:
            Clock().work_for_ever()
        tick()
    assert stretch.abandoned


def test_the_timer_ticks_by_itself_and_again_after_what_was_swallowed() -> None:
    clock = Clock()
    with abandonable(clock.is_over) as stretch:
        clock.swallow_for_ever()
    assert stretch.abandoned


def test_a_write_inside_a_stretch_is_whole() -> None:
    written: list[int] = []
    clock = Clock()
    with abandonable(clock.is_over) as stretch, uninterrupted():
        written += [0]
        clock.now_s = LONG_S
        tick()
        written += [1]
    assert stretch.abandoned
    assert written == [0, 1]


def test_an_inner_stretch_ends_with_the_outer_one() -> None:
    reached, clock = False, Clock()
    with abandonable(clock.is_over) as outer:
        with abandonable(lambda: False):
            clock.work_for_ever()
        reached = True
    assert outer.abandoned
    assert not reached


def test_an_outer_stretch_goes_on_after_an_inner_one_was_abandoned() -> None:
    long, short = Clock(), Clock()
    with abandonable(long.is_over) as outer:
        with abandonable(short.is_over) as inner:
            short.work_for_ever()
        assert inner.abandoned
        assert not outer.abandoned
        long.work_for_ever()
    assert outer.abandoned


def test_other_exceptions_and_the_timer_of_others_are_left_as_they_were() -> None:
    """Theirs rings in an hour, less what has passed; a stretch that is abandoned lasts a tick at least."""
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: rung.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 3600.0)
        with pytest.raises(KeyError), abandonable(lambda: False):
            raise KeyError
        clock = Clock()
        with abandonable(clock.is_over):
            clock.work_for_ever()
        left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, 0.0)
        assert (0.0 < left_s < 3600.0 - TICK_S / 2, interval_s) == (True, 0.0)
        assert not rung
        tick()
        assert rung == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def convert_an_argument() -> None:
    """Time is over while ctypes converts one, as in finalisers of Z3."""
    argument = type("Argument", (), {"_as_parameter_": property(lambda _: tick())})()
    ctypes.pythonapi.Py_IncRef(argument)


@pytest.mark.parametrize("finalise", [tick, convert_an_argument])
def test_a_finaliser_that_swallows_it_is_silent(monkeypatch: pytest.MonkeyPatch, finalise: Callable[[], None]) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    class Finalised:
        def __del__(self) -> None:
            finalise()

    with abandonable(lambda: True) as stretch:
        thing = Finalised()
        del thing
        Clock().work_for_ever()
    assert stretch.abandoned
    assert not said


def test_the_finaliser_of_what_was_left_half_made_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    class HalfMade:
        def __init__(self) -> None:
            Clock().work_for_ever()
            self.held = 1

        def __del__(self) -> None:
            assert self.held

    with abandonable(lambda: True) as stretch:
        HalfMade()
    assert stretch.abandoned
    assert not said


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


def test_an_exception_that_it_became_on_its_way_ends_the_stretch_too() -> None:
    """ctypes makes an ArgumentError of what is raised while it converts an argument; it ended the command."""
    with abandonable(lambda: True) as stretch:
        try:
            Clock().work_for_ever()
        except BaseException as error:
            raise ValueError("converted") from error
    assert stretch.abandoned
    with pytest.raises(ValueError, match="its own"), abandonable(lambda: False):
        raise ValueError("its own")


def test_what_is_done_meanwhile_is_done_whole_and_once_at_a_time() -> None:
    """It writes to the store: torn apart behind its transaction it would write the same rows again."""
    over, begun, ended = False, 0, 0

    def meanwhile() -> None:
        nonlocal over, begun, ended
        begun += 1
        over = True  # as if the budget ended now
        time.sleep(3 * TICK_S)
        ended += 1

    with Watch(lambda: over, meanwhile) as watch, watch.stretch() as stretch:
        while True:
            time.sleep(TICK_S)
    assert stretch.abandoned
    assert begun == ended == 1


def test_an_inner_stretch_lets_the_outer_one_do_what_is_due_meanwhile() -> None:
    """A thought of the paper's procedure has a time of its own, and trials are written during it."""
    clock, done = Clock(), list[bool]()
    with Watch(lambda: False, lambda: done.append(True)) as watch, watch.stretch():
        with abandonable(lambda: bool(done)) as inner:
            clock.work_for_ever()
        assert inner.abandoned
    assert done
