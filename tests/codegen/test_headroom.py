"""What there has to be room for beyond the training samples, how much a program has, and which samples go beyond."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.headroom import Headroom, headroom, magnitudes_beyond, samples_beyond, share_beyond
from kilotune.codegen.profile import profile
from tests.codegen.fixed.programs import HERE, variable
from tests.codegen.headroom_programs import growing_model

TASK = growing_model()
PROFILE = profile(TASK.program, TASK.parameters, TASK.features)[0]


@pytest.mark.parametrize("samples", [30, 300, 3000])
def test_one_of_a_thousand_times_as_many_normal_values_goes_beyond_the_extended_range(samples: int) -> None:
    """The mean largest of n values, times the share, has about the two-sided tail of 1 / (1000 n) behind it (within half a decade)."""
    rng = np.random.default_rng(0)
    largest = np.abs(rng.normal(size=(400, samples))).max(axis=1).mean()
    tail = math.erfc(share_beyond(samples) * largest / math.sqrt(2.0))
    assert 0.2 < tail * 1000 * samples < 5


def test_products_grow_faster_and_bounded_functions_end() -> None:
    share, found = share_beyond(60), magnitudes_beyond(TASK.program, TASK.parameters, TASK.features, PROFILE)
    assert found["W"] == PROFILE.magnitude("W")
    assert found["X"] == pytest.approx(share * 1.95)
    assert found["h"] >= share * PROFILE.magnitude("h")
    assert found["t"] == 1.0
    assert found["q"] == min(6.0, share * PROFILE.magnitude("q"))
    assert found["s"] == pytest.approx(share**2 * PROFILE.magnitude("s"), rel=0.1)
    assert found["y"] > 1.2 * share * PROFILE.magnitude("y")


def test_nothing_is_taken_to_be_bounded_by_what_a_loop_writes_later() -> None:
    variables = [variable("X", (1, 1), ir.Role.INPUT), *(variable(name, (1, 1)) for name in "ab")]
    v = {x.name: ir.whole(x) for x in variables}
    body = (ir.Relu(v["b"], HERE, v["a"]), ir.Add(v["a"], HERE, v["b"], v["X"]))
    fill = (ir.Fill(v["a"], HERE, 0.0), ir.Loop("t", 0, 3, body, HERE))
    program = ir.Program("loop", tuple(variables), fill, v["b"], ir.ResultKind.REAL)
    features = np.ones((12, 1))
    found = magnitudes_beyond(program, {}, features, profile(program, {}, features)[0])
    assert found["b"] == pytest.approx(share_beyond(12) * 2.0)


def test_the_room_is_that_of_the_tightest_variable_that_can_leave_its_range() -> None:
    names = [v.name for v in TASK.program.variables]
    bits, scales = [16] * len(names), [0] * len(names)

    def room(**given: int) -> Headroom:
        return headroom(TASK.program, PROFILE, bits, [given.get(name, 0) for name in names])

    assert room(r=11).factor == 16.0 / PROFILE.magnitude("r")
    assert room(r=11, s=13).factor == pytest.approx(4.0 / 1.95**2)
    assert room(X=15, t=15, W=15).factor == room().factor  # the input and tables end, parameters are known
    assert "q" not in room(q=12).largest  # 8 holds what is clipped at 6
    assert room(q=13).largest["q"] == 4.0
    assert not headroom(TASK.program, PROFILE, bits, [-200] * len(names)).factor < 2.0**200
    assert scales == [0] * len(names)
    silent = profile(TASK.program, TASK.parameters, np.zeros((4, 3)))[
        0
    ]  # found by a reader: taken for values that cannot grow
    assert headroom(TASK.program, silent, bits, scales).factor == 1.0


def test_samples_beyond_are_those_of_which_any_value_is() -> None:
    features = np.random.default_rng(1).normal(0, 2, (500, 3))
    held = {"s": 9.0, "r": 7.0}
    values = {name: np.zeros(500) for name in held}

    def observe(step: object, written: np.ndarray, read: object) -> None:
        name = step.operation.out.variable  # type: ignore[attr-defined]
        if name in held:
            values[name] = np.abs(written).reshape(-1, 500).max(axis=0)

    run_float(TASK.program, TASK.parameters, features, observe)
    wanted = int(((values["s"] >= 9.0) | (values["r"] >= 7.0)).sum())
    assert 0 < wanted < 500
    assert samples_beyond(TASK.program, TASK.parameters, features, Headroom(1.0, held)) == wanted
