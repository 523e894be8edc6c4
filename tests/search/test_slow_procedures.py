"""A procedure whose candidate takes long to measure comes after half of the time, and a search before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Measurement, Trial
from kilotune.search.study import Study
from kilotune.search.warm_start import GivenUp, ProcedureBefore, WarmStartedStrategy
from tests.search.test_warm_start import OneCandidate, WithProcedure


@dataclass(frozen=True)
class TakesLong(OneCandidate):
    """Its procedure proposes one candidate, which takes long to measure."""

    procedure_takes_long = True

    def fallback(self) -> Assignment:
        return {d.name: d.options[-1] for d in self.decisions}


class Recording:
    """A strategy that notes what it is told, and proposes what no procedure does."""

    outcome, bound = None, -math.inf

    def __init__(self) -> None:
        self.allowed: list[float] = []
        self.heard: list[int] = []

    def allow(self, seconds: float) -> None:
        self.allowed.append(seconds)

    def propose(self, count: int) -> list[Assignment]:
        return [{"d0": len(self.heard)}]

    def learn(self, trials: Sequence[Trial]) -> None:
        self.heard += [trial.number for trial in trials]


def test_a_strategy_has_half_of_the_time_before_a_procedure_that_takes_long() -> None:
    space, own, clock = TakesLong(3, 2, 5), Recording(), [0.0]
    strategy, found = WarmStartedStrategy(space, own), list[Assignment]()
    strategy.count_by(lambda: clock[0])
    for number in range(6):
        clock[0] = 2.0 * number
        strategy.allow(10.0 - clock[0])
        (proposed,) = strategy.propose(1)
        found.append(proposed)
        strategy.learn([Trial(number, proposed, Measurement({"loss": 1.0}))])
    answer = next(space.procedure())[0]
    assert found == [space.fallback(), {"d0": 0}, {"d0": 1}, answer, {"d0": 2}, {"d0": 3}]
    assert own.heard == [1, 2, 4, 5]
    assert own.allowed[1:4] == [8.0, 4.0, 6.0], "it is told when its turn ends, behind what the engine says"
    assert strategy.procedure is not None
    assert strategy.procedure.number == 3


def test_the_thought_that_was_given_up_is_expected_behind_a_search_that_comes_before_it() -> None:
    """A replay ends at that thought: what the search proposes again costs no budget."""
    space, clock = TakesLong(3, 2, 5), [0.0]
    strategy, expected = (
        WarmStartedStrategy(space, Recording(), ProcedureBefore(given_up=GivenUp(1, 0.1))),
        list[bool](),
    )
    strategy.count_by(lambda: clock[0])
    for number in range(5):
        clock[0] = 2.0 * number
        strategy.allow(10.0 - clock[0])
        expected.append(strategy.thinks_again)
        (proposed,) = strategy.propose(1)
        strategy.learn([Trial(number, proposed, Measurement({"loss": 1.0}))])
    assert expected == [False, False, False, True, False]


def test_a_budget_in_trials_begins_with_a_procedure_that_takes_long() -> None:
    space = TakesLong(12, 4, 5)
    study = Study(space, "random", procedure_first=True)
    study.run(InProcessExecutor(space), Budget(trials=10))
    assert [trial.assignment for trial in study.trials()][:2] == [space.fallback(), next(space.procedure())[0]]


def test_a_space_whose_procedure_is_short_has_it_before_the_strategy_whatever_the_budget() -> None:
    space = WithProcedure(12, 4, 5, pairs=9)
    strategy = WarmStartedStrategy(space, Recording())
    for candidate in (space.fallback(), next(space.procedure())[0]):
        strategy.allow(10.0)
        proposed = strategy.propose(1)
        strategy.learn([Trial(0, candidate, Measurement({"loss": 1.0}))])
        assert proposed == [candidate]
