"""What is said of a numerical model on samples that nobody has seen."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.new_samples import RoomLeft
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem, read_options, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.candidates import random_candidate
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Trial

WEIGHTS = np.array([[0.9, -0.4, 0.6]])


def regressor(folder: Path, space: str) -> ModelProblem:
    """y = W * X on forty samples."""
    features = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    (folder / "model.sd").write_text("let X = (3, 1) in [-1.0, 1.0] in let W = (1, 3) in [-1.0, 1.0] in W * X\n")
    np.save(folder / "W.npy", WEIGHTS)
    np.save(folder / "train.npy", np.hstack([features @ WEIGHTS.T, features]))
    options = read_options(space, CommandOptions({"validation": 0.5}))
    return build_problem(TuneRequest(space, str(folder), "refine", 0, options))


def answer_of(problem: ModelProblem) -> Trial:
    found = run_procedure(problem.space)
    assert found is not None
    return found


@pytest.mark.parametrize("space", ["seedot", "shiftry"])
def test_the_room_of_a_regressor_is_stated_and_what_validation_samples_make_of_it(tmp_path: Path, space: str) -> None:
    problem = regressor(tmp_path, space)
    trial = answer_of(problem)
    (line,) = (line for line in problem.lines(trial) if "Room" in line)
    told = problem.details(trial)
    assert told["headroom"] >= 1.6
    assert told["validation_samples_beyond"] == 0
    assert line == (
        f"Room for new samples: values may be {told['headroom']:.3g} times as large as those of the training samples before one "
        "wraps around; of 20 validation samples 0 go beyond."
    )


def test_validation_samples_that_go_beyond_are_counted(tmp_path: Path) -> None:
    problem = regressor(tmp_path, "shiftry")
    assert problem.held_out is not None
    trial = answer_of(problem)
    far = dataclasses.replace(problem.held_out, features=problem.held_out.features * 100.0)
    values = np.abs(far.features @ WEIGHTS.T)
    held = problem.details(trial)["headroom"] * np.abs(problem.space.task.features @ WEIGHTS.T).max()
    counted = dataclasses.replace(problem, held_out=far).details(trial)
    assert counted["validation_samples_beyond"] == (values >= held).sum() > 10


def test_of_a_classifier_with_few_samples_the_room_of_16_bits_is_stated(tmp_path: Path) -> None:
    weights = np.array([[0.9, -0.4, 0.6], [-0.3, 0.8, 0.1]])
    features = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    (tmp_path / "model.sd").write_text(
        "let X = (3, 1) in [-1.0, 1.0] in let W = (2, 3) in [-1.0, 1.0] in argmax(W * X)\n"
    )
    np.save(tmp_path / "W.npy", weights)
    np.save(tmp_path / "train.npy", np.column_stack([(features @ weights.T).argmax(axis=1), features]))
    options = read_options("shiftry", CommandOptions({"validation": 0.5}))
    problem = build_problem(TuneRequest("shiftry", str(tmp_path), "refine", 0, options))
    for option, bits in ((0, 16), (1, 8)):
        chosen = {decision.name: decision.options[option] for decision in problem.space.decisions}
        chosen["X"] = problem.space.decisions[0].options[0]
        (score,) = (decision for decision in problem.space.decisions if decision.name not in ("X", "W"))
        assert str(score.options[option]).startswith(f"int{bits}@")
        trial = Trial(0, chosen, problem.space.evaluate([chosen])[0])
        lines = [line for line in problem.lines(trial) if "Room" in line]
        assert len(lines) == (bits == 16)
        if lines:
            assert problem.details(trial)["headroom"] >= 1.7
            assert lines[0].startswith("Room for new samples: values of 16 bits and more may be ")
            assert lines[0].endswith("before one wraps around; of 30 validation samples 0 go beyond.")


def test_classifiers_with_many_samples_have_no_such_line() -> None:
    problem = build_problem(TuneRequest("shiftry", str(resolve_input("protonn-cancer")), "refine"))
    first = {decision.name: decision.options[0] for decision in problem.space.decisions}
    trial = Trial(0, first, problem.space.evaluate([first])[0])
    assert "headroom" not in problem.details(trial)
    assert not any("Room" in line for line in problem.lines(trial))


@pytest.mark.parametrize("space", ["shiftry", "seedot"])
def test_a_program_without_an_input_needs_no_room(space: str) -> None:
    """Found by a reader: the paper's worked example lost a bit to samples that it cannot meet."""
    problem = build_problem(TuneRequest(space, str(resolve_input("worked-example")), "exhaustive"))
    assert not any(limit.metric == "room" for limit in problem.space.constraints)
    first = random_candidate(problem.space, np.random.default_rng(0))
    measured = problem.space.evaluate([first])[0]
    assert "room" not in measured.metrics
    assert not any("Room" in line for line in problem.lines(Trial(0, first, measured)))


def test_where_nothing_can_wrap_around_that_is_said() -> None:
    assert RoomLeft(None, 0, 5).sentence() == "No value can wrap around, whatever the input."
    assert (
        RoomLeft(1.5, None, 0)
        .sentence()
        .endswith("times as large as those of the training samples before one wraps around.")
    )
