"""Every pointwise operator on simulated devices, at widths, scales and roundings of all kinds, equals the definition."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.cost_model import CostModel
from kilotune.evaluators.devices import shipped_cost_table
from kilotune.evaluators.divergence import run_checked
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.simulated import of_emitted, quantised
from tests.codegen.ir.pointwise import candidates, hard_features, one_operation
from tests.evaluators.devices.toolchains import needs_avr, needs_cortex


@pytest.mark.slow
@needs_avr
@pytest.mark.parametrize("kind", ir.POINTWISE, ids=lambda kind: kind.__name__)
def test_avr(kind: type[ir.Pointwise]) -> None:
    for number, rounding in enumerate(Rounding):
        random = np.random.default_rng(number)
        features, program = hard_features(random, 6), one_operation(kind)
        for batch in candidates(program, random, rounding):
            expected = run_reference(batch, {}, features)[0]
            run_checked(emit_c(batch, {}), batch, {}, features, expected, AvrTarget("atmega2560"))


@pytest.mark.slow
@needs_cortex
@pytest.mark.parametrize("kind", ir.POINTWISE, ids=lambda kind: kind.__name__)
def test_cortex(kind: type[ir.Pointwise]) -> None:
    random = np.random.default_rng(9)
    features, program = hard_features(random, 6), one_operation(kind)
    for batch in candidates(program, random, Rounding.TOWARD_ZERO):
        expected = run_reference(batch, {}, features)[0]
        run_checked(emit_c(batch, {}), batch, {}, features, expected, CortexTarget("cortex-m0plus"))


@needs_avr
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", ir.POINTWISE, ids=lambda kind: kind.__name__)
def test_costs_follow_from_what_the_operator_says_it_computes(kind: type[ir.Pointwise], bits: int) -> None:
    """Also for operators that no cost table was fitted to: their multiplications, divisions and comparisons are counted."""
    program, table = one_operation(kind), shipped_cost_table("avr")
    assert table is not None
    batch = ShiftryLowering(program, {}).lower([[bits, bits]], [[bits - 4, bits - 4]])
    source = emit_c(batch, {})
    features = np.random.default_rng(0).normal(0, 3, (8, 12))
    measured = AvrTarget().run(of_emitted(source), quantised(source, features))[1].cycles.mean()
    predicted = float(CostModel(program, {}, table).cycles(batch)[0])
    # of what no table was fitted to: a LeakyRelu of 16 bits is predicted 38 to 51 % too slow by tables of different fits
    assert 0.7 < predicted / measured < 1.6
