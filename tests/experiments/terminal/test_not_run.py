"""What is said of a program for which no time was left on its device."""

from __future__ import annotations

import io

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
