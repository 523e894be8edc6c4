"""What is said where narrow parameters make a larger program."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from kilotune.evaluators.device import Device
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.on_device import DeviceMeasurement
from kilotune.evaluators.simulated import SimulatedRun, Sizes
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.problem import device_of
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.experiments.studies.tuning import TuneOutcome, conclude
from kilotune.experiments.terminal.summary import print_summary
from kilotune.experiments.terminal.whole_programs import larger_program
from kilotune.search.budget import Budget
from kilotune.search.study import Study


def checked(device: Device, linked: int | None) -> DeviceCheck:
    if linked is None:
        return DeviceCheck(device, None, None, (), "Not built.")
    run = SimulatedRun(np.zeros((1, 1), np.int64), np.array([1000]), 20)
    found = DeviceMeasurement(device, "-Os", 1, Sizes(linked, 100, 10), run)
    return DeviceCheck(device, None, found, (found,), None)


@pytest.fixture(scope="module")
def concluded() -> TuneOutcome:
    problem = build_problem(request_from("shiftry", input="worked-example", device="uno"))
    study = Study(problem.space, "refine", seed=1)
    result = study.run(InProcessExecutor(problem.space), Budget(trials=60))
    return conclude(problem, study, result, is_over=lambda: True)


def with_bytes(outcome: TuneOutcome, best: float, procedure: float) -> TuneOutcome:
    trial = outcome.result.best
    assert trial is not None
    trials = [
        dataclasses.replace(
            trial,
            measurement=dataclasses.replace(trial.measurement, metrics={**trial.metrics, "flash_bytes": counted}),
        )
        for counted in (best, procedure)
    ]
    found, paper = (
        dataclasses.replace(outcome.result, best=trials[0]),
        dataclasses.replace(outcome.paper, answer=trials[1]),
    )
    return dataclasses.replace(outcome, result=found, paper=paper)


def built(outcome: TuneOutcome, best: int | None, procedure: int | None) -> TuneOutcome:
    device = device_of(outcome.problem)
    assert device is not None
    return dataclasses.replace(
        outcome, device_check=checked(device, best), procedure_device_check=checked(device, procedure)
    )


@pytest.mark.parametrize(
    ("counted", "linked", "said"),
    [
        ((896, 1210), (2686, 2208), True),
        ((896, 1210), (2208, 2208), False),
        ((1210, 1210), (2686, 2208), False),
        ((896, 1210), (2686, None), False),
        ((896, 1210), (None, 2208), False),
    ],
)
def test_more_bytes_as_linked_for_fewer_as_counted_are_said(
    concluded: TuneOutcome, counted: tuple[int, int], linked: tuple[int | None, int | None], said: bool
) -> None:
    outcome = built(with_bytes(concluded, *counted), *linked)
    shown = io.StringIO()
    print_summary(outcome, Console(file=shown, width=400))
    wanted = "Than the paper's procedure, the whole program takes 478 bytes of flash more, though the search counts 314 fewer"
    assert (wanted in shown.getvalue()) == said


def test_where_the_whole_program_has_a_limit_nothing_is_said(
    concluded: TuneOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = built(with_bytes(concluded, 896, 1210), 2686, 2208)
    assert larger_program(outcome) is not None
    monkeypatch.setattr(type(outcome.problem), "linked_limit_bytes", 2700)
    assert larger_program(outcome) is None


@pytest.mark.parametrize("space", ["seedot", "shiftry"])
def test_it_is_only_said_where_such_a_limit_may_be_asked_for(space: str, concluded: TuneOutcome) -> None:
    outcome = built(with_bytes(concluded, 896, 1210), 2686, 2208)
    problem = build_problem(request_from(space, input="worked-example", device="uno"))
    assert (larger_program(dataclasses.replace(outcome, problem=problem)) is not None) == (space == "shiftry")
