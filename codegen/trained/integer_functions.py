"""Functions of one integer of 8 bits as tables of 256, entry by entry what TensorFlow Lite Micro's reference kernels compute.

Sigmoid and tanh are computed there from e**x on 32-bit fractions: a polynomial on a quarter, factors e**-(2**n) for the bits above it, and
Newton's iteration for the quotient (the fixed-point functions of gemmlowp). Here a number is an array of raw integers; how many bits
stand before its point is said by whoever computes with it.
"""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.codegen.ir.requantisation import fixed_multiplier
from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid

ONE = (1 << 31) - 1
"""The largest fraction, which stands for 1."""

INPUT_INTEGER_BITS = 4
"""Before the point of an argument of sigmoid and tanh."""

FARTHEST_STEP = 2.0 ** (INPUT_INTEGER_BITS - 1)

NEWTON_STEPS = 3


def rescaling_entries(given: QuantisationGrid, made: QuantisationGrid) -> tuple[int, ...]:
    """Integers of one grid on another, where they stand for the same real numbers."""
    factor = fixed_multiplier(given.step / made.step)
    scaled = factor.integer(np.arange(LEAST, MOST + 1) - given.zero) + made.zero
    return tuple(np.clip(scaled, LEAST, MOST).tolist())


def logistic_entries(given: QuantisationGrid, made: QuantisationGrid) -> tuple[int, ...]:
    """1 / (1 + e**-x). ValueError for a result that is not on the grid of 1/256 from -128 on, as the kernel has it."""
    if made != QuantisationGrid(2.0**-8, LEAST):
        raise ValueError(f"expected a sigmoid in steps of 1/256 from -128 on, found {made.step!r} and {made.zero}")
    argument, beyond = _argument(given)
    shares = _quotient(_exponential(-np.abs(argument), INPUT_INTEGER_BITS), complement=False)
    shares = np.where(argument > 0, shares, np.where(argument < 0, ONE - shares, 1 << 30))
    return _entries(_rounded_down(shares, 23) + LEAST, beyond)


def tanh_entries(given: QuantisationGrid, made: QuantisationGrid) -> tuple[int, ...]:
    """tanh x. ValueError for a result that is not on the grid of 1/128 around 0, as the kernel has it."""
    if made != QuantisationGrid(2.0**-7, 0):
        raise ValueError(f"expected a tanh in steps of 1/128 around 0, found {made.step!r} and {made.zero}")
    argument, beyond = _argument(given)
    magnitude = _quotient(_exponential(-np.abs(argument), INPUT_INTEGER_BITS + 1), complement=True)
    return _entries(_rounded_down(np.sign(argument) * magnitude, 24), beyond)


def _argument(given: QuantisationGrid) -> tuple[IntArray, IntArray]:
    """Arguments of all 256 integers with INPUT_INTEGER_BITS before the point, and -1 or 1 where these are too few."""
    integers = np.arange(LEAST, MOST + 1, dtype=np.int64) - given.zero
    if given.step >= FARTHEST_STEP:  # not even the integer next to 0 has room
        return np.zeros_like(integers), np.where(integers <= 0, -1, 1)
    factor = fixed_multiplier(given.step * 2.0 ** (31 - INPUT_INTEGER_BITS))
    radius = math.floor(((1 << INPUT_INTEGER_BITS) - 1) * 2.0 ** (31 - INPUT_INTEGER_BITS - factor.shift))
    beyond = np.where(integers <= -radius, -1, np.where(integers >= radius, 1, 0))
    return factor.integer(np.where(beyond == 0, integers, 0)), beyond


def _entries(values: IntArray, beyond: IntArray) -> tuple[int, ...]:
    held = np.clip(values, LEAST, MOST)
    return tuple(np.where(beyond < 0, LEAST, np.where(beyond > 0, MOST, held)).tolist())


def _times(a: IntArray, b: IntArray | int) -> IntArray:
    """The product of fractions, to the nearest, halves upward."""
    return np.asarray((a * b + (1 << 30)) >> 31)


def _rounded_down(values: IntArray, bits: int) -> IntArray:
    """Over 2**bits, to the nearest, halves away from zero."""
    return np.asarray((values + (1 << (bits - 1)) - (values < 0)) >> bits)


def _exponential(x: IntArray, integer_bits: int) -> IntArray:
    """e**x of x <= 0 with so many bits before the point, as a fraction."""
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    rest = (x & (quarter - 1)) - quarter
    result, remainder = _near_zero(rest << integer_bits), rest - x
    for power in range(-2, integer_bits):
        factor = round(math.exp(-(2.0**power)) * 2**31)
        chosen = remainder >> (fraction_bits + power) & 1
        result = np.where(chosen == 1, _times(result, factor), result)
    return np.where(x == 0, ONE, result)


def _near_zero(fractions: IntArray) -> IntArray:
    """e**x from -1/4 to below 0: Taylor's polynomial of the fourth degree around -1/8."""
    middle, third = round(math.exp(-1 / 8) * 2**31), round(2**31 / 3)
    x = fractions + (1 << 28)
    square = _times(x, x)
    cube, fourth = _times(square, x), _times(square, square)
    high = _rounded_down(_times(_rounded_down(fourth, 2) + cube, third) + square, 1)
    return middle + _times(x + high, middle)


def _quotient(x: IntArray, *, complement: bool) -> IntArray:
    """1 / (1 + x), or (1 - x) / (1 + x), of fractions from 0 to 1."""
    denominator = (x + ONE + 1) >> 1  # half of it, to the nearest
    one = 1 << 29
    inverse = round(48 / 17 * one) + _times(denominator, round(-32 / 17 * one))
    for _ in range(NEWTON_STEPS):
        missing = one - _times(denominator, inverse)
        inverse = inverse + (_times(inverse, missing) << 2)
    if complement:
        return np.asarray(np.minimum((inverse - one) << 2, ONE))
    return np.asarray(np.minimum(inverse << 1, ONE))
