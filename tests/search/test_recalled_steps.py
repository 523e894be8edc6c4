"""A search that is resumed thinks nothing twice, and comes to what it would have come to without a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Measurement, Objective, Trial
from kilotune.search.strategies.tpe import OptunaSearch
from kilotune.search.study import Study
from kilotune.search.work_memory import NoMemory, RecalledSteps, WorkMemory
from tests.search.problems import FlatProblem, KeptTexts, TreeProblem


class Flat(FlatProblem):
    work_memory: WorkMemory = NoMemory()

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        found = super().evaluate(batch)
        return [Measurement({}, "No.") if one["d0"] == 11 else m for one, m in zip(batch, found, strict=True)]


class Tree(TreeProblem):
    work_memory: WorkMemory = NoMemory()


def trials_with(space: Flat | Tree, memory: WorkMemory, count: int) -> list[Trial]:
    object.__setattr__(space, "work_memory", memory)
    study = Study(space, "tpe", 3)
    study.run(InProcessExecutor(space), Budget(trials=count))
    return list(study.trials())


@pytest.mark.parametrize(
    "space",
    [Flat(10, 4, 2, pairs=5, objectives=(Objective("loss"), Objective("cost"))), Tree(7, 5, 3)],
    ids=["flat", "tree"],
)
def test_tpe_asks_for_no_batch_twice(space: Flat | Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after it has forgotten old trials, and where candidates failed."""
    monkeypatch.setattr("kilotune.search.strategies.tpe.LONGEST_HISTORY", 40)
    monkeypatch.setattr("kilotune.search.strategies.tpe.SHORTENED_HISTORY", 20)
    whole = trials_with(space, NoMemory(), 120)
    memory = KeptTexts()
    assert trials_with(space, memory, 90) == whole[:90]
    batches = len(memory.texts)
    times, ask = [0], OptunaSearch._ask

    def counted(self: OptunaSearch) -> Any:
        times[0] += 1
        return ask(self)

    monkeypatch.setattr(OptunaSearch, "_ask", counted)
    assert trials_with(space, memory, 90) == whole[:90]
    assert (times, len(memory.texts)) == ([0], batches)
    assert trials_with(space, memory, 120) == whole
    assert times[0] == 8 * (len(memory.texts) - batches) > 0


def test_a_step_is_made_again_after_other_measurements() -> None:
    memory = KeptTexts()

    def step(losses: Sequence[float], seed: int = 0, number: int = 1) -> int:
        steps = RecalledSteps(memory, ["some search", seed])
        steps.take_in(losses)
        steps.recalled(number, lambda: [number])
        return len(memory.texts)

    assert step([1.0, 2.0]) == 1
    assert step([1.0, 2.0]) == 1
    assert step([1.0, 2.5]) == 2
    assert step([1.0, 2.0], seed=1) == 3
    assert step([1.0, 2.0], number=2) == 4
