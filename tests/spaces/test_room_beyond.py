"""Numerical models on inputs somewhat beyond the training samples: nothing wraps around, whatever is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.headroom import FEW_SAMPLES, headroom, share_beyond
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.search.candidates import random_candidate
from kilotune.search.procedure import run_procedure
from kilotune.spaces.seedot.space import ROOM, SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.formats import Offered, offered_formats, parse_format, roomy_formats
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.fixed.programs import HERE, variable
from tests.codegen.headroom_programs import growing_model, results

TASK = growing_model()


def further_out(task: Task) -> Task:
    """The same samples but for a hair at the share that there has to be room for."""
    features = task.features * share_beyond(len(task.features)) * 0.999
    return replace(task, features=features, targets=results(task.program, dict(task.parameters), features))


@pytest.mark.parametrize("offered", [{}, {"offsets": True, "wide": True}])
def test_no_candidate_of_shiftry_wraps_around_a_share_beyond(offered: dict[str, bool]) -> None:
    space = ShiftrySpace(TASK, ShiftryOptions(**offered))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    role = {variable.name: variable.role for variable in TASK.program.variables}
    precise = {d.name: d.options[0] for d in space.decisions if role[d.name] is not ir.Role.TEMPORARY}
    candidates = [random_candidate(space, rng) | precise for _ in range(300)]
    here, beyond = space.evaluator.measure(space.lower(candidates)), space.evaluator.on(further_out(TASK))
    there = beyond.measure(space.lower(candidates))
    largest = float(np.abs(beyond.float_outputs).max())
    assert all(metrics["precision_loss"] < 0.5 * largest for metrics in (*here, *there))


def test_shiftrys_procedure_is_as_precise_beyond_as_on_the_samples() -> None:
    space = ShiftrySpace(TASK, ShiftryOptions(permitted_loss=0.1))
    found = run_procedure(space)
    assert found is not None
    metrics = space.evaluator.on(further_out(TASK)).measure(space.lower([found.assignment]))[0]
    assert metrics["precision_loss"] < 4 * found.metrics["precision_loss"]


def test_seedots_answer_has_room_and_says_how_much() -> None:
    space = SeeDotSpace(TASK, SeeDotOptions())
    found = run_procedure(space)
    assert found is not None
    assert found.metrics[ROOM] >= 1.0
    program = space.lower(found.assignment)
    metrics = space.evaluator.on(further_out(TASK)).measure(program)[0]
    assert metrics["precision_loss"] < 4 * found.metrics["precision_loss"]
    room = headroom(TASK.program, space.profile, program.bits[0].tolist(), program.scales[0].tolist())
    assert room.factor >= share_beyond(len(TASK.features))


def test_seedot_refuses_maxscales_that_only_hold_the_samples() -> None:
    space = SeeDotSpace(TASK, SeeDotOptions())
    measured = space.evaluate([{"bitwidth": 16, "maxscale": scale} for scale in range(16)])
    best = min(measured, key=lambda found: found.metrics["precision_loss"])  # on the training samples alone
    assert best.metrics[ROOM] < 1.0
    assert space.constraints[-1].violation(best.metrics) > 0


def test_roomy_formats_are_those_that_hold_a_magnitude_and_parameters_keep_all() -> None:
    offered = Offered(narrow=True, offsets=True, wide=True)
    for role in (ir.Role.INPUT, ir.Role.TEMPORARY):
        formats = roomy_formats(role, 1.5, offered)
        assert formats[0] == parse_format("int16@14")
        assert {form.bits for form in formats} >= {8, 16}
        assert all(2.0 ** (form.bits - 1 - form.scale) > 1.5 for form in formats)
        assert set(formats) < set(offered_formats(role, 1.5, offered))
    assert roomy_formats(ir.Role.PARAMETER, 1.5, offered) == offered_formats(ir.Role.PARAMETER, 1.5, offered)


def classifier(samples: int) -> Task:
    """The surest of `samples` has a score just below a power of two: where that is all a format holds, surer inputs flip their class."""
    weights = np.array([[0.9, -0.4, 0.6]])
    variables = (
        variable("X", (3, 1), ir.Role.INPUT),
        variable("W", (1, 3), ir.Role.PARAMETER),
        variable("y", (1, 1)),
        variable("c", (1, 1)),
    )
    v = {x.name: ir.whole(x) for x in variables}
    body = (ir.MatMul(v["y"], HERE, v["W"], v["X"]), ir.Sign(v["c"], HERE, v["y"]))
    program = ir.Program("surer", variables, body, v["c"], ir.ResultKind.CLASS)
    features = np.random.default_rng(0).uniform(-1, 1, (samples, 3))
    features *= 1.99 / np.abs(features @ weights.T).max()
    return Task(program, {"W": weights}, features, results(program, {"W": weights}, features))


def flips_further_out(samples: int) -> int:
    """Of a classifier whose variables have the first formats."""
    space = ShiftrySpace(classifier(samples), ShiftryOptions())
    first = {decision.name: decision.options[0] for decision in space.decisions}
    return int(space.evaluator.on(further_out(space.task)).measure(space.lower([first]))[0]["disagreements"])


def test_the_surest_inputs_keep_their_class_where_training_samples_were_few() -> None:
    assert flips_further_out(FEW_SAMPLES - 1) == 0
    assert flips_further_out(FEW_SAMPLES) > 0


@pytest.mark.parametrize("offered", [{}, {"offsets": True, "wide": True}])
def test_classifiers_of_few_samples_have_room_in_16_bits_and_more(offered: dict[str, bool]) -> None:
    few, many = (ShiftrySpace(classifier(n), ShiftryOptions(**offered)) for n in (FEW_SAMPLES - 1, FEW_SAMPLES))  # type: ignore[arg-type]
    for space in (few, many):
        forms = {d.name: [parse_format(str(option)) for option in d.options] for d in space.format_decisions}
        needed = space.profile.magnitude("y") * share_beyond(len(space.task.features))
        held = [2.0 ** (form.bits - 1 - form.scale) for form in forms["y"] if form.bits > 8]
        assert all(most >= needed for most in held) == (space is few)
        assert {form.bits for form in forms["y"]} == ({8, 16, 32} if offered else {8, 16})
        for name, magnitude in (("X", space.profile.magnitude("X")), ("W", 0.9), ("y", 1.99)):
            known = offered_formats(space.task.program.variable(name).role, magnitude, Offered(**offered))
            narrow = [form for form in known if form.bits <= 8]
            assert [form for form in forms[name] if form.bits <= 8] == narrow
            assert name == "y" or offered or forms[name] == list(known)
    assert few.fingerprint != replace_room(few).fingerprint
    assert many.fingerprint == replace_room(many).fingerprint


def replace_room(space: ShiftrySpace) -> ShiftrySpace:
    """The same problem, were there no room for surer inputs."""

    class Without(ShiftrySpace):
        meets_surer_scores = False

    return Without(space.task, space.options)
