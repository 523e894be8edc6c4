"""The compiled kernel for 32 bits computes what the definition does, also where values leave what fewer bits hold."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import loop_steps
from kilotune.evaluators.fixed_point.kernel import load_kernel, load_wide_kernel
from kilotune.evaluators.fixed_point.margins import float_contest
from kilotune.evaluators.fixed_point.native import NativeProgram
from kilotune.evaluators.fixed_point.reference import run_reference, run_reference_contest
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.fixed.programs import HERE, variable

pytestmark = needs_compiler
RANDOM = np.random.default_rng(0)


def native(program: ir.Program, features: np.ndarray, wide: bool = True) -> NativeProgram:
    kernel, steps = load_wide_kernel() if wide else load_kernel(), loop_steps(program)
    assert kernel is not None
    return NativeProgram(kernel, program, steps, {}, features, float_contest(program, {}, features, steps)[1])


def table_of(function: type[ir.TableFunction], scale: int, largest: float) -> tuple[ir.Program, FixedBatch]:
    """The function of 32-bit copies, at `scale`, of five inputs."""
    given, copy, out = (variable(*one) for one in (("X", (5,), ir.Role.INPUT), ("t", (5,)), ("u", (5,))))
    x, t, u = (ir.whole(one) for one in (given, copy, out))
    body = (ir.Multiply(t, HERE, x, ir.Literal(1.0)), function(out=u, location=HERE, a=t))
    program = ir.Program("table", (given, copy, out), body, u, ir.ResultKind.REAL)
    return program, ShiftryLowering(program, {1: largest}).lower([[16, 32, 16]], [[8, scale, 14]])


@pytest.mark.parametrize("function", [ir.Exp, ir.Sigmoid, ir.Tanh])
@pytest.mark.parametrize("scale", [10, 24])
def test_arguments_beyond_a_table_have_the_results_of_its_ends(function: type[ir.TableFunction], scale: int) -> None:
    program, batch = table_of(function, scale, 2.0)
    features = RANDOM.uniform(-100, 100, (70, 5)) * RANDOM.choice([0.01, 0.1, 1.0], (70, 5))
    compiled = native(program, features)
    assert compiled.supports(batch)
    defined = run_reference(batch, {}, features)
    np.testing.assert_array_equal(compiled.run(batch), defined)
    assert len(np.unique(defined)) > 50  # not the ends alone


def test_tables_that_reach_beyond_16_bits_are_left_to_the_definition() -> None:
    program, batch = table_of(ir.Exp, 20, 17.0)
    assert not native(program, np.zeros((1, 5))).supports(batch)


def test_margins_of_32_bits_are_summed_without_overflow() -> None:
    given, scores, label = variable("X", (3,), ir.Role.INPUT), variable("s", (3,)), variable("label", ())
    x, s, decided = (ir.whole(one) for one in (given, scores, label))
    body = (ir.Multiply(s, HERE, x, ir.Literal(1.0)), ir.ArgMax(decided, HERE, s))
    program = ir.Program("scores", (given, scores, label), body, decided, ir.ResultKind.CLASS)
    features = np.random.default_rng(1).choice([-0.99, 0.99], (70, 3))
    widths = [[16, 16 if scale < 16 else 32, 16] for scale in range(15, 32)]
    batch = ShiftryLowering(program, {}).lower(widths, [[15, scale, 0] for scale in range(15, 32)])
    compiled = native(program, features)
    steps = loop_steps(program)
    contest = float_contest(program, {}, features, steps)[1]
    assert contest is not None
    outputs, sums = run_reference_contest(batch, {}, features, steps, contest)
    assert sums[-1].squares > 1 << 64
    assert any(total % (1 << 64) >= 1 << 63 for one in sums for total in one)  # whose low words look negative
    assert compiled.supports(batch)
    found = compiled.run_contest(batch)
    np.testing.assert_array_equal(found[0], outputs)
    assert found[1] == sums


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize(("bits", "wide"), [(32, True), (16, True), (16, False)])
def test_products_of_two_computed_values_at_the_edge_of_an_image(length: int, bits: int, wide: bool) -> None:
    """Outside the image are zeros, whatever lies there in memory."""
    given = variable("X", (length + 3,), ir.Role.INPUT)
    image, kernel = variable("t", (1, length, 1, 1)), variable("k", (1, 3, 1, 1, 1))
    out = variable("u", (1, length, 1, 1))
    t, k = ir.whole(image), ir.whole(kernel)
    body = (
        ir.Multiply(t, HERE, ir.View("X", (1, length, 1, 1), (length, 1, 1, 1)), ir.Literal(1.0)),
        ir.Multiply(k, HERE, ir.View("X", (1, 3, 1, 1, 1), (3, 1, 1, 1, 1), ir.Affine(length)), ir.Literal(1.0)),
        ir.Conv2D(ir.whole(out), HERE, t, k, (1, 1), (1, 1, 0, 0), (1, 1), 1),
    )
    program = ir.Program("edges", (given, image, kernel, out), body, ir.whole(out), ir.ResultKind.REAL)
    features = RANDOM.uniform(-1, 1, (70, length + 3))
    batch = ShiftryLowering(program, {}).lower([[16, bits, bits, bits]], [[15, bits - 6, bits - 6, bits - 3]])
    compiled = native(program, features, wide)
    assert compiled.supports(batch)
    found = compiled.run(batch)
    np.testing.assert_array_equal(found, run_reference(batch, {}, features))
    exact = run_float(program, {}, features).outputs
    assert np.abs(np.ldexp(found[0].astype(float), -int(batch.scales[0, -1])) - exact).max() < 5e-3
