"""Parameters at a scale finer than they fit are clipped in every width and every execution: definition, kernels, C, hardware."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import PLAIN, SHAPES
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.rtl.plan import make_plan
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.fixed.programs import HERE, program, variable
from tests.codegen.rtl.hardware.simulated import simulate

PARAMETERS = {
    "W": np.array([[130.0, -130.0, 3.7, 0.0], [-600.5, 127.5, 0.0, -128.9]]),
    "B": np.array([[300.0], [-129.0]]),
}
FEATURES = np.array([[1.0, 2.0, -3.0, 1.0], [0.0, -4.0, 7.0, 5.0], [-8.0, 7.0, 1.0, -1.0]])


def clipped(bits: int, sparse: bool) -> FixedBatch:
    """`W * x + b` with parameters of `bits` bits, of which 1 is 256 units in 16 and one in 8, and twice as many for all else."""
    weights = ir.Variable("W", (2, 4), ir.Role.PARAMETER, HERE, sparse=sparse)
    others = [variable("B", (2, 1), ir.Role.PARAMETER), variable("X", (4, 1), ir.Role.INPUT)]
    variables = [weights, *others, variable("t", (2, 1)), variable("y", (2, 1))]
    w, b, x, t, y = map(ir.whole, variables)
    body = (ir.MatMul(t, HERE, w, x, sparse), ir.Add(y, HERE, t, b))
    lowering = ShiftryLowering(program("clipped", variables, body, "y"), {})
    unit = bits - 8
    return lowering.lower([[bits, bits, 16, 2 * bits, 2 * bits]], [[unit, unit, 0, unit, unit]])


def by_hand(bits: int) -> np.ndarray:
    """The sums of integers, each of which is toward zero, or else the last one of its side."""
    most = 2 ** (bits - 1)
    whole = {
        name: np.array([[max(-most, min(most - 1, int(value * 2 ** (bits - 8)))) for value in row] for row in values])
        for name, values in PARAMETERS.items()
    }
    return np.asarray(FEATURES.astype(int) @ whole["W"].T + whole["B"].T)


@needs_compiler
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bits", [8, 16])
def test_no_weight_changes_its_sign(bits: int, sparse: bool, tmp_path: Path) -> None:
    batch, expected = clipped(bits, sparse), by_hand(bits)
    np.testing.assert_array_equal(run_reference(batch, PARAMETERS, FEATURES)[0], expected)
    kernel = Simulator(batch.program, PARAMETERS, FEATURES, Backend.NATIVE)
    np.testing.assert_array_equal(kernel.run(batch)[0], expected)
    sources = [
        emit_c(batch, PARAMETERS, shape=SHAPES[shape], name=f"m{number}", function=f"predict{number}")
        for number, shape in enumerate((PLAIN, "compact"))
    ]
    compiled = compile_sources(sources, tmp_path)
    for number in range(len(sources)):
        np.testing.assert_array_equal(compiled.run(number, FEATURES), expected)
    np.testing.assert_array_equal(simulate(make_plan(batch, PARAMETERS), FEATURES)[0], expected)
