"""What a worker carries from one run to the next."""

from __future__ import annotations

import functools
import gc
import importlib
import multiprocessing
import pkgutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from kilotune.experiments.comparison import running
from kilotune.experiments.comparison.plan import Case, ComparisonPlan, RunKey
from kilotune.experiments.comparison.running import forget_intermediate_results
from kilotune.search.result import Status
from kilotune.search.space import Assignment, Measurement
from kilotune.search.store import Store
from kilotune.spaces.reverse_split.bounds import chain_length
from kilotune.spaces.reverse_split.native import load_kernel
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow


def test_a_run_finds_nothing_that_an_earlier_one_has_computed() -> None:
    chain_length(5, 0)
    load_kernel()
    assert chain_length.cache_info().currsize > 0
    forget_intermediate_results()
    assert chain_length.cache_info().currsize == 0
    assert load_kernel.cache_info().currsize == 1  # loading a library is no part of a search


def test_every_cache_of_intermediate_results_is_found() -> None:
    """One inside a class or a function would be missed."""
    for folder in ("codegen", "evaluators", "search", "spaces"):
        package = importlib.import_module(f"kilotune.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations" not in module.name:  # scripts of Alembic, which no run imports
                importlib.import_module(module.name)
    caches = [
        thing
        for thing in gc.get_objects()
        if isinstance(thing, type(functools.cache(str)))
        and str(thing.__module__).startswith("kilotune.")
        and thing.cache_parameters()["maxsize"] is not None
    ]
    assert len(caches) > 8
    hidden = [
        c for c in caches if all(c is not thing for thing in vars(importlib.import_module(c.__module__)).values())
    ]
    assert hidden == []


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
    monkeypatch.setattr(running, "build_problem", lambda request: SimpleNamespace(space=space))
    monkeypatch.setattr(running, "_warm_up", lambda request: None)
    monkeypatch.setattr(running, "forget_intermediate_results", lambda: None)
    plan = ComparisonPlan((Case("toy", "shiftry", "protonn-digits", ("exhaustive",)),), 1, "20s")
    store = Store(str(tmp_path / "studies.db"))
    ours, theirs = multiprocessing.Pipe()
    ours.send(None)
    running._make(theirs, store, "c", plan, RunKey(0, "exhaustive", 0))
    (study,) = store.studies()
    assert study.status == Status.INTERRUPTED.value
    assert not [thread for thread in threading.enumerate() if thread.name == "stop of a run"]
