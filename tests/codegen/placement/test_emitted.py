"""C emitted at any placement that the rules allow computes what the definition of the semantics does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.interference import find_interference
from kilotune.codegen.placement import Placer
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, shiftry_batches
from tests.codegen.placement.test_clobbering import any_valid_placement

pytestmark = pytest.mark.slow


@needs_compiler
@given(data=st.data(), model=random_models(), seed=st.integers(0, 2**32 - 1))
@settings(suppress_health_check=list(HealthCheck), database=None, max_examples=25)
def test_any_valid_placement_is_bit_exact(data: st.DataObject, model: RandomModel, seed: int) -> None:
    batch = data.draw(shiftry_batches(model.program, 1))
    bits = {v.name: int(b) for v, b in zip(model.program.variables, batch.bits[0], strict=True)}
    expected = run_reference(batch, model.parameters, model.features)[0]
    placer = Placer(find_interference(model.program))
    sources = [
        emit_c(
            batch,
            model.parameters,
            any_valid_placement(placer, bits, seed + turn),
            name=f"m{turn}",
            function=f"predict{turn}",
        )
        for turn in range(3)
    ]
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_sources(sources, Path(folder), ("-O2",))
        for turn, source in enumerate(sources):
            np.testing.assert_array_equal(compiled.run(turn, model.features), expected, err_msg=source.source)
