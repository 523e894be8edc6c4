"""A study that begins with the paper's procedure is never worse than it, and goes on as it began."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.abandoning import TICK_S
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Measurement, Procedure, Trial
from kilotune.search.store import Store, StoreError
from kilotune.search.strategy import make_strategy
from kilotune.search.study import Study
from kilotune.search.warm_start import GivenUp, ProcedureBefore, WarmStartedStrategy
from tests.search.problems import FlatProblem


@dataclass(frozen=True)
class WithProcedure(FlatProblem):
    """Its procedure improves one decision after the other, and says its answer again at the end."""

    def fallback(self) -> Assignment:
        return {d.name: d.options[-1] for d in self.decisions}

    def procedure(self) -> Procedure:
        best = {d.name: d.options[0] for d in self.decisions}
        for decision in self.decisions:
            trials = yield [{**best, decision.name: option} for option in decision.options]
            best = dict(min(trials, key=lambda trial: trial.measurement.metrics["loss"]).assignment)
        yield [best]


SPACE = WithProcedure(12, 4, 5, pairs=9)


@pytest.mark.parametrize("strategy", ["random", "local", "tpe", "count_tpe", "greedy", "refine", "exhaustive"])
def test_no_strategy_is_worse_than_the_procedure(strategy: str) -> None:
    answer = run_procedure(SPACE)
    assert answer is not None
    study = Study(SPACE, strategy, procedure_first=True)
    result = study.run(InProcessExecutor(SPACE), Budget(trials=60))
    assert result.best is not None
    assert result.best.metrics["loss"] <= answer.metrics["loss"]
    assert study.procedure is not None
    assert study.procedure.assignment == answer.assignment
    without = Study(SPACE, strategy)
    without.run(InProcessExecutor(SPACE), Budget(trials=60))
    assert without.procedure is None
    if strategy in ("random", "exhaustive"):
        assert without.front.best_rank[1] > answer.metrics["loss"]  # so the assertion above asks for something


def test_it_begins_with_the_fallback_then_the_procedure_then_what_the_strategy_would_have_begun_with() -> None:
    study, plain = Study(SPACE, "random", 3, procedure_first=True), Study(SPACE, "random", 3)
    study.run(InProcessExecutor(SPACE), Budget(trials=120))
    plain.run(InProcessExecutor(SPACE), Budget(trials=60))
    found = [trial.assignment for trial in study.trials()]
    assert found[0] == SPACE.fallback()
    first = {d.name: d.options[0] for d in SPACE.decisions}
    assert found[1:5] == [{**first, "d0": option} for option in SPACE.decisions[0].options]
    theirs = [trial.assignment for trial in plain.trials()]
    at = found.index(theirs[0])
    assert at == 1 + 12 * 4 - 11  # duplicates of what is known are no trials: the incumbent in eleven batches
    assert found[at : at + 60] == theirs


def test_a_procedure_that_the_budget_cut_short_has_no_answer() -> None:
    study = Study(SPACE, "random", procedure_first=True)
    study.run(InProcessExecutor(SPACE), Budget(trials=20))
    assert study.procedure is None
    study.run(InProcessExecutor(SPACE), Budget(trials=60))
    assert study.procedure is not None


@dataclass(frozen=True)
class OneCandidate(FlatProblem):
    """Its procedure proposes one candidate, and may think for long after it."""

    thinks_after: bool = False

    def procedure(self) -> Procedure:
        yield [{d.name: d.options[0] for d in self.decisions}]
        if self.thinks_after:
            time.sleep(30)
            pytest.fail("it was waited for")


def test_a_procedure_that_the_budget_just_sufficed_for_has_ended(tmp_path: Path) -> None:
    space, store = OneCandidate(3, 2, 5), Store(str(tmp_path / "studies.db"))
    study = Study.create(store, "just", space, "random", 0, procedure_first=True)
    study.run(InProcessExecutor(space), Budget(trials=1))
    assert study.procedure_ended
    assert study.procedure == study.trials()[0]
    assert store.study("just").request["procedure"]["ended"]


def test_a_procedure_that_would_think_on_after_the_budget_has_not_ended() -> None:
    space = OneCandidate(3, 2, 5, thinks_after=True)
    study = Study(space, "random", procedure_first=True)
    study.run(InProcessExecutor(space), Budget(seconds=0.2, trials=1))
    assert not study.procedure_ended
    assert study.procedure is None


@pytest.mark.parametrize("first", [True, False])
def test_a_resumed_study_goes_on_as_it_began(tmp_path: Path, first: bool) -> None:
    whole = Study(SPACE, "local", 3, procedure_first=first)
    whole.run(InProcessExecutor(SPACE), Budget(trials=130))
    store = Store(str(tmp_path / "studies.db"))
    cut = Study.create(store, "cut", SPACE, "local", 3, procedure_first=first)
    cut.run(InProcessExecutor(SPACE), Budget(trials=17))
    for _ in range(2):
        cut = Study.resume(store, "cut", SPACE, procedure_first=first)
        cut.run(InProcessExecutor(SPACE), Budget(trials=50 if len(cut.book) == 17 else 63))
    assert cut.trials() == whole.trials()


@dataclass(frozen=True)
class WithoutAnswer(WithProcedure):
    """Its procedure gives up."""

    def procedure(self) -> Procedure:
        yield from ()


def test_the_fallback_is_not_the_answer_of_a_procedure_that_has_none() -> None:
    space = WithoutAnswer(12, 4, 5, pairs=9)
    study = Study(space, "random", procedure_first=True)
    study.run(InProcessExecutor(space), Budget(trials=10))
    assert study.trials()[0].assignment == space.fallback()
    assert study.procedure is None


class WithSlowFallback(WithProcedure):
    """Its fallback takes longer than the timer that ends thoughts."""

    def fallback(self) -> Assignment:
        threading.Event().wait(2.5 * TICK_S)
        return super().fallback()


def test_a_fallback_is_measured_where_the_time_is_over_before_it_is_made() -> None:
    space = WithSlowFallback(12, 4, 5, pairs=9)
    study = Study(space, "random", procedure_first=True)
    study.run(InProcessExecutor(space), Budget(seconds=1e-3), first_answer_s=1000.0)
    assert study.trials()[0].assignment == space.fallback()


class WithSlowProcedure(WithProcedure):
    """Its procedure takes longer than the timer that ends thoughts; no fallback. It promises an answer all the same."""

    answers_always = True

    def fallback(self) -> None:  # type: ignore[override]
        return None

    def procedure(self) -> Procedure:
        threading.Event().wait(2.5 * TICK_S)
        yield from super().procedure()


def test_a_procedure_is_measured_where_a_space_promises_an_answer() -> None:
    space = WithSlowProcedure(12, 4, 5, pairs=9)
    study = Study(space, "random", procedure_first=True)
    study.run(InProcessExecutor(space), Budget(seconds=1e-3), first_answer_s=math.inf)
    assert [trial.assignment for trial in study.trials()] == [next(WithProcedure.procedure(space))[0]]


@dataclass(frozen=True)
class WithShortSearch(WithProcedure):
    """Its short search takes `seconds`."""

    seconds: float = 0.0

    def short_search(self) -> Assignment:
        threading.Event().wait(self.seconds)
        return {d.name: d.options[1] for d in self.decisions}


@pytest.mark.parametrize("budget", [Budget(trials=10), Budget(seconds=1.0)])
def test_what_a_short_search_finds_comes_between_the_fallback_and_the_procedure(budget: Budget) -> None:
    space = WithShortSearch(12, 4, 5, pairs=9)
    study = Study(space, "random", procedure_first=True)
    study.run(InProcessExecutor(space), budget)
    found = [trial.assignment for trial in study.trials()]
    assert found[:2] == [space.fallback(), space.short_search()]
    assert found[2] == next(space.procedure())[0]


def test_a_short_search_that_takes_too_long_is_given_up_for_the_procedure() -> None:
    space = WithShortSearch(12, 4, 5, pairs=9, seconds=1000.0)
    study = Study(space, "random", procedure_first=True)
    study.run(InProcessExecutor(space), Budget(seconds=1.0))
    found = [trial.assignment for trial in study.trials()]
    assert found[0] == space.fallback()
    assert found[1] == next(space.procedure())[0]
    assert study.procedure is not None, "the procedure comes to its end"


@dataclass(frozen=True)
class ThinksForGood(WithProcedure):
    """Its procedure never comes to its second proposal."""

    def procedure(self) -> Procedure:
        yield [{d.name: d.options[0] for d in self.decisions}]
        threading.Event().wait()


def test_a_procedure_that_thinks_for_too_long_leaves_time_for_the_strategy() -> None:
    space = ThinksForGood(12, 4, 5, pairs=9)
    study = Study(space, "random", 3, procedure_first=True)
    study.run(InProcessExecutor(space), Budget(seconds=1.0))
    plain = Study(space, "random", 3)
    plain.run(InProcessExecutor(space), Budget(trials=5))
    found = [trial.assignment for trial in study.trials()]
    assert found[0] == space.fallback()
    assert found[2:7] == [trial.assignment for trial in plain.trials()]
    assert (study.procedure, study.procedure_ended) == (None, False)
    assert study.procedure_given_up is not None
    assert study.procedure_given_up.proposed == 2
    assert 0.0 < study.procedure_given_up.seconds <= 0.5


@dataclass(frozen=True)
class ThinksInSteps(WithProcedure):
    """Its procedure takes ten seconds of `clock`, which nothing else moves, for its second proposal."""

    clock: list[float] = field(default_factory=lambda: [0.0], repr=False)

    def procedure(self) -> Procedure:
        best = {d.name: d.options[0] for d in self.decisions}
        yield [best]
        self.clock[0] += 10.0
        time.sleep(3 * TICK_S)  # so that the engine has looked at the clock
        yield [{**best, "d0": self.decisions[0].options[1]}]


def test_a_resumed_study_takes_up_a_thought_that_was_given_up_where_there_is_more_time_and_counts_it(
    tmp_path: Path,
) -> None:
    store, clock = Store(str(tmp_path / "studies.db")), [0.0]
    space = ThinksInSteps(12, 4, 5, pairs=9, clock=clock)
    study = Study.create(store, "s", space, "random", 3, procedure_first=True, clock=lambda: clock[0])

    def run(seconds: float) -> tuple[float, float, bool]:
        """How long it thought, what the budget counted of it, and whether the procedure ended."""
        study, before_s = (
            Study.resume(store, "s", space, procedure_first=True, clock=lambda: clock[0]),
            clock[0],
        )
        course = study.run(InProcessExecutor(space), Budget(seconds, 10)).course
        assert course is not None
        assert course.trials == 10
        return clock[0] - before_s, course.seconds, study.procedure_ended

    study.run(InProcessExecutor(space), Budget(12.0, 10))
    assert study.procedure_given_up == GivenUp(2, 6.0)
    assert run(12.0) == (0.0, 0.0, False)
    assert run(19.0) == (10.0, 10.0, False)  # and 9.5 of them were not enough
    assert run(19.0) == (0.0, 0.0, False)
    assert run(30.0) == (10.0, 10.0, True)
    assert run(12.0) == (10.0, 0.0, True)  # a replay
    numbers = [trial.number for trial in store.trials("s")]
    assert sorted(numbers) == list(range(60))


@dataclass(frozen=True)
class WithTwoThoughts(WithProcedure):
    """A short search that ends at once where it `is_short` and otherwise never, before a procedure that thinks for good over its first
    proposal."""

    is_short: bool = True

    def short_search(self) -> Assignment:
        if not self.is_short:
            threading.Event().wait()
        return {d.name: d.options[1] for d in self.decisions}

    def procedure(self) -> Procedure:
        threading.Event().wait()
        yield []


def test_a_short_search_has_its_turn_again_where_the_procedure_stays_given_up() -> None:
    """Whether it ended in time before says nothing of where the procedure was given up."""
    before = GivenUp(1, 1.0)
    for is_short in (True, False):
        space = WithTwoThoughts(12, 4, 5, pairs=9, is_short=is_short)
        strategy = WarmStartedStrategy(space, make_strategy("random", space, 0), ProcedureBefore(given_up=before))
        strategy.allow(0.4)
        assert strategy.propose(1) == [space.fallback()]
        strategy.learn([Trial(0, space.fallback(), Measurement({"m": 1.0}))])
        found = {d.name: d.options[1] for d in space.decisions}
        proposed = strategy.propose(1)
        assert (proposed == [found]) == is_short
        if is_short:
            strategy.learn([Trial(1, found, Measurement({"m": 1.0}))])
            proposed = strategy.propose(1)
        assert proposed, "the strategy goes on"
        assert strategy.given_up == before, "and the procedure is as it was"
        assert not strategy.procedure_ended


@pytest.mark.parametrize("kept", [None, [], "x", {"given_up": {"proposed": 1}}, {"given_up": 3}, {"ended": "yes"}])
def test_what_no_run_has_kept_of_a_procedure_is_a_damaged_study(tmp_path: Path, kept: object) -> None:
    store, space = Store(str(tmp_path / "studies.db")), FlatProblem(3, 2, 1)
    study = Study.create(store, "s", space, "random", 0, request={"procedure": kept}, procedure_first=True)
    with pytest.raises(
        StoreError,
        match=r"^Study 's' is damaged: 'procedure' of its request: expected how far a procedure came, found ",
    ):
        study.run(InProcessExecutor(space), Budget(trials=1))
