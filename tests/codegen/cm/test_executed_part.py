"""Mappings that are too large to be executed whole: as much of them as may be is, and is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm import verification
from kilotune.experiments.problems.cm import mapped_network
from kilotune.experiments.problems.cm.artefacts import artefacts
from kilotune.experiments.problems.cm.problem import MappingProblem, build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Trial


@pytest.fixture
def problem() -> MappingProblem:
    found = build_problem(TuneRequest("cm", "lenet5", "anneal", 0, {}))
    assert isinstance(found, MappingProblem)
    return found


def trial_of(problem: MappingProblem) -> Trial:
    candidate = problem.space.candidate({}, range(10, 10 + len(problem.space.lowered({}).pipeline.stages)))
    return Trial(0, candidate, problem.space.measure(candidate))


@pytest.mark.parametrize(
    ("share", "words"), [(1.5, "An export executes one image: "), (0.4, "An export executes at most the first ")]
)
def test_as_much_is_executed_as_may_be_and_told(
    problem: MappingProblem, monkeypatch: pytest.MonkeyPatch, share: float, words: str
) -> None:
    trial = trial_of(problem)
    assert problem.lines(trial) == []
    assert problem.details(trial) == {"execution": {"images": 2, "share": 1.0}}
    stages = problem.lowered(trial.assignment).pipeline.stages
    image = sum(stage.iterations for stage in stages)
    most = int(share * image)
    monkeypatch.setattr(mapped_network, "MOST_VERIFIED_ITERATIONS", most)
    (line,) = problem.lines(trial)
    assert words in line
    executed = json.loads(artefacts(problem, trial)["mapping"])["executed"]
    assert executed["different"] == 0
    assert (executed["images"], executed["of_iterations"]) == (1, image)
    assert min(most, image) - len(stages) <= executed["iterations"] <= most, "no more at a tick than there are stages"
    assert executed["elements"] == 10 if share > 1 else executed["elements"] > 1000, "what the layers write"


def test_an_inner_layer_that_is_wrong_is_seen_before_any_result_is_out(
    problem: MappingProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_pixel_wrong(*asked: Any, **further: Any) -> Any:
        tensors = dict(evaluate(*asked, **further))
        wrong = tensors[first].copy()
        wrong.reshape(-1)[0] += 1
        return {**tensors, first: wrong}

    trial = trial_of(problem)
    program = problem.lowered(trial.assignment).programs[0]
    (first,) = program.exports
    monkeypatch.setattr(mapped_network, "MOST_VERIFIED_ITERATIONS", 100)
    monkeypatch.setattr(verification, "evaluate", one_pixel_wrong)
    with pytest.raises(ValueError, match=r"^1 of \d+ elements are wrong in \d+ of \d+ iterations: not"):
        artefacts(problem, trial)
