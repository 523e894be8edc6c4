"""The paper's answer stands beside the best, also where a search ends before the procedure has taken its last step."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.problem import resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.procedure_outcome import ProcedureOutcome, ProcedureState, procedure_in_time
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.experiments.studies.tuning import conclude
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Measurement, Procedure, Trial
from kilotune.search.study import Study
from kilotune.search.warm_start import GivenUp
from tests.commands import tune
from tests.search.problems import FlatProblem


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["exhaustive", "greedy"])
def test_a_space_that_is_exhausted_before_the_procedures_last_step(strategy: str, tmp_path: Path) -> None:
    """SeeDot's procedure measures every maxscale, which is the whole space, and then names one of them."""
    asked = ("--space", "seedot", "--input", "mlp-diabetes", "--strategy", strategy, "--budget", "60s")
    done = tune(tmp_path, dict(os.environ), *asked, "--no-output", "--storage", "s.db", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    space = build_problem(TuneRequest("seedot", str(resolve_input("mlp-diabetes")), strategy)).space
    expected = run_procedure(space, space.evaluate)
    assert expected is not None
    assert result["procedure"]["metrics"] == pytest.approx(dict(expected.measurement.metrics))
    assert "did not end" not in done.stderr
    assert result["procedure_state"] == {"state": "ended", "seconds": None}


def searched(folder: Path, *asked: str) -> tuple[dict[str, Any], str]:
    """The result of a command, and what it said."""
    done = tune(folder, dict(os.environ), *asked, "--no-output", "--storage", "s.db", "--json", "-", "--no-cache")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_missing_answer_is_no_win(tmp_path: Path) -> None:
    """Nobody who reads `null` can take it for a procedure that found nothing."""
    result, said = searched(tmp_path, "--space", "seedot", "--input", "mlp-diabetes", "--budget", "3trials")
    state = result["procedure_state"]
    assert (result["procedure"], state["state"]) == (None, "not ended")
    assert state["seconds"] == pytest.approx(result["elapsed_s"])
    sentence = re.search(r"The paper's procedure did not end within the budget, after ([\d.]+) s of it: ", said)
    assert sentence is not None
    assert float(sentence[1]) == pytest.approx(state["seconds"], abs=0.051)  # which is rounded in the result, too
    assert "test precision loss" in said  # of a program of numbers, what it is on data that no search saw
    assert "test mean absolute error" in said


@dataclass(frozen=True)
class WithoutAnswer(FlatProblem):
    """Its procedure gives up."""

    def procedure(self) -> Procedure:
        yield from ()


@pytest.mark.parametrize(
    ("space", "state"),
    [(FlatProblem(3, 3, 1), ProcedureState.NONE), (WithoutAnswer(3, 3, 1), ProcedureState.NO_ANSWER)],
)
def test_no_procedure_and_one_without_an_answer(space: FlatProblem, state: ProcedureState) -> None:
    study = Study(space, "random", procedure_first=True)
    result = study.run(InProcessExecutor(space), Budget(trials=5))
    assert procedure_in_time(study, result, lambda: run_procedure(space), lambda: True) == ProcedureOutcome(state)


def test_a_procedure_beside_the_search_without_time_has_not_ended() -> None:
    space = WithoutAnswer(3, 3, 1)
    study = Study(space, "random")
    result = study.run(InProcessExecutor(space), Budget(trials=5))
    unended = procedure_in_time(study, result, lambda: run_procedure(space), lambda: True)
    assert unended == ProcedureOutcome(ProcedureState.NOT_ENDED)
    assert (
        procedure_in_time(study, result, lambda: run_procedure(space), lambda: False).state is ProcedureState.NO_ANSWER
    )


@dataclass(frozen=True)
class SlowWithoutAnswer(WithoutAnswer):
    """And the search has its turn before."""

    procedure_takes_long: bool = True


@pytest.mark.parametrize("is_slow", [True, False])
def test_how_long_one_was_at_it_is_not_known_where_the_search_came_before_it(is_slow: bool) -> None:
    study = Study(FlatProblem(3, 3, 1), "random", procedure_first=True)
    result = study.run(InProcessExecutor(study.space), Budget(trials=5))
    study.space = SlowWithoutAnswer(3, 3, 1) if is_slow else WithoutAnswer(3, 3, 1)
    unended = procedure_in_time(study, result, lambda: None, lambda: True)
    seconds = None if is_slow else result.elapsed_s
    assert unended == ProcedureOutcome(ProcedureState.NOT_ENDED, seconds=seconds)
    assert (unended.as_json()["seconds"] is None) == is_slow
    assert ("s of it" in str(unended.sentence())) != is_slow


def test_one_that_was_given_up_for_the_search_is_said_to_be() -> None:
    study = Study(FlatProblem(3, 3, 1), "random", procedure_first=True)
    result = study.run(InProcessExecutor(study.space), Budget(trials=5))
    study.space, study.procedure_given_up = WithoutAnswer(3, 3, 1), GivenUp(1, 0.5)
    given_up = procedure_in_time(study, result, lambda: None, lambda: True)
    assert given_up == ProcedureOutcome(ProcedureState.GIVEN_UP)
    assert "was given up, so that the search could begin" in str(given_up.sentence())


def test_an_answer_that_cannot_be_measured_is_none() -> None:
    """Its column would be empty, and nobody would know why."""
    space = WithoutAnswer(3, 3, 1)
    study = Study(space, "random")
    result = study.run(InProcessExecutor(space), Budget(trials=5))
    failed = Trial(1, {"x": 1}, Measurement(failure="The program needs more than the 6 registers given."))
    found = procedure_in_time(study, result, lambda: failed, lambda: False)
    said = "The program needs more than the 6 registers given."
    assert found == ProcedureOutcome(ProcedureState.NO_ANSWER, reason=said)
    assert found.sentence() == f"The paper's procedure ended without an answer: what it proposed cannot be used. {said}"
    assert found.as_json()["reason"] == found.sentence()


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        ("analognet2", "no order of its instructions was found that the chip's 6 hold. Its search is cut after 20000 states"),
        ("ternary8-digits", "proposed no candidate. It was not run: it keeps all results to the end, and 8 kernels are too many for 5"),
    ],
)  # fmt: skip
def test_a_procedure_that_was_cut_or_not_run_is_said_to_be(kernels: str, said: str) -> None:
    """Nobody takes what AUKE's search was not given time for, or was never asked, for its failure."""
    problem = build_problem(request_from("reverse-split", input=kernels))
    study = Study(problem.space, "random", seed=1)
    result = study.run(InProcessExecutor(problem.space), Budget(trials=1))
    outcome = conclude(problem, study, result, most_checked=0)
    assert outcome.procedure is None
    assert said in (outcome.paper.sentence() or "")
