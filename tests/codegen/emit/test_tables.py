"""Tables of exponentials as they are stored: without the end that is one number, and the same function."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.operators import CExpression, Operators
from kilotune.codegen.emit.tables import Functions
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.exponential import Exponential, seedot_exponential, shiftry_exponential

COARSE = Exponential(8, 4, 6, 1, -30, 45, (1, 2, 5, 9, 9, 9, 3), 3)


@pytest.mark.parametrize(
    ("table", "last"),
    [
        (shiftry_exponential(8), 67),
        (shiftry_exponential(16), 156 << 7),
        (dataclasses.replace(COARSE, coarse=(1, 2, 5, 9, 9, 9)), 24),
        (dataclasses.replace(COARSE, coarse=(4,) * 6), 0),
        (dataclasses.replace(COARSE, coarse=(1, 2, 5, 9, 9, 7)), 40),
        (COARSE, 24),
        (seedot_exponential(8, 3, 5, -2.0, 2.0, 6), 128),
    ],
)
def test_what_is_left_out_is_one_number(table: Exponential, last: int) -> None:
    assert table.last_told_apart == last
    other = dataclasses.replace(table, limit=last)
    arguments, rounding = np.arange(-(1 << 15), 1 << 15), Rounding.TOWARD_ZERO
    np.testing.assert_array_equal(table(arguments, rounding), other(arguments, rounding))
    if last and not table.fine:
        less = dataclasses.replace(table, limit=last - 1)
        assert (table(arguments, rounding) != less(arguments, rounding)).any()


def test_the_array_ends_with_the_first_of_them() -> None:
    here = ir.Location("table.sd", 1, 1)
    x, y = ir.Variable("x", (1,), ir.Role.INPUT, here), ir.Variable("y", (1,), ir.Role.TEMPORARY, here)
    functions = Functions(Operators(Rounding.TOWARD_ZERO))
    functions.apply(ir.Exp(ir.whole(y), here, ir.whole(x)), shiftry_exponential(8), CExpression("v", 8), 0)
    (array,) = functions.arrays
    assert "kt_table0[68]" in array.definition
    assert array.definition.split("=")[1].strip().endswith("1, 0\n};")
    assert array.size_bytes == 68
    assert "if (v < (-67)) v = (-67);" in functions.definitions[0]
