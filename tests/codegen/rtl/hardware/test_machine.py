"""Hardware computes what the definition says, bit for bit, in as many cycles as its plan says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.rtl.design import HardwareDesign
from kilotune.codegen.rtl.plan import decidable, make_plan, takes_elements
from kilotune.codegen.rtl.processing import column_nonzeros, papers_shares
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches
from tests.codegen.emit.small_network import classifier
from tests.codegen.rtl.hardware.simulated import simulate

pytestmark = pytest.mark.slow

FAR_APART = [0, 2, 5]
"""Samples of a random model that are small, usual, and overflow."""


@st.composite
def designs(draw: st.DrawFn, model: RandomModel, batch: FixedBatch) -> HardwareDesign:
    """Any unroll factors, processing elements where there may be some, and multiplications of either kind."""
    program, elements = model.program, {}
    lanes = {row: draw(st.sampled_from(factors)) for row, factors in decidable(program, batch).items()}
    for row, operation in enumerate(ir.operations(program.body)):
        if isinstance(operation, ir.MatMul) and takes_elements(operation, program) and draw(st.booleans()):
            counts = column_nonzeros(model.parameters[operation.a.variable])
            elements[row] = papers_shares(counts, draw(st.integers(1, 4)))
    soft = draw(st.frozensets(st.sampled_from(range(len(lanes)))))
    return HardwareDesign(lanes, elements, draw(st.booleans()), draw(st.integers(1, 3)), soft)


def assert_hardware_agrees(model: RandomModel, batch: FixedBatch, design: HardwareDesign) -> None:
    features = model.features[FAR_APART]
    plan = make_plan(batch, model.parameters, design)
    outputs, cycles = simulate(plan, features)
    np.testing.assert_array_equal(outputs, run_reference(batch, model.parameters, features)[0])
    assert set(cycles) == {plan.cycles}


@given(data=st.data(), model=random_models())
@settings(suppress_health_check=list(HealthCheck), database=None, deadline=None, max_examples=40)
def test_random_programs_agree(data: st.DataObject, model: RandomModel) -> None:
    batches = shiftry_batches(model.program, 1) if data.draw(st.booleans()) else seedot_batches(model.program)
    batch = data.draw(batches)
    assert_hardware_agrees(model, batch, data.draw(designs(model, batch)))


def test_features_that_are_late_and_results_that_wait() -> None:
    model, batch = classifier(result_kind=ir.ResultKind.REAL)
    features = model.features[:3]
    outputs, _ = simulate(make_plan(batch, model.parameters), features, gaps=(0, 3, 1))
    np.testing.assert_array_equal(outputs, run_reference(batch, model.parameters, features)[0])


@pytest.mark.parametrize("column", [Column.SHIFT_OUT, Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM])
def test_a_wrong_shift_is_seen(column: Column) -> None:
    """The comparison has teeth: one more shift in one row changes the outputs."""
    model, batch = classifier(result_kind=ir.ResultKind.REAL)
    rows = batch.rows.copy()
    product = next(i for i, o in enumerate(ir.operations(model.program.body)) if isinstance(o, ir.MatMul))
    rows[0, product, column] += 1
    plan = make_plan(dataclasses.replace(batch, rows=rows), model.parameters)
    outputs, _ = simulate(plan, model.features[:3])
    assert (outputs != run_reference(batch, model.parameters, model.features[:3])[0]).any()
