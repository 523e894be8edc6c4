"""Abs against ONNX, against its integers by hand, and bit for bit in all executions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.ir.pointwise.abs import Abs
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.ir.pointwise import assert_executions_agree, integers_of, one_operation, onnx_results

pytestmark = pytest.mark.slow

NUMBERS = np.array([-100.0, -8.0, -0.25, 0.0, 0.25, 100.0])


def compiled(expression: str) -> ir.Program:
    return elaborate(parse(f"let X = (6) in [-100.0, 100.0] in {expression}"), "test")


def test_it_is_onnx_s() -> None:
    found = run_float(compiled("abs(X)"), {}, NUMBERS[None]).outputs[0]
    np.testing.assert_array_equal(found, onnx_results("Abs", NUMBERS))


def test_it_takes_one_argument() -> None:
    with pytest.raises(InputError, match="arguments of abs: expected 1, found 2"):
        compiled("abs(X, X)")


@pytest.mark.parametrize("rounding", list(Rounding))
def test_integers_by_hand(rounding: Rounding) -> None:
    """Nothing is divided, so nothing is rounded; -128 has no counterpart in 8 bits."""
    operation = Abs(ir.View("", (), ()), ir.Location("", 1, 1), ir.View("", (), ()))
    assert integers_of(operation, [-127, -1, 0, 1, 127, -128], 8, 4, rounding) == [127, 1, 0, 1, 127, -128]


@needs_compiler
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_executions_agree(seed: int) -> None:
    assert_executions_agree(one_operation(Abs), seed)
