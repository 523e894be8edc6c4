"""The search by a model of the candidates: bounds that end it, and the clock that it counts by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.space import (
    Assignment,
    ModelAnswer,
    SolveLimit,
    Trial,
)
from kilotune.search.strategies.random import all_candidates
from kilotune.search.strategy import make_strategy
from kilotune.search.study import Study
from tests.search.problems import FlatProblem
from tests.search.searching import best_rank, search


@dataclass(frozen=True)
class ExactModel:
    """Sorts all candidates by the true loss; `offset` is how far below the optimum it bounds."""

    space: Modelled
    offset: float

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        left = [c for c in all_candidates(self.space) if c not in excluded]
        left.sort(key=lambda c: (self.space.evaluate([c])[0].metrics["loss"], str(c)))
        bound = self.space.evaluate(left[:1])[0].metrics["loss"] - self.offset if left else math.inf
        return ModelAnswer(tuple(left[:count]), bound, exhausted=not left)


@dataclass(frozen=True)
class Modelled(FlatProblem):
    """A space with a model whose bound is exact or loose."""

    offset: float = 0.0

    def model(self, trials: Sequence[Trial]) -> ExactModel:
        return ExactModel(self, self.offset)


@pytest.mark.parametrize(("offset", "most"), [(0.0, 8), (100.0, 27)])
def test_cp_proves_the_optimum_by_the_models_bound_or_when_no_candidate_is_left(offset: float, most: int) -> None:
    space = Modelled(3, 3, 5, pairs=2, offset=offset)
    study, result = search(space, "cp")
    assert result.proved
    assert result.evaluations == most
    assert study.front.best_rank == best_rank(space)


@pytest.mark.parametrize("procedure_first", [False, True])
def test_solves_count_by_the_clock_of_the_budget(procedure_first: bool) -> None:
    limits: list[SolveLimit] = []

    class Recording(Modelled):
        def model(self, trials: Sequence[Trial]) -> ExactModel:
            outer = self

            class Model(ExactModel):
                def solve(
                    self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit
                ) -> ModelAnswer:
                    limits.append(limit)
                    return super().solve(count, excluded, seed, limit)

            return Model(outer, 0.0)

    def clock() -> float:
        return 5.0

    space = Recording(3, 3, 5, pairs=2)
    study = Study(space, "cp", 0, procedure_first=procedure_first, clock=clock)
    study.run(InProcessExecutor(space), Budget(seconds=7.0))
    assert limits
    assert all(limit.clock is clock and limit.seconds == 7.0 for limit in limits)


def test_cp_refuses_a_space_without_a_model() -> None:
    with pytest.raises(ValueError, match=r"'flat' has none\. For it there are"):
        make_strategy("cp", FlatProblem(2, 2, 1), 0)


@dataclass(frozen=True)
class SaysWhy(FlatProblem):
    """It has a way out."""

    why_no_model: str = "of letters: use numbers"


def test_cp_says_why_a_space_has_no_model() -> None:
    with pytest.raises(ValueError, match=r"'flat' has none of letters: use numbers\. For it there are"):
        make_strategy("cp", SaysWhy(2, 2, 1), 0)
