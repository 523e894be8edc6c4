"""Numerical models on inputs somewhat beyond the training samples: nothing wraps around, whatever is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.headroom import headroom, share_beyond
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.search.candidates import random_candidate
from kilotune.search.procedure import run_procedure
from kilotune.spaces.seedot.space import ROOM, SeeDotOptions, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.formats import Offered, offered_formats, parse_format, roomy_formats
from kilotune.spaces.shiftry.space import ShiftrySpace
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
