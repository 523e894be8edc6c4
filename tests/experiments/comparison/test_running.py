"""What a worker carries from one run to the next, and what ends a run."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import optuna  # noqa: F401 - it keeps the frames of whoever imports it first, and all that they hold
import pytest

from kilotune.experiments.comparison import run_worker
from kilotune.experiments.comparison.plan import Case, ComparisonPlan, RunKey
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.result import Status
from kilotune.search.space import Assignment, Measurement
from kilotune.search.store import Store
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("space", "name", "strategy"),
    [("reverse-split", "sobel", "exhaustive"), ("cm", "lenet5", "local"), ("shiftry", "protonn-digits", "tpe")],
)
def test_a_run_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: str, name: str, strategy: str
) -> None:
    """Neither memory nor anything that a later run would find computed: its space and what belongs to that are gone."""
    spaces: list[weakref.ref[object]] = []

    def remembered(request: TuneRequest) -> Problem:
        problem = build_problem(request)
        spaces.append(weakref.ref(problem.space))
        return problem

    monkeypatch.setattr(run_worker, "build_problem", remembered)
    run_worker._warm_up.cache_clear()
    request = request_from(space, input=name)
    plan = ComparisonPlan((Case("one", space, request.input, (strategy,), request.options),), 1, "20trials,2s")
    store = Store(str(tmp_path / "studies.db"))
    _ours, theirs = multiprocessing.Pipe()
    run_worker._make(theirs, store, "c", plan, RunKey(0, strategy, 0))
    gc.collect()
    assert sum(study.trials for study in store.studies()) > 1
    assert [space() for space in spaces] == [None, None]  # of the warm-up and of the run


@dataclass(frozen=True)
class Endless(FlatProblem):
    """Its second candidate takes for ever."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        while batch[0]["d0"] == 1:
            sum(range(1000))
        return super().evaluate(batch)


def test_a_worker_hears_ctrl_c_in_the_middle_of_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It heard it at its next report, which an evaluation of a minute holds up for a minute."""
    space = Endless(8, 3, 1)
    monkeypatch.setattr(run_worker, "build_problem", lambda request: SimpleNamespace(space=space))
    monkeypatch.setattr(run_worker, "_warm_up", lambda request: None)
    plan = ComparisonPlan((Case("toy", "shiftry", "protonn-digits", ("exhaustive",)),), 1, "20s")
    store = Store(str(tmp_path / "studies.db"))
    ours, theirs = multiprocessing.Pipe()
    ours.send(None)
    run_worker._make(theirs, store, "c", plan, RunKey(0, "exhaustive", 0))
    (study,) = store.studies()
    assert study.status == Status.INTERRUPTED.value
    assert not [thread for thread in threading.enumerate() if thread.name == "stop of a run"]
