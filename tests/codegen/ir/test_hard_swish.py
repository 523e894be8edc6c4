"""HardSwish against ONNX, against its integers by hand, and bit for bit in all executions at any scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.ir.pointwise.hard_swish import HardSwish
from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.ir.pointwise import assert_executions_agree, integers_of, one_operation, onnx_results

pytestmark = pytest.mark.slow

NUMBERS = np.array([-100.0, -3.0, -1.5, 0.0, 0.5, 3.0, 100.0])
SCALAR = ir.View("", (), ())
OPERATION = HardSwish(SCALAR, ir.Location("", 1, 1), SCALAR)


def compiled(expression: str) -> ir.Program:
    return elaborate(parse(f"let X = (7) in [-100.0, 100.0] in {expression}"), "test")


def test_it_is_onnx_s() -> None:
    found = run_float(compiled("hardswish(X)"), {}, NUMBERS[None]).outputs[0]
    np.testing.assert_allclose(found, onnx_results("HardSwish", NUMBERS), rtol=1e-6, atol=1e-6)


def test_it_takes_one_argument() -> None:
    with pytest.raises(InputError, match="arguments of hardswish: expected 1, found 2"):
        compiled("hardswish(X, 3.0)")


def test_integers_by_hand() -> None:
    """At 8 bits and scale 4: 16 is 1, times (16 * 43 / 2**6 + 32) / 64 = 42 / 64; 48 is 3, at the end of the line; -48 is -3."""
    assert integers_of(OPERATION, [16, 48, 127, 0, -48, -128], 8, 4, Rounding.TOWARD_ZERO) == [10, 48, 127, 0, 0, 0]


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("scale", range(-6, 30))
def test_integers_are_near_the_reals_at_any_scale(bits: int, scale: int) -> None:
    """Within the place of the last bit of the operand or of the gate, and 1 % for the sixth of 8 bits."""
    numbers = np.unique(np.linspace(-(1 << (bits - 1)), (1 << (bits - 1)) - 1, 4001).astype(np.int64))
    found = np.array(integers_of(OPERATION, numbers.tolist(), bits, scale, Rounding.NEAREST))
    reals = np.ldexp(numbers.astype(float), -scale)
    expected = OPERATION.real(reals)
    seen_step = 2.0 ** (max(bits - 16, 0) - scale) / 6
    gate_step = 2.0 ** -min(bits - 2, 14) + (seen_step if bits == 32 else 0.0)
    allowed = (
        1.01 * np.ldexp(1.0, -scale)
        + np.abs(reals) * gate_step
        + (0.01 if bits == 8 else 1e-4) * np.minimum(np.abs(reals), 3)
    )
    assert (np.abs(np.ldexp(found.astype(float), -scale) - expected) <= allowed).all()


@needs_compiler
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_executions_agree(seed: int) -> None:
    assert_executions_agree(one_operation(HardSwish), seed)
