"""Arithmetic on fractions of 32 bits as TensorFlow Lite's reference kernels have it (gemmlowp's fixed point): products, quotients, e**x.

A number is an array of raw integers; how many bits stand before its point is said by whoever computes with it, and where nothing is said,
none: 2**31 would be 1, and ONE stands for it.
"""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen.arrays import IntArray

ONE = (1 << 31) - 1
"""The largest fraction, which stands for 1."""

INVERSE_BITS = 29
"""Behind the point of an inverse while Newton's iteration goes on."""

INVERSE_START = round(48 / 17 * 2**INVERSE_BITS)
INVERSE_SLOPE = round(-32 / 17 * 2**INVERSE_BITS)
"""The line that the iteration begins with: the best one for the inverse between a half and 1."""

NEWTON_STEPS = 3


def times(a: IntArray, b: IntArray | int) -> IntArray:
    """The product with a fraction, to the nearest, halves upward."""
    return np.asarray((a * b + (1 << 30)) >> 31)


def rounded_down(values: IntArray, bits: int | IntArray) -> IntArray:
    """Over 2**bits, to the nearest, halves away from zero; bits > 0."""
    return np.asarray((values + (1 << (bits - 1)) - (values < 0)) >> bits)


def inverse(x: IntArray) -> IntArray:
    """1 / (1 + x) of fractions from 0 to 1, with two bits before the point."""
    denominator = (x + ONE + 1) >> 1  # half of it, to the nearest
    result = INVERSE_START + times(denominator, INVERSE_SLOPE)
    for _ in range(NEWTON_STEPS):
        missing = (1 << INVERSE_BITS) - times(denominator, result)
        result = result + (times(result, missing) << 2)
    return np.asarray(result)


def inverse_fraction(x: IntArray) -> IntArray:
    """1 / (1 + x) of fractions from 0 to 1, as a fraction."""
    return np.asarray(np.minimum(inverse(x) << 1, ONE))


def complement_fraction(x: IntArray) -> IntArray:
    """(1 - x) / (1 + x) of fractions from 0 to 1, as a fraction."""
    return np.asarray(np.minimum((inverse(x) - (1 << INVERSE_BITS)) << 2, ONE))


def exponential(x: IntArray, integer_bits: int) -> IntArray:
    """e**x of x <= 0 with so many bits before the point, as a fraction: a polynomial on a quarter, and a factor e**-(2**n) for each bit
    above it."""
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    rest = (x & (quarter - 1)) - quarter
    result, remainder = _near_zero(rest << integer_bits), rest - x
    for power in range(-2, integer_bits):
        factor = round(math.exp(-(2.0**power)) * 2**31)
        chosen = remainder >> (fraction_bits + power) & 1
        result = np.where(chosen == 1, times(result, factor), result)
    return np.where(x == 0, ONE, result)


def _near_zero(fractions: IntArray) -> IntArray:
    """e**x from -1/4 to below 0: Taylor's polynomial of the fourth degree around -1/8."""
    middle, third = round(math.exp(-1 / 8) * 2**31), round(2**31 / 3)
    x = fractions + (1 << 28)
    square = times(x, x)
    cube, fourth = times(square, x), times(square, square)
    high = rounded_down(times(rounded_down(fourth, 2) + cube, third) + square, 1)
    return middle + times(x + high, middle)
