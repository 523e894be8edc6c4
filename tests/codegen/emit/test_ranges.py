"""Intervals hold for every input, are met by some, and the sums that they narrow stay the same."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.ranges import Interval, intervals, narrow_sums
from kilotune.codegen.fixed.arithmetic import Accumulator
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.fixed_point.reference import executions, run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches

pytestmark = pytest.mark.slow

HERE = ir.Location("net.sd", 1, 1)


def assert_intervals_hold(model: RandomModel, batch: FixedBatch) -> None:
    found = intervals(batch, model.parameters)
    labels = ir.label_variables(model.program)
    for step, written in executions(batch, model.parameters, model.features):
        name = step.operation.out.variable
        if name not in labels:
            assert found[name].low <= written.min(), (name, step.operation)
            assert written.max() <= found[name].high, (name, step.operation)


@given(data=st.data(), model=random_models())
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_no_value_leaves_its_interval(data: st.DataObject, model: RandomModel) -> None:
    assert_intervals_hold(model, data.draw(shiftry_batches(model.program, 1)))
    assert_intervals_hold(model, data.draw(seedot_batches(model.program)))


def product(weights: np.ndarray, accumulator: Accumulator = Accumulator.WIDE) -> tuple[RandomModel, FixedBatch]:
    """weights x X for a vector X of 8 bits; the result keeps the natural scale in 16 bits."""
    rows, length = weights.shape
    given_x = ir.Variable("X", (length, 1), ir.Role.INPUT, HERE)
    w = ir.Variable("W", weights.shape, ir.Role.PARAMETER, HERE)
    t = ir.Variable("t", (rows, 1), ir.Role.TEMPORARY, HERE)
    body = (ir.MatMul(ir.whole(t), HERE, ir.whole(w), ir.whole(given_x)),)
    program = ir.Program("net", (given_x, w, t), body, ir.whole(t), ir.ResultKind.REAL)
    batch = ShiftryLowering(program, {}, accumulator=accumulator).lower([[8, 8, 16]], [[7, 7, 14]])
    corners = np.array(list(itertools.product((-1.0, 127 / 128), repeat=length)))
    return RandomModel(program, {"W": weights}, corners), batch


def test_the_interval_of_a_product_is_met_at_its_corners() -> None:
    """Brute force: among all extreme inputs one gives the low end and one the high end."""
    model, batch = product(np.array([[0.5, -0.25, 0.125], [-0.5, -0.0625, 0.5]]))
    outputs = run_reference(batch, model.parameters, model.features)[0]
    assert intervals(batch, model.parameters)["t"] == Interval(int(outputs.min()), int(outputs.max()))


def test_only_sums_that_fit_are_narrowed() -> None:
    """The largest sum of 255 weights' magnitude times -128 is 32640; that of 256 is 32768, which 16 bits do not hold."""
    fits = product(np.array([[127 / 128, 127 / 128, 1 / 128]]))
    assert narrow_sums(fits[1], fits[0].parameters) == {0}
    beyond = product(-np.array([[127 / 128, 127 / 128, 2 / 128]]))
    assert narrow_sums(beyond[1], beyond[0].parameters) == frozenset()


def test_a_sum_that_may_wrap_has_no_interval() -> None:
    """Positive weights and inputs: modulo 2**16 the sum turns negative, where its interval would not be."""
    model, batch = product(np.full((1, 6), 0.99))
    rows = batch.rows.copy()
    rows[0, 0, [Column.ACC_BITS, Column.SHIFT_OUT]] = 16, 8
    wrapping = dataclasses.replace(batch, rows=rows)
    assert_intervals_hold(model, wrapping)
    assert intervals(wrapping, model.parameters)["t"] == Interval.of_width(16)


@needs_compiler
def test_narrowed_sums_stay_the_same(tmp_path: Path) -> None:
    weights = np.array([[0.25, -0.25, 0.125, 0.25, -0.25, 0.25, 0.125], [0.5, -0.5, 0.5, 0.0, 0.25, 0.0, 0.125]])
    model, batch = product(weights)
    source = emit_c(batch, model.parameters)
    assert "uint16_t sum = 0;" in source.source
    assert "uint32_t sum = 0;" not in source.source
    compiled = compile_sources([source], tmp_path)
    expected = run_reference(batch, model.parameters, model.features)[0]
    np.testing.assert_array_equal(compiled.run(0, model.features), expected)
