"""Models with fewer units as a decision of the search: what is offered, what it is compared with, and that it leaves as a program."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.unit_pruning import FloatModel
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point import measuring
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.models.train.bundle import TrainedModel, declarations, write_bundle
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.storage import open_store
from kilotune.search.budget import Budget
from kilotune.search.racing import is_raced
from kilotune.search.space import FlatSpace, Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry import models_in_turns, pruned_space
from kilotune.spaces.shiftry import pruned_models as pruned_models_module
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.closeness import Closeness, brought_closer
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, FittedSpace
from kilotune.spaces.shiftry.offered_models import OfferedModels
from kilotune.spaces.shiftry.pruned_models import PrunedModel, pruned_models, stored_numbers
from kilotune.spaces.shiftry.pruned_space import ALL, UNITS, PrunedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.fixed.programs import HERE, variable

INPUTS, DISTINCT, CLASSES, SAMPLES = 6, 4, 3, 120

PROTOTYPES = "let X = (4, 1) in [-1.0, 1.0] in\n"
SCORES = """\
let projected = W * X in
let score = $(j = [0:6])
(
	let d = projected - B[j] in
	Z[j] * exp(-0.5 * (d^T * d))
) in
argmax(score)
"""


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


def space_of(task: Task, fitted: bool = False, limit: int | None = None) -> PrunedSpace:
    """`limit`: of flash, within which the best is asked for instead of the front."""
    front = ("flash",) if limit is None else ()
    options = ShiftryOptions(narrow=True, front=front, accuracy_drop=5.0, flash_limit_bytes=limit)

    def formats_of(one: Task) -> ShiftrySpace | FittedSpace:
        formats = ShiftrySpace(one, options)
        return FittedSpace(formats) if fitted else formats

    return PrunedSpace(formats_of(task), formats_of)


def test_units_that_are_there_twice_are_left_out_at_no_loss() -> None:
    task = redundant()
    sizes = {one.name: (stored_numbers(one.model), one.off) for one in pruned_models(task, 0.0)}
    assert sizes[f"h {DISTINCT} of {2 * DISTINCT}"] == (DISTINCT * (INPUTS + CLASSES), 0.0)
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)


def test_prototypes_that_are_there_twice_are_left_out_at_no_loss(tmp_path: Path) -> None:
    """No products sum over the prototypes, and of a pair the one that is left has to have the scores of both. The last dimension matters
    less than a prototype does as long as nothing makes up for that."""
    rng = np.random.default_rng(2)
    pairs, features, matters = 3, 4, np.array([1.0, 1.0, 0.3])
    named = {
        "W": (matters[:, None] * rng.normal(size=(3, features))).astype(np.float32),
        "B": np.repeat(matters[:, None] * rng.normal(size=(pairs, 3, 1)), 2, axis=0).astype(np.float32),
        "Z": np.repeat(rng.normal(size=(pairs, CLASSES, 1)), 2, axis=0).astype(np.float32),
    }
    rows = np.column_stack([rng.integers(CLASSES, size=SAMPLES), rng.uniform(-1, 1, (SAMPLES, features))])
    write_bundle(TrainedModel("prototypes", PROTOTYPES + declarations(named) + SCORES, named, "", rows, rows), tmp_path)
    bundle = load_bundle(tmp_path)
    assert bundle.train is not None
    task = Task(bundle.program, bundle.parameters, bundle.train.features, bundle.train.targets)
    offered = [(one.name, one.off) for one in islice(pruned_models(task, 1.0), pairs)]
    assert offered == [(f"j {left} of {2 * pairs}", 0.0) for left in (5, 4, 3)]


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


@pytest.mark.parametrize("fitted", [False, True])
def test_refine_goes_on_in_the_model_that_is_best_within_a_limit(fitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruned_space, "FIRST", 30)
    task, fewest = redundant(), f"h {DISTINCT} of {2 * DISTINCT}"
    unlimited = space_of(task).of_units(fewest)
    eight_bits = {d.name: next(o for o in d.options if str(o).startswith("int8@")) for d in unlimited.decisions}
    limit = int(unlimited.costs([eight_bits])[0]["flash_bytes"])
    space = space_of(task, fitted, limit)
    study = Study(space, "refine", 1)
    best = study.run(InProcessExecutor(space), Budget(trials=1600)).best
    trials = study.trials()
    assert best is not None
    option = best.assignment[UNITS]
    assert trials[-1].assignment[UNITS] == option, "local search is in that model"
    rounded = {name: answer for name, answer in best.assignment.items() if name != CODES}
    finished = space.finished(rounded, space.evaluate([rounded])[0])
    assert finished == ({**rounded, CODES: FITTED} if fitted else None)
    if finished is not None:
        assert space.evaluate([finished])[0].metrics["flash_bytes"] == best.metrics["flash_bytes"]
    alone = space.flat_view()
    of_whole = Study(alone, "refine", 1).run(InProcessExecutor(alone), Budget(trials=1600)).best
    assert of_whole is not None
    assert best.metrics["flash_bytes"] <= limit
    assert best.metrics["expected_flips"] < 0.5 * of_whole.metrics["expected_flips"]
    view = space.flat_view_of(best.assignment)
    assert isinstance(view, FlatSpace)
    same = {decision.name: best.assignment[decision.name] for decision in view.decisions}
    assert view.evaluate([same]) == space.evaluate([same])


def test_a_search_within_limits_that_is_resumed_proposes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while the whole model is searched, and while a smaller one is."""
    monkeypatch.setattr(pruned_space, "FIRST", 10)
    task, limit = redundant(), 104
    space = space_of(task, limit=limit)
    straight = Study(space, "refine", 1)
    straight.run(InProcessExecutor(space), Budget(trials=700))
    wanted = [(trial.assignment, trial.measurement) for trial in straight.trials()]
    models = [trial.assignment.get(UNITS, ALL) for trial in straight.trials()]
    assert len({models[k] for k in (300, 520, 699)}) == 3, models
    store = open_store(f"sqlite:///{tmp_path / 'studies.db'}")
    Study.create(store, "stopped", space, "refine", 1, request={})
    for trials in (300, 220, 180):
        space = space_of(task, limit=limit)
        study = Study.resume(store, "stopped", space)
        study.run(InProcessExecutor(space), Budget(trials=trials))
    assert [(trial.assignment, trial.measurement) for trial in study.trials()] == wanted


def test_models_are_made_when_they_are_asked_for_and_again_where_that_was_abandoned() -> None:
    ways = 0

    def begin() -> Iterator[PrunedModel]:
        nonlocal ways
        ways += 1
        for number in range(3):
            if number == 1 and ways == 1:
                raise KeyboardInterrupt
            yield PrunedModel(FloatModel(redundant().program, {}), f"model {number}", 0.0)

    offered = OfferedModels(begin)
    assert ways == 0
    assert next(iter(offered)).name == "model 0"
    with pytest.raises(KeyboardInterrupt):
        list(offered)
    assert [one.name for one in offered] == ["model 0", "model 1", "model 2"]
    assert [one.name for one in offered] == ["model 0", "model 1", "model 2"]
    assert ways == 2


def test_what_was_left_out_is_said_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruned_models_module, "MOST_STEPS", 0)  # rows before the units stay what they were
    task = redundant(noise=0.3)
    for one in pruned_models(task, 1.0):
        (places,) = one.left_out.values()
        kept = [unit for unit in range(2 * DISTINCT) if unit not in places]
        rows = np.asarray(task.parameters["W1"], np.float32)[kept]
        np.testing.assert_array_equal(one.model.parameters["W1"], rows)
        assert one.name == f"h {len(kept)} of {2 * DISTINCT}"


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
    left_out = space.model_of(option).left_out
    readme = (tmp_path / "out" / "README.md").read_text()
    assert left_out
    for group, places in left_out.items():
        assert f"- {group}: {', '.join(map(str, places))}\n" in readme
    decided = json.loads((tmp_path / "again" / "decisions.json").read_text())
    assert decided["left_out"]["units"] == {group: list(places) for group, places in left_out.items()}
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


@pytest.mark.parametrize("worth", [0, measuring.WORTH_RACING])
def test_a_space_of_fewer_units_races_where_that_of_all_does(worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "WORTH_RACING", worth)
    space = PrunedSpace(ShiftrySpace(redundant()), ShiftrySpace)
    assert is_raced(space) == (worth == 0) == is_raced(space.whole)
