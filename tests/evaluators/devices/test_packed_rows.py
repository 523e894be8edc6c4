"""Packed parameters and rows with scales of their own on simulated devices: bit for bit what the simulator says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.simulated import of_emitted, quantised
from tests.codegen.emit.random_programs import RandomModel
from tests.codegen.emit.row_products import row_products
from tests.evaluators.devices.toolchains import needs_avr, needs_cortex

pytestmark = pytest.mark.slow


def assert_exact(target: AvrTarget | CortexTarget, examples: int) -> None:
    @seed(15)
    @given(row_products())
    @settings(
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
        max_examples=examples,
        phases=[Phase.generate],
    )
    def exact(drawn: tuple[RandomModel, FixedBatch]) -> None:
        model, batch = drawn
        source = emit_c(batch, model.parameters)
        _, run = target.run(of_emitted(source), quantised(source, model.features))
        np.testing.assert_array_equal(run.outputs, run_reference(batch, model.parameters, model.features)[0])

    exact()


@needs_avr
def test_on_an_avr() -> None:
    assert_exact(AvrTarget("atmega328p"), 15)


@needs_cortex
@pytest.mark.parametrize("processor", ["cortex-m0plus", "cortex-m4"])
def test_on_a_cortex(processor: str) -> None:
    assert_exact(CortexTarget(processor), 6)
