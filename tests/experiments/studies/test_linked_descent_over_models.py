"""What is delivered within a limit on linked flash where a first decision says which model: each has formats and estimates of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.studies.command_time import never
from kilotune.experiments.studies.finished_finalists import MOST_FINISHED
from kilotune.experiments.studies.linked_descent import MOST_LINKED
from kilotune.experiments.studies.linked_finalists import MOST_LINKED as MOST_FINALISTS
from kilotune.experiments.studies.linked_finalists import linked_finalist
from kilotune.experiments.studies.storage import open_store
from kilotune.search.budget import Budget
from kilotune.search.flat_state import FlatState, FlatView
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Objective, Option, Trial
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

LIMIT, OPTIONS, COUNTS = 1000, 4, (5, 4, 3)
"""COUNTS: decisions of the models, of which the smaller ones have fewer."""

MODEL = "model"


@dataclass(frozen=True)
class Models:
    """Candidates of one model after the other: `worse` is added to the losses of each. What candidates of the first one, 0, have no word
    of is the model. The space is that of all."""

    seed: int
    worse: tuple[float, ...]
    name: str = "models"
    prefers_flat: bool = True
    objectives: tuple[Objective, ...] = (Objective("loss"),)
    constraints: tuple[Constraint, ...] = (Constraint("linked_bytes", LIMIT + 40),)

    @cached_property
    def parts(self) -> tuple[FlatProblem, ...]:
        return tuple(FlatProblem(count, OPTIONS, 10 * self.seed + k) for k, count in enumerate(COUNTS))

    @property
    def fingerprint(self) -> str:
        return repr(self)

    def decisions_of(self, model: int) -> tuple[Decision, ...]:
        first = (Decision(MODEL, (model,)),) if model else ()
        return (*first, *self.parts[model].decisions)

    def flat_view(self) -> FlatView:
        return FlatView(self, self.decisions_of(0), -math.inf)

    def flat_view_of(self, candidate: Assignment) -> FlatView:
        return FlatView(self, self.decisions_of(int(candidate.get(MODEL, 0))), -math.inf)

    def start(self) -> FlatState:
        return FlatState(self.decisions_of(0), -math.inf)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return dict(answers)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [self._measured(int(one.get(MODEL, 0)), one) for one in batch]

    def _measured(self, model: int, candidate: Assignment) -> Measurement:
        (found,) = self.parts[model].evaluate([candidate])
        size = 880 + round(4 * found.metrics["weight"] * COUNTS[0] / COUNTS[model])
        return Measurement({"linked_bytes": size, "loss": found.metrics["loss"] + 20.0 + self.worse[model]})

    def every(self, model: int) -> list[dict[str, Option]]:
        decisions = self.decisions_of(model)
        rows = itertools.product(*(decision.options for decision in decisions))
        return [dict(zip([decision.name for decision in decisions], row, strict=True)) for row in rows]


@dataclass
class Linking:
    """Programs of each model link to other bytes than estimated: to `off` more, and to more or fewer by the first answer."""

    space: Models
    off: tuple[int, ...]
    links: int = 0
    linked_limit_bytes: int | None = LIMIT

    def linked_bytes(self, trial: Trial) -> int:
        self.links += 1
        return self.bytes_of(trial.assignment)

    def bytes_of(self, candidate: Assignment) -> int:
        (found,) = self.space.evaluate([candidate])
        first = 2 * (int(candidate["d0"]) - 11)
        return int(found.metrics["linked_bytes"]) + self.off[int(candidate.get(MODEL, 0))] + first


def loss_of(space: Models, candidate: Assignment) -> float:
    return space.evaluate([candidate])[0].metrics["loss"]


def searched(space: Models, of_each: int, folder: Path) -> Study:
    """A study that has met some candidates of each model."""
    study = Study.create(open_store(f"sqlite:///{folder / 'studies.db'}"), "models", space, "random", 0, request={})
    study.run(InProcessExecutor(space), Budget(trials=of_each))
    number = len(study.trials())
    for model in range(1, len(COUNTS)):
        some = space.every(model)[:: max(1, OPTIONS ** COUNTS[model] // of_each)]
        for one, measured in zip(some, space.evaluate(some), strict=True):
            study.record(study.book.encoding.key(one), number, one, measured, 0.0)
            number += 1
    return study


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("off", [(-30, 25, 0), (30, -20, -30)])
@pytest.mark.parametrize("best", range(3))
def test_what_is_delivered_keeps_the_limit_and_no_change_in_its_model_is_better(
    seed: int, off: tuple[int, ...], best: int, tmp_path: Path
) -> None:
    """The losses of one model are far below the others', so that its candidates are the best of all by brute force."""
    space = Models(seed, tuple(0.0 if model == best else 12.0 for model in range(3)))
    problem, study = Linking(space, off), searched(space, 40, tmp_path)
    before = [trial for trial in study.trials() if problem.bytes_of(trial.assignment) <= LIMIT]
    found = linked_finalist(problem, study, study.result(), never)  # type: ignore[arg-type]
    assert found is not None
    delivered = found.result.best
    assert delivered is not None
    assert problem.links <= MOST_LINKED + MOST_FINISHED + MOST_FINALISTS
    assert problem.bytes_of(delivered.assignment) <= LIMIT
    within = [
        (loss_of(space, one), model)
        for model in range(3)
        for one in space.every(model)
        if problem.bytes_of(one) <= LIMIT
    ]
    assert delivered.assignment.get(MODEL, 0) == min(within)[1] == best
    neighbours = [
        {**delivered.assignment, decision.name: option}
        for decision in space.decisions_of(best)
        for option in decision.options
    ]
    kept = [loss_of(space, one) for one in neighbours if problem.bytes_of(one) <= LIMIT]
    assert delivered.metrics["loss"] == min(kept)
    assert delivered.metrics["loss"] <= min(trial.metrics["loss"] for trial in before)


def test_the_best_that_the_estimate_of_another_model_hides_is_linked(tmp_path: Path) -> None:
    """All finalists of the best model by estimate are beyond the limit, and those of the second one within it, also where they are said
    not to be."""
    space = Models(3, (0.0, 0.1, 40.0))
    problem, study = Linking(space, (400, -35, 0)), searched(space, 40, tmp_path)
    found = linked_finalist(problem, study, study.result(), never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.best is not None
    assert found.result.best.assignment[MODEL] == 1
    least = min(loss_of(space, one) for one in space.every(1) if problem.bytes_of(one) <= LIMIT)
    assert found.result.best.metrics["loss"] <= least + 0.5
    again = linked_finalist(problem, study, study.result(), never)  # type: ignore[arg-type]
    assert again is not None
    assert again.result.best == found.result.best
