"""What is said of what no time was left for: a program on its device, integers beside the floats of the input, test data."""

from __future__ import annotations

import dataclasses
import io
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from rich.console import Console

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.cm.problem import MappingProblem
from kilotune.experiments.report.report_data import ReportData
from kilotune.experiments.report.result_section import result_section
from kilotune.experiments.studies.joining import join
from kilotune.experiments.studies.outcome_file import as_json
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.experiments.studies.result_schema import result_schema
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.tuning import NOT_ALL_COMPARED, NOT_COMPARED, conclude
from kilotune.experiments.terminal.summary import print_summary
from kilotune.search.budget import Budget
from kilotune.search.study import Study
from tests.codegen.cm.digits import digits_images, digits_network


@pytest.mark.parametrize(("device", "said"), [("uno", 1), (None, 0)])
def test_a_program_that_no_time_was_left_for_is_said_not_to_have_run(device: str | None, said: int) -> None:
    problem = build_problem(request_from("shiftry", input="worked-example", device=device))
    study = Study(problem.space, "refine", seed=1)
    result = study.run(InProcessExecutor(problem.space), Budget(trials=5))
    shown = io.StringIO()
    print_summary(conclude(problem, study, result, is_over=lambda: True), Console(file=shown, width=200))
    assert shown.getvalue().count("Not run on a simulated uno, as no time was left for that") == said


@pytest.mark.parametrize(
    ("asked_s", "used_s", "said"),
    [
        (10.0, 0.9, "as the 9.1 s of the budget that the search has left did not suffice for compiling and running it"),
        (10.0, 9.5, "as no time was left for that"),
        (math.inf, 2.0, "as no time was left for that"),
    ],
)
def test_what_the_search_has_left_is_said_beside_what_it_has_used(asked_s: float, used_s: float, said: str) -> None:
    problem = build_problem(request_from("shiftry", input="worked-example", device="uno"))
    study = Study(problem.space, "refine", seed=1)
    result = study.run(InProcessExecutor(problem.space), Budget(trials=5))
    outcome = conclude(problem, study, result, is_over=lambda: True)
    shown = io.StringIO()
    timed = dataclasses.replace(outcome, asked=Budget(asked_s, 5), used_s=used_s)
    print_summary(timed, Console(file=shown, width=400))
    assert f"Not run on a simulated uno, {said}" in shown.getvalue()


def digits_study(folder: Path) -> tuple[MappingProblem, Study]:
    """A trained network with images, and one trial."""
    images, labels = digits_images(16)
    onnx.save(digits_network(16), str(folder / "digits.onnx"))
    np.savez(folder / "images.npz", images=images, labels=labels)
    given = {"data": str(folder / "images.npz")}
    problem = build_problem(request_from("cm", input=str(folder / "digits.onnx"), options=given))
    assert isinstance(problem, MappingProblem)
    study = Study(problem.space, "random", seed=1)
    study.run(InProcessExecutor(problem.space), Budget(trials=1))
    return problem, study


def test_what_no_time_was_left_to_compare_with_the_input_is_said(tmp_path: Path) -> None:
    problem, study = digits_study(tmp_path)
    outcome = conclude(problem, study, study.result(), most_checked=0, is_over=lambda: True)
    assert outcome.approximation == {"sentence": NOT_COMPARED}


def test_nothing_is_lost_of_a_network_without_weights() -> None:
    problem = build_problem(request_from("cm", input="resnet20"))
    study = Study(problem.space, "random", seed=1)
    study.run(InProcessExecutor(problem.space), Budget(trials=1))
    assert conclude(problem, study, study.result(), most_checked=0, is_over=lambda: True).approximation is None


def test_what_was_compared_in_time_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, study = digits_study(tmp_path)
    every = list(problem.approximations())
    assert conclude(problem, study, study.result(), most_checked=0).approximation == every[-1]
    over: list[bool] = []

    def two_in_time(_: MappingProblem) -> Iterator[dict[str, Any]]:
        yield from every[:2]
        over.append(True)
        threading.Event().wait()

    monkeypatch.setattr(MappingProblem, "approximations", two_in_time)
    outcome = conclude(problem, study, study.result(), most_checked=0, is_over=lambda: bool(over))
    assert outcome.approximation == {**every[1], "sentence": f"{every[1]['sentence']}. {NOT_ALL_COMPARED}"}
    assert "Integers on 4 of 533 images that calibration has not seen" in every[1]["sentence"]


@pytest.mark.parametrize(
    ("space", "name", "given_digits", "figures"),
    [
        ("reverse-split", "analognet2-digits", True, "Accuracy, time and energy of a frame"),
        ("reverse-split", "analognet2-digits", False, None),
        ("reverse-split", "sobel", False, "RMSE and SSIM"),
        ("shiftry", "protonn-cancer", False, "The figures on 189 test samples"),
        ("shiftry", "worked-example", False, None),
    ],
)
def test_test_data_that_no_time_was_left_for_are_said(
    space: str, name: str, given_digits: bool, figures: str | None, tmp_path: Path
) -> None:
    images, labels = np.zeros((10, 784), dtype=np.uint8), np.arange(10)
    np.savez(tmp_path / "digits.npz", X=images, y=labels)
    options = {"data": str(tmp_path / "digits.npz")} if given_digits else {}
    problem = build_problem(request_from(space, input=name, options=options))
    store = open_store(f"{tmp_path}/s.db")
    study = join(store, "short", problem, Budget(trials=1))
    result = study.run(InProcessExecutor(problem.space), Budget(trials=1))
    outcome = conclude(problem, study, result, is_over=lambda: True)
    shown = io.StringIO()
    print_summary(outcome, Console(file=shown, width=400))
    data = as_json(outcome, {})
    jsonschema.validate(data, result_schema())
    section = str(result_section(ReportData(problem, study, store.study("short"), [], outcome)))
    if figures is None:
        assert "test_not_measured" not in data
        assert "not measured" not in shown.getvalue() + section
        return
    sentence = f"{figures} were not measured: the budget left no time for that (`tune report short` does it, and so does a longer budget)"
    assert data["test_not_measured"] == sentence
    assert f"\n{sentence}.\n" in shown.getvalue()
    assert f"{sentence}." in section


def test_test_data_that_were_measured_are_not_said_to_be_missing(tmp_path: Path) -> None:
    np.savez(tmp_path / "digits.npz", X=np.zeros((10, 784), dtype=np.uint8), y=np.arange(10))
    options = {"data": str(tmp_path / "digits.npz")}
    problem = build_problem(request_from("reverse-split", input="analognet2-digits", options=options))
    study = Study(problem.space, "exhaustive", seed=1)
    result = study.run(InProcessExecutor(problem.space), Budget(trials=1))
    outcome = conclude(problem, study, result)
    assert outcome.test is not None
    assert outcome.test_not_measured is None
