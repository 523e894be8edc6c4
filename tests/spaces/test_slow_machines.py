"""With a budget in trials solvers answer the same on a slow machine: what ends them is their own count of their work.

The slow machine is a clock that is an hour further at every look.
"""

from __future__ import annotations

import itertools
import time

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Space
from kilotune.search.study import Study
from kilotune.spaces.memory.space import MemorySpace
from tests.spaces.memory.problems import random_instance

TRIALS = {"shiftry": 16, "memory": 1}


def searched(name: str) -> list[object]:
    space: Space = MemorySpace(random_instance(5, 40))
    if name != "memory":
        space = build_problem(request_from(name, input="worked-example", strategy="cp")).space
    study = Study(space, "cp")
    study.run(InProcessExecutor(space), Budget(trials=TRIALS[name]))
    return [(trial.assignment, trial.measurement) for trial in study.trials()]


@pytest.mark.parametrize("name", TRIALS)
def test_cp_finds_the_same_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    here, looks = searched(name), itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: 3600.0 * next(looks))
    assert here
    assert searched(name) == here


@pytest.mark.slow
def test_the_paper_s_mapping_is_the_same_on_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its solver had 15 s, and where these were over the procedure fell back to snake order."""
    space, looks = build_problem(request_from("cm", input="resnet20")).space, itertools.count()
    here = run_procedure(space)
    monkeypatch.setattr(time, "monotonic", lambda: 3600.0 * next(looks))
    there = run_procedure(space)
    assert here is not None
    assert there is not None
    assert here.metrics["longest_route_links"] == 2
    assert there.assignment == here.assignment
