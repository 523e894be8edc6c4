"""Rows with scales of their own: multiplying a sum of codes once gives what the simulators compute with whole integers."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import PLAIN, SHAPES
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.encoding import ParameterEncoding, RowShifts
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from tests.codegen.emit.compiled import SANITISED, compile_sources, needs_compiler
from tests.codegen.emit.random_programs import RandomModel
from tests.codegen.emit.row_products import FORMS, row_products

quick = settings(suppress_health_check=list(HealthCheck), database=None, deadline=None)


def compiled_outputs(
    model: RandomModel, batch: FixedBatch, flags: tuple[str, ...] = ("-O0",), shapes: tuple[str, ...] = (PLAIN,)
) -> list[np.ndarray]:
    """Those of each code shape."""
    sources = [emit_c(batch, model.parameters, name=name, function=name, shape=SHAPES[name]) for name in shapes]
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_sources(sources, Path(folder), flags)
        return [compiled.run(number, model.features) for number in range(len(shapes))]


@needs_compiler
@pytest.mark.parametrize("form", FORMS)
def test_all_executions_agree(form: str) -> None:
    @given(row_products(form))
    @settings(quick, max_examples=12)
    def agree(drawn: tuple[RandomModel, FixedBatch]) -> None:
        model, batch = drawn
        expected = run_reference(batch, model.parameters, model.features)
        simulator = Simulator(model.program, model.parameters, model.features, Backend.NATIVE)
        np.testing.assert_array_equal(simulator.run(batch), expected)
        for found in compiled_outputs(model, batch, SANITISED, (PLAIN, "rows2")):
            np.testing.assert_array_equal(found, expected[0])

    agree()


def product(stored: int, shifts: tuple[int, int]) -> tuple[RandomModel, FixedBatch]:
    """Two rows of three weights times an input, exactly representable; results keep 16 bits."""
    here = ir.Location("two.sd", 1, 1)
    x = ir.Variable("X", (3, 1), ir.Role.INPUT, here)
    w = ir.Variable("W", (2, 3), ir.Role.PARAMETER, here)
    y = ir.Variable("y", (2, 1), ir.Role.TEMPORARY, here)
    body = (ir.MatMul(ir.whole(y), here, ir.whole(w), ir.whole(x)),)
    program = ir.Program("two", (x, w, y), body, ir.whole(y), ir.ResultKind.REAL)
    rows = np.zeros((1, 1, len(Column)), dtype=np.int32)
    for column, value in ((Column.BITS, 16), (Column.ACC_BITS, 32), (Column.HALVINGS, -1)):
        rows[0, 0, column] = value
    encoding = ParameterEncoding(stored, rows=RowShifts((0,), shifts))
    bits, scales = np.full((1, 3), 16, dtype=np.int32), np.zeros((1, 3), dtype=np.int32)
    batch = FixedBatch(
        program, Rounding.FLOOR, bits, scales, rows, (), np.array([[-1, 0, -1]], dtype=np.int32), (encoding,)
    )
    values = np.array([[1.0, -2.0, 3.0], [1.0, 1.0, -3.0]]) * np.exp2(np.array(shifts))[:, None]
    return RandomModel(program, {"W": values}, np.array([[1.0, 10.0, 100.0]])), batch


@needs_compiler
@pytest.mark.parametrize("stored", [3, 4, 8])
def test_by_hand(stored: int) -> None:
    """1 - 20 + 300 = 281 and 1 + 10 - 300 = -289, times 2 to the row's shift."""
    model, batch = product(stored, (3, 1))
    assert compiled_outputs(model, batch)[0].tolist() == [[281 * 8, -289 * 2]]
    assert run_reference(batch, model.parameters, model.features)[0].tolist() == [[281 * 8, -289 * 2]]


def test_weights_are_stored_as_codes_and_shifts_once_a_row() -> None:
    model, batch = product(4, (3, 1))
    source = emit_c(batch, model.parameters).source
    assert "uint8_t W[3]" in source  # six codes
    assert "kt_shifts_W[2]" in source
    assert source.count("sum << ") == 1


def test_products_that_are_divided_are_refused() -> None:
    """They lose digits one by one, which multiplying the sum would not bring back."""
    model, batch = product(4, (3, 1))
    rows = batch.rows.copy()
    rows[0, 0, Column.SHIFT_TERM] = 1
    with pytest.raises(ValueError, match="rows of W have shifts, and its products are divided"):
        emit_c(dataclasses.replace(batch, rows=rows), model.parameters)
