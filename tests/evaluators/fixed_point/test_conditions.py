"""Choices by one condition each, which the kernel makes for several rounds of a loop at once."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from kilotune.search.candidates import random_candidate
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.fixed.programs import HERE, program, variable

ROUNDS = 5


def choices() -> ir.Program:
    """In each round a number by whose sign one of two is chosen."""
    variables = [variable("X", (2 * ROUNDS, 1), ir.Role.INPUT), variable("W", (ROUNDS, 1), ir.Role.PARAMETER)]
    variables += [variable("d", (ROUNDS,)), variable("v", (ROUNDS,))]

    def at(name: str, offset: int = 0) -> ir.View:
        return ir.View(name, (1,), (1,), ir.Affine(offset, (("i", 1),)))

    condition = ir.View("d", (), (), ir.Affine(0, (("i", 1),)))
    choice = ir.Select(at("v"), HERE, condition, at("X", ROUNDS), ir.Literal(-0.5))
    products = ir.Multiply(
        ir.View("d", (ROUNDS, 1), (1, 1)), HERE, ir.View("X", (ROUNDS, 1), (1, 1)), ir.View("W", (ROUNDS, 1), (1, 1))
    )
    return program("choices", variables, (products, ir.Loop("i", 0, ROUNDS, (choice,), HERE)), "v")


@needs_compiler
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("rounding", list(Rounding))
def test_each_round_has_a_condition_of_its_own(rounding: Rounding, wide: bool) -> None:
    rng = np.random.default_rng(0)
    features = rng.uniform(-1.0, 1.0, (150, 2 * ROUNDS))
    task = Task(choices(), {"W": np.array([[1.0], [-1.0], [0.7], [-0.3], [1.0]])}, features, np.zeros((150, ROUNDS)))
    space = ShiftrySpace(task, ShiftryOptions(rounding=rounding, wide=wide, permitted_loss=10.0))
    batch = space.lower([random_candidate(space, rng) for _ in range(8)])
    native, defined = (
        Simulator(task.program, task.parameters, features, backend).run(batch)
        for backend in (Backend.NATIVE, Backend.NUMPY)
    )
    np.testing.assert_array_equal(native, defined)
    chosen = defined[0] == defined[0, :, :1]
    assert not chosen.all(axis=1).all(), "rounds choose differently"
