"""A strategy that needs independent decisions searches a tree's flat view; what it claims there is not claimed of the tree."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.flat_state import FlatState, FlatView
from kilotune.search.space import Assignment, Decision, FlatSpace, Measurement, Objective, Option, State
from kilotune.search.strategy import make_strategy
from kilotune.search.study import Study

DIGITS = Decision("digit", (3, 2))
LETTERS = tuple(Decision(name, (5, 7, 9)) for name in "ab")


class Tree:
    """Candidates are one digit, or two letters of which the view knows; the best one, a digit, is not in the view."""

    name, fingerprint, constraints = "tree", "", ()
    objectives = (Objective("loss"),)

    def __init__(self, prefers_flat: bool) -> None:
        self.prefers_flat = prefers_flat

    def start(self) -> State:
        return FlatState((DIGITS,), -1.0)

    def flat_view(self) -> FlatView:
        return FlatView(self, LETTERS, -1.0)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return {name: answers[name] for name in ("digit", "a", "b") if name in answers}

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"loss": float(sum(map(int, candidate.values())))}) for candidate in batch]


def decided(strategy: str, prefers_flat: bool, trials: int = 100) -> tuple[set[str], Study]:
    space = Tree(prefers_flat)
    assert not isinstance(space, FlatSpace)
    study = Study(space, strategy)
    study.run(InProcessExecutor(space), Budget(trials=trials))
    return {name for trial in study.trials() for name in trial.assignment}, study


@pytest.mark.parametrize("strategy", ["tpe", "count_tpe", "optuna:RandomSampler"])
def test_samplers_see_the_flat_view(strategy: str) -> None:
    names, study = decided(
        strategy, prefers_flat=False, trials=8
    )  # of 9; Optuna proposes what it has seen again and again
    assert names == {"a", "b"}
    assert study.result().best is not None


@pytest.mark.parametrize("strategy", ["local", "random"])
def test_walks_see_it_where_the_space_prefers_it(strategy: str) -> None:
    assert decided(strategy, prefers_flat=True)[0] == {"a", "b"}
    assert decided(strategy, prefers_flat=False)[0] == {"digit"}


@pytest.mark.parametrize("strategy", ["exhaustive", "greedy"])
def test_what_proves_sees_the_whole_space(strategy: str) -> None:
    assert decided(strategy, prefers_flat=True)[0] == {"digit"}


def test_an_exhausted_view_is_no_proof() -> None:
    _, study = decided("random", prefers_flat=True)
    assert len(study.trials()) == 9
    assert study.result().best is not None
    assert not study.is_proved()
    _, whole = decided("random", prefers_flat=False)
    assert whole.is_proved()


def test_a_flat_space_is_searched_as_it_is() -> None:
    view = Tree(True).flat_view()
    strategy = make_strategy("tpe", view, 0)
    assert {name for candidate in strategy.propose(4) for name in candidate} == {"a", "b"}
