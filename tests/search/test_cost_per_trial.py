"""What the engine itself does for a trial, in calls of Python functions: these are the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from kilotune.evaluators.executors.cache import ENOUGH_QUICK, CachingExecutor, EvaluationCache
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.space import Measurement
from kilotune.search.store import Store
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

TRIALS = 8000
MOST_CALLS = 102
"""A trial; 90 where batches are of the usual size, which is found by the clock: a slow machine has smaller ones and some calls more. Twelve
of them rank the trial among those that a hurdle may be asked for (to keep all as objects until one is cost 2 kilobytes a trial). 93 before
keys of a cache that has nothing, SQLAlchemy's look at every value and dictionaries of every state were saved; five more find a
candidate among those that are kept in 40 bytes each (about 2 of 200 microseconds)."""


def test_a_trial_costs_few_calls(tmp_path: Path) -> None:
    request = request_from("shiftry", input="worked-example", strategy="exhaustive", limits=["flash=14"])
    space = build_problem(request).space
    study = Study.create(Store(str(tmp_path / "studies.db")), "counted", space, "exhaustive")
    executor = CachingExecutor(InProcessExecutor(space), space, EvaluationCache(tmp_path / "cache.db"))
    study.run(executor, Budget(trials=ENOUGH_QUICK * 4))  # imports, the kernel, the tables
    calls = 0

    def counted(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        result = study.run(executor, Budget(trials=TRIALS))
    finally:
        sys.setprofile(None)
        executor.close()
    assert result.new_evaluations == TRIALS
    assert calls / TRIALS < MOST_CALLS


class Looks(EvaluationCache):
    """Counts what is looked up."""

    looked_up = 0

    def find(self, keys: Sequence[str]) -> dict[str, Measurement]:
        self.looked_up += len(keys)
        return super().find(keys)


def test_where_candidates_are_measured_at_once_none_is_looked_up_after_a_while(tmp_path: Path) -> None:
    space, cache = FlatProblem(10, 4, 1, pairs=6), Looks(tmp_path / "cache.db")
    executor = CachingExecutor(InProcessExecutor(space), space, cache)
    result = Study(space, "random", 2).run(executor, Budget(trials=20 * ENOUGH_QUICK))
    executor.close()
    assert result.evaluations == 20 * ENOUGH_QUICK
    assert cache.looked_up < 10 * ENOUGH_QUICK
