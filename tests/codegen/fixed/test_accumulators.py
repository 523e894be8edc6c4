"""Sums at 16 and at 32 bits, against sums written out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Accumulator, quantise
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column
from kilotune.evaluators.fixed_point.reference import run_reference

from .programs import no_features, program, seedot_section_3, variable


def test_seedot_keeps_the_whole_product_of_a_wide_sum() -> None:
    """The paper's footnote 3: a wider multiplication, and the low half of the product discarded, not bits of the operands."""
    source, parameters = seedot_section_3()
    magnitudes = {name: float(np.abs(a).max()) for name, a in parameters.items()}
    x, w = quantise(parameters["x"], 8, 7), quantise(parameters["w"], 8, 6)
    exact = float((parameters["w"] @ parameters["x"])[0, 0])
    for accumulator in (Accumulator.NARROW, Accumulator.WIDE):
        batch = SeeDotLowering(source, magnitudes, accumulator=accumulator).lower(SeeDotParameters(8, 5), {})
        found = int(run_reference(batch, parameters, no_features())[0, 0, 0])
        assert found == int(np.trunc(w * x.T / 2**8).sum())
        assert abs(found / 2**5 - exact) < abs(-98 / 2**5 - exact)


def test_seedot_sums_are_as_wide_as_the_program_by_default() -> None:
    source, parameters = seedot_section_3()
    magnitudes = {name: float(np.abs(a).max()) for name, a in parameters.items()}
    for accumulator, width in ((Accumulator.DOUBLE, 16), (Accumulator.NARROW, 16), (Accumulator.WIDE, 32)):
        batch = SeeDotLowering(source, magnitudes, accumulator=accumulator).lower(SeeDotParameters(16, 12), {})
        assert batch.rows[0, 0, Column.ACC_BITS] == width


@pytest.mark.parametrize(("accumulator", "bits"), [(Accumulator.NARROW, 16), (Accumulator.WIDE, 32)])
def test_shiftry_sums_wrap_at_their_width(accumulator: Accumulator, bits: int) -> None:
    """16-bit operands that no parameter makes room for: the sum of whole products modulo 2**bits."""
    generator = np.random.default_rng(7)
    parameters = {"a": generator.uniform(-1, 1, (3, 5)), "b": generator.uniform(-1, 1, (5, 1))}
    variables = [
        variable("a", (3, 5), ir.Role.PARAMETER),
        variable("b", (5, 1), ir.Role.PARAMETER),
        variable("t", (3, 1)),
    ]
    a, b, t = (ir.whole(v) for v in variables)
    here = ir.Location("sum.sd", 1, 1)
    source = program("sum", variables, (ir.MatMul(t, here, a, b),), "t")
    batch = ShiftryLowering(source, {}, accumulator=accumulator).lower([[16, 16, 16]], [[10, 10, 20]])
    row = batch.rows[0, 0]
    assert row[Column.ACC_BITS] == bits
    whole = [quantise(parameters[n], 16, int(s)) for n, s in zip("ab", batch.scales[0], strict=False)]
    products = whole[0].astype(object)[:, :, None] * whole[1].astype(object)[None]
    half, modulus = 1 << (bits - 1), 1 << bits
    sums = [sum(int(v) >> 0 for v in line.reshape(-1)) for line in products]
    wrapped = [(s + half) % modulus - half for s in sums]
    down = [int(np.trunc(s / 2.0 ** int(row[Column.SHIFT_OUT]))) for s in wrapped]
    expected = [(d + (1 << 15)) % (1 << 16) - (1 << 15) for d in down]
    assert run_reference(batch, parameters, no_features())[0, 0].tolist() == expected


def test_the_default_is_wider_for_16_bit_operands_only() -> None:
    variables = [
        variable("a", (3, 5), ir.Role.PARAMETER),
        variable("b", (5, 1), ir.Role.PARAMETER),
        variable("t", (3, 1)),
    ]
    a, b, t = (ir.whole(v) for v in variables)
    source = program("sum", variables, (ir.MatMul(t, ir.Location("sum.sd", 1, 1), a, b),), "t")
    widths = {
        accumulator: [
            int(
                ShiftryLowering(source, {}, accumulator=accumulator)
                .lower([[n] * 3], [[5] * 3])
                .rows[0, 0, Column.ACC_BITS]
            )
            for n in (8, 16)
        ]
        for accumulator in Accumulator
    }
    assert widths == {Accumulator.WIDE: [32, 32], Accumulator.DOUBLE: [16, 32], Accumulator.NARROW: [16, 16]}
