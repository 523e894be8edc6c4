"""Tables of functions that quantised networks apply."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.onnx.function_tables import function_values
from kilotune.codegen.onnx.functions import SHIFTED_POWER
from kilotune.codegen.onnx.graph import FunctionNode


@pytest.mark.parametrize(("bias", "beta", "exponent"), [(1.0, 0.75, 6), (1.0, 0.75, -4), (2.0, 0.5, 3), (0.5, 1.0, 10)])
def test_the_power_in_an_lrn_loses_least_over_all_that_rounds_to_a_number(
    bias: float, beta: float, exponent: int
) -> None:
    """The value x whose square is all of the sum s: the error of x / (bias + s)**beta is least, found by another way. At the argument 0 the
    power itself would be bias**-beta, the largest there is, for sums of up to half a step."""
    node = FunctionNode(("sums",), "factors", SHIFTED_POWER, (bias, -beta))
    values = function_values(node, (0, 40), exponent, 4)
    step = 2.0**exponent
    for argument, value in enumerate(values):
        low, high = max(argument - 0.5, 0.0) * step, (argument + 0.5) * step
        sums = np.linspace(low, high, 20_001)[1:]
        assert value == pytest.approx(_best_factor(sums, (bias + sums) ** -beta), rel=2e-3)
    if step > bias:
        assert values[0] < 0.9 * bias**-beta


def _best_factor(sums: FloatArray, exact: FloatArray) -> float:
    def squared_error(factor: float) -> float:
        return float(np.sum(sums * (factor - exact) ** 2))

    return float(minimize_scalar(squared_error, bounds=(0, exact.max()), method="bounded", options={"xatol": 1e-9}).x)


def test_a_table_of_an_lrn_that_begins_below_zero_stays_finite() -> None:
    node = FunctionNode(("sums",), "factors", SHIFTED_POWER, (1.0, -0.75))
    values = function_values(node, (-3, 3), 5, 4)
    assert values[:3] == pytest.approx([1.0, 1.0, 1.0])
    assert np.all(np.diff(values) <= 0)
