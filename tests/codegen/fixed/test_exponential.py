"""Both exponential schemes over their whole input range, ends and beyond."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding, get_scale
from kilotune.codegen.fixed.exponential import seedot_exponential, shiftry_exponential
from kilotune.evaluators.fixed_point.reference import evaluate_function

from .programs import HERE, variable

VIEW = ir.whole(variable("v", (1,)))
ALL_16_BIT = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)


def test_flash_of_the_tables() -> None:
    assert shiftry_exponential(16).table_bytes == 768  # 0.75 KB
    assert shiftry_exponential(8).table_bytes == 128
    assert seedot_exponential(16, 14, 11, -8.0, 0.0, 6).table_bytes == 256  # 0.25 KB


def test_shiftry_scales() -> None:
    assert (shiftry_exponential(16).input_scale, shiftry_exponential(16).scale) == (11, 14)
    assert (shiftry_exponential(8).input_scale, shiftry_exponential(8).scale) == (4, 6)


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(("bits", "tolerance"), [(16, 3), (8, 1)])
def test_shiftry_is_right_for_every_argument(bits: int, tolerance: int, rounding: Rounding) -> None:
    """Units in the last place; positive arguments give e**0, as the tables cover x <= 0."""
    table = shiftry_exponential(bits)
    exact = np.exp(np.minimum(ALL_16_BIT, 0) / 2**table.input_scale) * 2**table.scale
    assert np.abs(table(ALL_16_BIT, rounding) - exact).max() <= tolerance


@pytest.mark.parametrize("largest", [0.3, 1.0, 2.5, 7.0])
def test_shiftry_with_positive_arguments(largest: float) -> None:
    table = shiftry_exponential(16, largest)
    x = np.clip(ALL_16_BIT, None, int(largest * 2**11))
    exact = np.exp(x / 2**11)
    assert (np.abs(table(x, Rounding.FLOOR) / 2.0**table.scale - exact) <= 4 * 2.0**-table.scale).all()
    assert table(np.array([1 << 14]), Rounding.FLOOR)[0] <= (1 << 15) - 1  # beyond the largest: no overflow


@pytest.mark.parametrize("index_bits", [4, 5, 6, 7])
@pytest.mark.parametrize(("low", "high"), [(-8.0, 0.0), (-3.0, 0.5), (0.0, 4.0), (-0.01, 0.0)])
@pytest.mark.parametrize(("bits", "scale"), [(16, 11), (16, 8), (8, 3)])
def test_seedot_inside_its_range_and_beyond(bits: int, scale: int, low: float, high: float, index_bits: int) -> None:
    """Relative to the largest value: the error of dropping low bits of x, and of one unit in each factor."""
    maxscale = get_scale(float(np.exp(high)), bits)  # P as the search would choose it: the largest value just fits
    table = seedot_exponential(bits, maxscale, scale, low, high, index_bits)
    x = ALL_16_BIT if bits == 16 else np.arange(-128, 128, dtype=np.int64)
    inside = np.clip(x, np.floor(low * 2**scale), np.ceil(high * 2**scale))
    exact = np.exp(inside / 2**scale)
    step = 2.0 ** max(table.fine_shift if table.fine else table.coarse_shift, 0) / 2**scale
    shifted_out = 2.0 ** max(table.coarse_operand_shift, table.fine_operand_shift)
    relative = np.expm1(step) + 3 * shifted_out / 2 ** (bits - 2)
    assert (np.abs(table(x, Rounding.FLOOR) / 2.0**table.scale - exact) <= relative * exact.max()).all()


@pytest.mark.parametrize(("bits", "tolerance"), [(16, 4), (8, 2)])
@pytest.mark.parametrize("function", ["sigmoid", "tanh"])
def test_sigmoid_and_tanh_for_every_argument(function: str, bits: int, tolerance: int) -> None:
    """Shiftry Section 5.4.1; the public tool's 16-bit tanh reads outside its table beyond 8 (tanh(15) = 0.023)."""
    table = shiftry_exponential(bits)
    x = ALL_16_BIT if bits == 16 else np.arange(-128, 128, dtype=np.int64)
    real = x / 2**table.input_scale
    if function == "sigmoid":
        operation, argument, exact = ir.Sigmoid(VIEW, HERE, VIEW), x, 1 / (1 + np.exp(-real))
    else:
        operation, argument, exact = ir.Tanh(VIEW, HERE, VIEW), 2 * x, np.tanh(real)
    values = evaluate_function(operation, argument, table, Rounding.FLOOR)
    assert np.abs(values - exact * 2**table.scale).max() <= tolerance
    if function == "tanh":
        assert np.array_equal(values, -evaluate_function(operation, -argument, table, Rounding.FLOOR))


@pytest.mark.parametrize(("low", "high"), [(-800.0, -744.0), (-1e30, -700.0), (-2000.0, -1500.0), (-1e300, 1e300)])
@pytest.mark.parametrize("input_scale", [-80, -5, 0, 8, 14])
def test_ranges_whose_exponentials_leave_the_doubles(low: float, high: float, input_scale: int) -> None:
    """Entries behind the last one that is read saturate instead of overflowing."""
    for bits in (8, 16):
        table = seedot_exponential(bits, 8, input_scale, low, high, 6)
        largest = (1 << (bits - 1)) - 1
        assert all(0 <= entry <= largest for entry in (*table.coarse, *table.fine))
