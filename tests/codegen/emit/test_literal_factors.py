"""Literals of products lose the powers of two that the division takes out again: the same integers, whatever is rounded or wraps."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.literal_factors import emitted_rows
from kilotune.codegen.fixed.arithmetic import Rounding, scale_down, wrap
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column

HERE = ir.Location("product.sd", 1, 1)


@given(
    st.sampled_from([*range(-128, 128), 256, 1000, -32768, 12288]),
    st.integers(0, 12),
    st.integers(-2, 3),
    st.sampled_from([8, 16]),
    st.sampled_from(list(Rounding)),
    st.booleans(),
)
@example(64, 2, 0, 8, Rounding.FLOOR, False)
@example(96, 10, -2, 8, Rounding.FLOOR, False)
@example(12288, 12, 0, 16, Rounding.FLOOR, True)
def test_literals_lose_what_divisions_take_out_again(
    number: int, shift_out: int, shift: int, bits: int, rounding: Rounding, is_first: bool
) -> None:
    """Every operand of 8 bits has the same product, and no power of two is left that could go where nothing wraps."""
    roles = {"x": ir.Role.INPUT, "y": ir.Role.TEMPORARY}
    x, y = (ir.Variable(name, (1,), role, HERE) for name, role in roles.items())
    items = (ir.Literal(0.5), ir.whole(x)) if is_first else (ir.whole(x), ir.Literal(0.5))
    program = ir.Program("p", (x, y), (ir.Multiply(ir.whole(y), HERE, *items),), ir.whole(y), ir.ResultKind.REAL)
    batch = ShiftryLowering(program, {}, rounding).lower([[bits, 8]], [[4, 4]])
    literal, scaled = (Column.CONSTANT_A, Column.SHIFT_B) if is_first else (Column.CONSTANT_B, Column.SHIFT_A)
    rows = batch.rows.copy()
    rows[0, 0, [Column.ACC_BITS, Column.SHIFT_OUT, literal, scaled]] = 16, shift_out, number, shift
    batch = dataclasses.replace(batch, rows=rows)
    emitted = emitted_rows(batch)[0, 0]
    kept = [column for column in range(rows.shape[2]) if column not in (literal, Column.SHIFT_OUT)]
    np.testing.assert_array_equal(emitted[kept], rows[0, 0, kept])

    values = np.arange(-(1 << (bits - 1)), 1 << (bits - 1))
    operand = scale_down(values, shift, rounding) if shift >= 0 else wrap(values << -shift, 16)
    results = [
        wrap(scale_down(wrap(operand * int(row[literal]), 16), int(row[Column.SHIFT_OUT]), rounding), 8)
        for row in (rows[0, 0], emitted)
    ]
    np.testing.assert_array_equal(*results)
    assert 0 <= emitted[Column.SHIFT_OUT] <= shift_out
    if bits == 8 and shift >= 0 and -128 <= number < 128 and number:
        assert emitted[Column.SHIFT_OUT] == 0 or emitted[literal] % 2
