"""From the command line to a fixed-point problem: options arrive, and a program's bytes do not depend on the data."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kilotune.evaluators.architectures.registry import boards
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.problem import (
    ModelProblem,
    build_problem,
    read_options,
    resolve_input,
)
from kilotune.experiments.problems.registry import entries, find_entry
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.candidates import random_candidate
from kilotune.search.space import Assignment, Measurement, Trial
from kilotune.spaces.shiftry.program_decisions import ROUNDING

MODEL = "fastgrnn16-digits"


def ram_bytes(space: str, **given: object) -> tuple[float, float]:
    """RAM on the training and on the test data of one candidate."""
    request = TuneRequest(
        space, str(resolve_input(MODEL)), "random", options=read_options(space, CommandOptions(given))
    )
    problem = build_problem(TuneRequest.from_json(request.as_json()))
    candidate = random_candidate(problem.space, np.random.default_rng(0))
    test = problem.test_metrics(candidate)
    assert test is not None
    return problem.space.evaluate([candidate])[0].metrics["ram_bytes"], test["ram_bytes"]


@pytest.mark.parametrize("space", ["seedot", "shiftry"])
def test_results_in_place_save_ram_and_test_data_change_no_bytes(space: str) -> None:
    in_place, in_place_test = ram_bytes(space)
    apart, apart_test = ram_bytes(space, in_place=False)
    assert in_place == in_place_test < apart == apart_test


@pytest.mark.parametrize("shape", ["vectors4", "rows4"])
def test_code_whose_cycles_nothing_predicts_is_refused_on_a_device(shape: str) -> None:
    (uno,) = (board for board in boards() if board.name == "uno")
    device = dataclasses.asdict(uno)
    with pytest.raises(ValueError, match=rf"^--shape: expected one that uno can gain by .+ found {shape}, "):
        read_options("shiftry", CommandOptions({"shape": shape}, device=device))
    assert read_options("shiftry", CommandOptions({"shape": shape}))["shape"] == shape
    assert read_options("shiftry", CommandOptions({"shape": "compact"}, device=device))["shape"] == "compact"


def test_how_programs_divide_is_decided_where_that_is_asked_for() -> None:
    def problem_of(space: str, rounding: str) -> ModelProblem:
        options = read_options(space, CommandOptions({"rounding": rounding}))
        return build_problem(TuneRequest(space, str(resolve_input(MODEL)), "random", options=options))

    decided, floor = problem_of("shiftry", "any"), problem_of("shiftry", "floor")
    candidate = random_candidate(floor.space, np.random.default_rng(0))
    trials = [Trial(0, {**candidate, ROUNDING: name}, Measurement({})) for name in ("floor", "nearest")]
    assert [decided.lines(trial) for trial in trials] == [["Divisions round: floor."], ["Divisions round: nearest."]]
    assert floor.lines(Trial(0, candidate, Measurement({}))) == []
    assert floor.details(Trial(0, candidate, Measurement({}))) == decided.details(trials[0]) == {"rounding": "floor"}
    measured = decided.space.evaluate([trial.assignment for trial in trials])
    assert measured[0].metrics == floor.space.evaluate([candidate])[0].metrics != measured[1].metrics
    assert [decided.lower(trial.assignment).rounding.value for trial in trials] == ["floor", "nearest"]
    with pytest.raises(ValueError, match=r"^--rounding any: expected the space shiftry, .+ found seedot\.$"):
        problem_of("seedot", "any")


def test_a_result_says_where_new_samples_may_lose_more_than_was_permitted() -> None:
    """16 bits everywhere, the procedure's first candidate, change next to nothing; scales at random change most."""

    def problem_of(space: str, limits: dict[str, int]) -> ModelProblem:
        options = read_options(space, CommandOptions({"accuracy_drop": 0.5}, limits))
        return build_problem(TuneRequest(space, str(resolve_input(MODEL)), "random", options=options))

    def lines(problem: ModelProblem, candidate: Assignment | None = None, known: float = 30.0) -> list[str]:
        candidate = candidate or random_candidate(problem.space, np.random.default_rng(0))
        return problem.lines(Trial(0, candidate, Measurement({"accuracy_percent": 100.0, "expected_flips": known})))

    problem = problem_of("shiftry", {})
    (line,), samples = lines(problem), problem.sample_counts()["train"]
    assert line.startswith(f"Of {samples} made-up inputs ")
    assert line.endswith(f" --flips {samples / 200.0:.3g} asks for fewer.")
    assert lines(problem, known=0.0)[0].endswith(" more than --drop permits of training samples.")
    assert lines(problem, next(iter(problem.space.procedure()))[0]) == []
    assert lines(problem_of("shiftry", {"flash": 10000})) == lines(problem_of("seedot", {})) == []


@pytest.mark.parametrize(
    ("space", "objective", "limits", "found"),
    [
        ("shiftry", None, {}, "expected --front, or a --limit or --device .* found neither"),
        ("shiftry", "flash", {"flash": 2000}, "expected --front, or a --limit or --device .* found --objective flash"),
        ("seedot", None, {"flash": 2000}, "expected the space shiftry, found seedot"),
    ],
)
def test_units_are_left_out_where_a_front_or_a_limit_says_what_that_is_worth(
    space: str, objective: str | None, limits: dict[str, float], found: str
) -> None:
    asked = CommandOptions({"pruned": True}, limits=limits, objective=objective)
    with pytest.raises(ValueError, match=f"^--pruned: .*{found}"):
        read_options(space, asked)


@pytest.mark.parametrize("space", ["seedot", "shiftry"])
def test_layers_are_equalised_before_anything_is_decided_and_the_model_stays_what_it_is(space: str) -> None:
    def problem_of(model: str, asked: bool | None) -> ModelProblem:
        options = read_options(space, CommandOptions({} if asked is None else {"equalise": asked}))
        return build_problem(TuneRequest(space, str(resolve_input(model)), "random", options=options))

    plain, equalised = problem_of("mlp-digits", None), problem_of("mlp-digits", True)
    assert equalised.float_metrics() == plain.float_metrics()
    assert equalised.space.fingerprint != plain.space.fingerprint == problem_of("mlp-digits", False).space.fingerprint
    candidate = Trial(0, random_candidate(plain.space, np.random.default_rng(0)), Measurement({}))
    assert equalised.lines(candidate) == ["Channels equalised: 48."]  # 32 and 16 units
    assert equalised.details(candidate)["equalised_channels"] == 48
    assert not plain.lines(candidate)
    (none,) = problem_of("fastgrnn16-digits", True).lines(candidate)
    assert none.startswith("Channels equalised: none")


def test_every_space_on_offer_has_a_front_door() -> None:
    for entry in entries():
        family, found = find_entry(entry.space)
        assert found is entry
        for function in ("resolve_input", "read_options", "build_problem"):
            assert callable(getattr(family.factory, function))
