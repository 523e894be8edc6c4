"""RAM that fast inner loops take besides variables, as it is told before any code is written, against emitted programs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.blocks import follows
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.cost_counts import CostFeatures
from tests.codegen.emit.random_programs import RandomModel
from tests.codegen.emit.single_products import single_products
from tests.evaluators.devices.candidates import bundled


def told(model: RandomModel, batch: FixedBatch, shape: str) -> int:
    features = CostFeatures(model.program, model.parameters, SHAPES[shape])
    return max(
        int(features.scratch_bytes(batch)[0]), int(Footprint(model.program, model.parameters).scratch_bytes(batch)[0])
    )


@given(made=single_products(), shape=st.sampled_from(sorted(SHAPES)))
@settings(suppress_health_check=list(HealthCheck), database=None, max_examples=40)
def test_scratch_arrays_of_single_products(made: tuple[RandomModel, FixedBatch], shape: str) -> None:
    """More only where two windows are met in the image, unless results lie over it, which is not known before variables are placed."""
    model, batch = made
    emitted = emit_c(batch, model.parameters, shape=SHAPES[shape]).scratch_bytes
    (operation,) = ir.operations(model.program.body)
    if SHAPES[shape].places > 1 and isinstance(operation, ir.Conv2D) and follows(operation):
        assert emitted <= told(model, batch, shape)
    else:
        assert emitted == told(model, batch, shape)


@pytest.mark.parametrize("shape", ["rows4", "places2", "unrolled16"])
@pytest.mark.parametrize("name", ["lenet-digits", "gru16-digits"])
def test_scratch_arrays_of_bundled_models(name: str, shape: str) -> None:
    made = bundled(name, samples=1, seed=5)
    model = RandomModel(made.batch.program, made.parameters, made.features)
    assert emit_c(made.batch, made.parameters, shape=SHAPES[shape]).scratch_bytes == told(model, made.batch, shape)
