"""LeakyRelu against ONNX, against its integers by hand, and bit for bit in all executions at any slope and scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.ir.pointwise.leaky_relu import LeakyRelu
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.ir.pointwise import assert_executions_agree, integers_of, one_operation, onnx_results

pytestmark = pytest.mark.slow

NUMBERS = np.array([-100.0, -8.0, -1.0, -0.25, 0.0, 0.25, 100.0])


def compiled(expression: str) -> ir.Program:
    return elaborate(parse(f"let X = (7) in [-100.0, 100.0] in {expression}"), "test")


@pytest.mark.parametrize(("call", "slope"), [("leakyrelu(X, 0.125)", 0.125), ("leakyrelu(X)", None)])
def test_it_is_onnx_s(call: str, slope: float | None) -> None:
    found = run_float(compiled(call), {}, NUMBERS[None]).outputs[0]
    np.testing.assert_allclose(found, onnx_results("LeakyRelu", NUMBERS, **({} if slope is None else {"alpha": slope})))


def test_a_constant_is_folded() -> None:
    (operation,) = compiled("leakyrelu(0.0 - 2.0, 0.25) * X").body
    assert operation.a == ir.Literal(-0.5)


@pytest.mark.parametrize("call", ["leakyrelu(X, 1.5)", "leakyrelu(X, 0.0)", "leakyrelu(X, 0 - 1)"])
def test_other_slopes_are_refused_where_they_stand(call: str) -> None:
    with pytest.raises(
        InputError, match=r"model.sd:1:35: constants of leakyrelu: expected a slope above 0 and below 1"
    ):
        compiled(call)


@pytest.mark.parametrize("call", ["leakyrelu(X, X)", "leakyrelu(X, 0.1, 0.2)", "leakyrelu()"])
def test_other_arguments_are_refused(call: str) -> None:
    with pytest.raises(InputError, match="of leakyrelu: expected"):
        compiled(call)


def test_integers_by_hand() -> None:
    """-7 / 8 at each rounding; 0.01 at 8 bits is 81 / 2**13, so -128 becomes -1.27."""
    eighth = LeakyRelu(ir.View("", (), ()), ir.Location("", 1, 1), ir.View("", (), ()), 0.125)
    constants = eighth.constants(8, 4)
    assert (int(constants.b), int(constants.shift)) == (1, 3)
    rounded = {Rounding.TOWARD_ZERO: 0, Rounding.FLOOR: -1, Rounding.NEAREST: -1}
    for rounding, expected in rounded.items():
        assert integers_of(eighth, [-7, 7, 0], 8, 4, rounding) == [expected, 7, 0]
    hundredth = LeakyRelu(ir.View("", (), ()), ir.Location("", 1, 1), ir.View("", (), ()))
    constants = hundredth.constants(8, 4)
    assert (int(constants.b), int(constants.shift)) == (81, 13)
    assert integers_of(hundredth, [-128, 127], 8, 4, Rounding.TOWARD_ZERO) == [-1, 127]


@needs_compiler
@given(st.floats(1e-12, 0.999), st.integers(0, 2**32 - 1))
@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_executions_agree_at_any_slope(slope: float, seed: int) -> None:
    assert_executions_agree(one_operation(LeakyRelu, slope=slope), seed)
