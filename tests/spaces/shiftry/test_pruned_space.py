"""Models with fewer units as a decision of the search: what is offered, what it is compared with, and that it leaves as a program."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.float_evaluator import run_float
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.space import Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry import models_in_turns
from kilotune.spaces.shiftry import pruned_models as pruned_models_module
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.closeness import Closeness, brought_closer
from kilotune.spaces.shiftry.fitted_space import FittedSpace
from kilotune.spaces.shiftry.pruned_models import pruned_models, stored_numbers
from kilotune.spaces.shiftry.pruned_space import ALL, UNITS, PrunedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.fixed.programs import HERE, variable

INPUTS, DISTINCT, CLASSES, SAMPLES = 6, 4, 3, 120


@cache
def redundant(copies: int = 2, noise: float = 0.0) -> Task:
    """A perceptron whose hidden units are there several times, but for noise on their weights: the fewest that do the same are DISTINCT."""
    rng = np.random.default_rng(0)
    units = copies * DISTINCT
    parameters = {
        "W1": np.tile(rng.normal(size=(DISTINCT, INPUTS)), (copies, 1)) + noise * rng.normal(size=(units, INPUTS)),
        "W2": np.tile(rng.normal(size=(CLASSES, DISTINCT)), (1, copies)),
    }
    variables = [variable("X", (INPUTS, 1), ir.Role.INPUT)]
    variables += [variable(name, values.shape, ir.Role.PARAMETER) for name, values in parameters.items()]
    variables += [
        variable("a", (units, 1)),
        variable("h", (units, 1)),
        variable("scores", (CLASSES, 1)),
        variable("label", ()),
    ]
    v = {one.name: ir.whole(one) for one in variables}
    body = (
        ir.MatMul(v["a"], HERE, v["W1"], v["X"]),
        ir.Tanh(v["h"], HERE, v["a"]),
        ir.MatMul(v["scores"], HERE, v["W2"], v["h"]),
        ir.ArgMax(v["label"], HERE, v["scores"]),
    )
    program = ir.Program("redundant", tuple(variables), body, v["label"], ir.ResultKind.CLASS)
    features = rng.uniform(-1, 1, (SAMPLES, INPUTS))
    return Task(program, parameters, features, run_float(program, parameters, features).labels.astype(np.float64))


def space_of(task: Task, fitted: bool = False) -> PrunedSpace:
    def formats_of(one: Task) -> ShiftrySpace | FittedSpace:
        formats = ShiftrySpace(one, ShiftryOptions(narrow=True, front=("flash",), accuracy_drop=5.0))
        return FittedSpace(formats) if fitted else formats

    return PrunedSpace(formats_of(task), formats_of)


def test_units_that_are_there_twice_are_left_out_at_no_loss() -> None:
    task = redundant()
    sizes = {one.name: (stored_numbers(one.model), one.off) for one in pruned_models(task, 0.0)}
    assert sizes[f"h {DISTINCT} of {2 * DISTINCT}"] == (DISTINCT * (INPUTS + CLASSES), 0.0)
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)


def test_steps_bring_a_model_closer_on_inputs_that_it_has_not_seen() -> None:
    task = redundant()
    last = next(one for one in pruned_models(task, 1.0) if one.name == f"h {DISTINCT} of {2 * DISTINCT}")
    whole = replace(last.model, program=task.program, parameters=task.parameters)
    rng = np.random.default_rng(7)
    learnt, judged, others = (Closeness(whole, rng.uniform(-1, 1, (400, INPUTS))) for _ in range(3))
    spoilt = {name: values + 0.05 * rng.normal(size=values.shape) for name, values in last.model.parameters.items()}
    before = replace(last.model, parameters=spoilt)
    after = brought_closer(before, learnt, judged)
    assert others.of(after)[0] < 0.1 * others.of(before)[0]


def test_a_smaller_model_is_compared_with_the_whole_one() -> None:
    task = redundant(noise=0.3)
    space = space_of(task)
    option = list(space.models)[-1]
    smaller = space.of_units(option)
    candidate = {UNITS: option, **{decision.name: decision.options[-1] for decision in smaller.decisions}}
    (measured,) = space.evaluate([candidate])
    outputs = Simulator(smaller.task.program, smaller.task.parameters, task.features).run(space.lower([candidate]))[0]
    wanted = run_float(task.program, task.parameters, task.features).outputs
    assert measured.metrics["disagreements"] == np.count_nonzero(outputs[:, 0] != wanted[:, 0]) > 0
    assert smaller.reference_point != space.reference_point == space.whole.reference_point
    test = smaller.evaluator.on(replace(smaller.task, features=-task.features, whole=None))
    wanted = run_float(task.program, task.parameters, -task.features).outputs
    np.testing.assert_array_equal(test.float_outputs, wanted)


def test_a_batch_of_several_models_is_measured_in_its_order() -> None:
    space = space_of(redundant())
    candidates = [
        {UNITS: option, **{d.name: d.options[0] for d in space.of_units(option).decisions}}
        for option in space.units.options
    ]
    mixed = [*candidates, *candidates[::-1]]
    alone = [space.of_candidate(one).evaluate([one])[0] for one in mixed]
    assert space.evaluate(mixed) == alone
    assert [m["flash_bytes"] for m in space.costs(mixed)] == [m.metrics["flash_bytes"] for m in alone]
    with pytest.raises(ValueError, match="one model"):
        space.lower(candidates)


@pytest.mark.parametrize("fitted", [False, True])
def test_the_front_has_smaller_models_and_is_found_again(fitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models_in_turns, "WHOLE_FIRST", 50)
    runs = []
    for _ in range(2):
        space = space_of(redundant(), fitted)
        study = Study(space, "front", 1)
        study.run(InProcessExecutor(space), Budget(trials=500))
        runs.append([(trial.assignment, trial.measurement) for trial in study.trials()])
    assert runs[0] == runs[1]
    front = study.front.trials
    assert {trial.assignment.get(UNITS, ALL) for trial in front} - {ALL}
    for trial in front:
        assert list(space.in_order(dict(reversed(trial.assignment.items())))) == list(trial.assignment)
    alone = space.flat_view()
    of_whole = Study(alone, "front", 1)
    of_whole.run(InProcessExecutor(alone), Budget(trials=500))
    assert min(t.metrics["flash_bytes"] for t in front) < min(t.metrics["flash_bytes"] for t in of_whole.front.trials)


@cache
def bundled(name: str) -> Task:
    """A bundled model with some of its training samples."""
    bundle = load_bundle(resolve_model(name))
    assert bundle.train is not None
    return Task(bundle.program, bundle.parameters, bundle.train.features[:SAMPLES], bundle.train.targets[:SAMPLES])


@pytest.mark.parametrize("name", ["redundant", "protonn-cancer", "fastgrnn16-digits", "lenet-digits"])
def test_the_exported_program_of_a_smaller_model_computes_what_was_measured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruned_models_module, "MOST_MODELS", 2)
    monkeypatch.setattr(pruned_models_module, "inputs_for_margins", lambda features, touched: features)
    task = redundant() if name == "redundant" else bundled(name)
    space, data = space_of(task), Dataset(task.features, task.targets)
    bundle = Bundle("smaller", task.program, task.parameters, data, data, int(task.targets.max()) + 1)
    problem = ModelProblem(
        TuneRequest("shiftry", str(tmp_path), "front", options={"front": ["flash"], "pruned": True}), bundle, space
    )
    option = list(space.models)[-1]
    candidate = {UNITS: option, **{d.name: d.options[1] for d in space.of_units(option).decisions}}
    trial = Trial(0, candidate, space.evaluate([candidate])[0], 0.0)
    assert f"Units left: {option}." in problem.lines(trial)
    problem.export(trial, tmp_path / "out")
    problem.export_for(trial, tmp_path / "again", "c", None)
    problem.export_for(trial, tmp_path / "sketch", "arduino", None)
    assert list((tmp_path / "sketch").rglob("*.ino"))
    smaller = space.of_candidate(candidate).task
    outputs = run_reference(space.lower([candidate]), smaller.parameters, task.features)[0, :, 0]
    assert np.count_nonzero(outputs != space.evaluator.float_outputs[:, 0]) == trial.metrics["disagreements"]
    for folder in ("out", "again"):
        ran = subprocess.run(
            ["make", "-C", str(tmp_path / folder), "check"], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert problem.test_metrics(candidate)["disagreements"] == trial.metrics["disagreements"]
