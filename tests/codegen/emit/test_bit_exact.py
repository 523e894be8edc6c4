"""Three executions of fixed-point programs agree bit for bit: the NumPy definition, the batch kernel, the emitted C."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import PLAIN, SHAPES
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from tests.codegen.emit.compiled import COMPILERS, compile_sources, needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches
from tests.codegen.emit.small_network import classifier

pytestmark = pytest.mark.slow

quick = settings(suppress_health_check=list(HealthCheck), database=None)


def assert_kernel_agrees(model: RandomModel, batch: FixedBatch) -> None:
    simulator = Simulator(model.program, model.parameters, model.features, Backend.NATIVE)
    expected = run_reference(batch, model.parameters, model.features)
    np.testing.assert_array_equal(simulator.run(batch), expected, err_msg="batch kernel")


def assert_emitted_agrees(model: RandomModel, batch: FixedBatch, flags: tuple[str, ...]) -> None:
    """Every other candidate as compact code."""
    shapes = SHAPES[PLAIN], SHAPES["compact"]
    candidates = [batch.one(index) for index in range(len(batch))]
    sources = [
        emit_c(one, model.parameters, shape=shapes[number % 2], name=f"m{number}", function=f"predict{number}")
        for number, one in enumerate(candidates)
    ]
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_sources(sources, Path(folder), flags)
        for number, one in enumerate(candidates):
            expected = run_reference(one, model.parameters, model.features)[0]
            outputs = compiled.run(number, model.features)
            np.testing.assert_array_equal(outputs, expected, err_msg=sources[number].source)


@needs_compiler
@given(data=st.data(), model=random_models())
@settings(quick, max_examples=80)
def test_shiftry_programs_agree(data: st.DataObject, model: RandomModel) -> None:
    batch = data.draw(shiftry_batches(model.program, 2))
    assert_kernel_agrees(model, batch)
    assert_emitted_agrees(model, batch, ("-O0",))


@needs_compiler
@given(data=st.data(), model=random_models())
@settings(quick, max_examples=80)
def test_seedot_programs_agree(data: st.DataObject, model: RandomModel) -> None:
    batch = data.draw(seedot_batches(model.program))
    assert_kernel_agrees(model, batch)
    assert_emitted_agrees(model, batch, ("-O0",))


@pytest.mark.parametrize("level", ["-O1", "-Os", "-O2", "-O3"])
@needs_compiler
@given(data=st.data(), model=random_models())
@settings(quick, max_examples=8)
def test_optimisation_changes_nothing(level: str, data: st.DataObject, model: RandomModel) -> None:
    """Also under strict aliasing and without -fwrapv, and without a warning at any level."""
    assert_emitted_agrees(model, data.draw(shiftry_batches(model.program, 1)), (level,))
    assert_emitted_agrees(model, data.draw(seedot_batches(model.program)), (level,))


@needs_compiler
@given(data=st.data(), model=random_models())
@settings(quick, max_examples=15)
def test_nothing_is_undefined(data: st.DataObject, model: RandomModel) -> None:
    """Shifts, signed overflow, bounds and alignment: the sanitizer stops a program at the first one."""
    flags = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    assert_emitted_agrees(model, data.draw(shiftry_batches(model.program, 1)), flags)
    assert_emitted_agrees(model, data.draw(seedot_batches(model.program)), flags)


@needs_compiler
@pytest.mark.skipif(len(set(COMPILERS) - {"cc"}) < 2, reason="one C compiler only: install clang to compare two")
@given(data=st.data(), model=random_models())
@settings(quick, max_examples=8)
def test_another_compiler_agrees(data: st.DataObject, model: RandomModel) -> None:
    batch = data.draw(shiftry_batches(model.program, 1))
    expected = run_reference(batch, model.parameters, model.features)[0]
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_sources([emit_c(batch, model.parameters)], Path(folder), ("-O2",), COMPILERS[1])
        np.testing.assert_array_equal(compiled.run(0, model.features), expected)


@needs_compiler
@pytest.mark.parametrize("column", [Column.SHIFT_OUT, Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM])
def test_a_wrong_shift_is_seen(column: Column, tmp_path: Path) -> None:
    """The comparison has teeth: one more shift in one row changes the outputs."""
    model, batch = classifier(result_kind=ir.ResultKind.REAL)
    expected = run_reference(batch, model.parameters, model.features)[0]
    rows = batch.rows.copy()
    product = next(i for i, o in enumerate(ir.operations(model.program.body)) if isinstance(o, ir.MatMul))
    rows[0, product, column] += 1
    broken = dataclasses.replace(batch, rows=rows)
    compiled = compile_sources([emit_c(broken, model.parameters)], tmp_path)
    assert (compiled.run(0, model.features) != expected).any()


@needs_compiler
@pytest.mark.parametrize("sparse", [False, True])
def test_a_sparse_parameter_in_a_plain_product(sparse: bool) -> None:
    """TreeSum halves zeros too, so only `|*|` may leave them out."""
    here = ir.Location("sparse.sd", 1, 1)
    x, w, y = (
        ir.Variable("X", (6, 1), ir.Role.INPUT, here),
        ir.Variable("W", (2, 6), ir.Role.PARAMETER, here, sparse=True),
        ir.Variable("Y", (2, 1), ir.Role.TEMPORARY, here),
    )
    product = ir.MatMul(ir.whole(y), here, ir.whole(w), ir.whole(x), sparse)
    program = ir.Program("sparse", (x, w, y), (product,), ir.whole(y), ir.ResultKind.REAL)
    values = np.array([[0.9, 0, 0, 0.7, 0, 0], [0, 0, -0.8, 0, 0, 0.6]])
    model = RandomModel(program, {"W": values}, np.random.default_rng(0).uniform(-1, 1, (9, 6)))
    batch = SeeDotLowering(program, {"X": 1.0, "W": 0.9}).lower(SeeDotParameters(16, 2), {})
    assert batch.rows[0, 0, Column.SHIFT_TERM if sparse else Column.HALVINGS] > 0
    assert_emitted_agrees(model, batch, ("-O0",))


@needs_compiler
def test_the_kernel_leaves_overlapping_updates_to_the_definition() -> None:
    """A vector reversed into itself: element by element the second half would read what the first has written."""
    here = ir.Location("reverse.sd", 1, 1)
    given_x = ir.Variable("X", (4,), ir.Role.INPUT, here)
    held = ir.Variable("H", (4,), ir.Role.TEMPORARY, here)
    whole = ir.whole(held)
    backwards = dataclasses.replace(whole, strides=(-1,), offset=ir.Affine(3))
    body = (ir.Copy(whole, here, ir.whole(given_x)), ir.Copy(whole, here, backwards))
    program = ir.Program("reverse", (given_x, held), body, whole, ir.ResultKind.REAL)
    model = RandomModel(program, {}, np.arange(8.0).reshape(2, 4))
    assert_kernel_agrees(model, ShiftryLowering(program, {}).lower([[8, 8]], [[3, 3]]))
