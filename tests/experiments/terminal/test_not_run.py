"""What is said of a program for which no time was left on its device."""

from __future__ import annotations

import dataclasses
import io
import math

import pytest
from rich.console import Console

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.experiments.studies.tuning import conclude
from kilotune.experiments.terminal.summary import print_summary
from kilotune.search.budget import Budget
from kilotune.search.study import Study


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
