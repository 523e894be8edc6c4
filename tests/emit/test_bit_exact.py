"""Three executions of fixed-point programs agree bit for bit: the NumPy definition, the batch kernel, the emitted C."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from tests.emit.compiled import compile_sources, needs_compiler
from tests.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches

quick = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


def assert_agreement(model: RandomModel, batches: list[FixedBatch], flags: tuple[str, ...]) -> None:
    candidates = [batch.one(index) for batch in batches for index in range(len(batch))]
    expected = [run_reference(batch, model.parameters, model.features)[0] for batch in candidates]
    native = Simulator(model.program, model.parameters, model.features, Backend.NATIVE)
    for batch in batches:
        if (batch.bits <= 16).all():
            together = run_reference(batch, model.parameters, model.features)
            np.testing.assert_array_equal(native.run(batch), together, err_msg="batch kernel")
    sources = [
        emit_c(batch, model.parameters, name=f"m{number}", function=f"predict{number}")
        for number, batch in enumerate(candidates)
    ]
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_sources(sources, Path(folder), flags)
        for number, source in enumerate(sources):
            outputs = compiled.run(number, model.features)
            np.testing.assert_array_equal(outputs, expected[number], err_msg=source.source)


@needs_compiler
@given(data=st.data(), model=random_models())
@settings(quick, max_examples=110)
def test_random_programs_agree(data: st.DataObject, model: RandomModel) -> None:
    batches = [data.draw(shiftry_batches(model.program, 2)), data.draw(seedot_batches(model.program))]
    assert_agreement(model, batches, ("-O1",))
