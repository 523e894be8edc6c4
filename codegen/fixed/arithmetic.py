"""The integer arithmetic of fixed-point programs: wrap-around, scaling by powers of two, quantisation.

Overflow wraps in two's complement. How a division by a power of two rounds is a property of the program
(`Rounding`), not an accident of a backend. All functions take and return int64 arrays that hold the exact value.
"""

from __future__ import annotations

import enum
import math

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, IntArray

MAX_SHIFT = 31
"""Shift counts are clamped to one less than the widest accumulator, 32 bits."""

FLOAT_EXPONENT = 1000
"""Powers of two with exponents up to it, of either sign, are floats."""


class Rounding(enum.Enum):
    """How `x / 2**n` becomes an integer."""

    TOWARD_ZERO = "toward-zero"  # C's division: SeeDot's `/`, and the public tool
    FLOOR = "floor"  # an arithmetic right shift: the figures printed in Shiftry Section 3
    NEAREST = "nearest"  # floor(x / 2**n + 1/2)


class Accumulator(enum.Enum):
    """How wide the sum of a matrix product is; it wraps there.

    Under Shiftry's rules; SeeDot's have one width for everything, DOUBLE here, and products and sums of at least 16 bits
    (NARROW) or 32 (WIDE) where that is asked for.
    """

    WIDE = "wide"  # 32 bits, whatever the operands
    DOUBLE = "double"  # twice the wider operand (the type annotations of Shiftry Section 3)
    NARROW = "narrow"  # 16 bits, whatever the operands: an 8-bit processor adds them at half the cost


def wrap(values: IntArray, bits: int) -> IntArray:
    """Two's complement of the low `bits` bits."""
    half = 1 << (bits - 1)
    return np.asarray(((values + half) & ((1 << bits) - 1)) - half)


def scale_down(values: IntArray, shift: int, rounding: Rounding) -> IntArray:
    """`values / 2**shift`, rounded; a negative shift multiplies (exactly, so the caller wraps)."""
    if shift <= 0:
        return np.asarray(values << -shift)
    if rounding is Rounding.TOWARD_ZERO:
        return np.asarray((values + ((values >> 63) & ((1 << shift) - 1))) >> shift)
    if rounding is Rounding.NEAREST:
        return np.asarray((values + (1 << (shift - 1))) >> shift)
    return np.asarray(values >> shift)


def quantise(values: npt.ArrayLike, bits: int, scale: int) -> IntArray:
    """`values * 2**scale` truncated toward zero and wrapped to `bits`, as the papers' compilers write numbers."""
    scaled = _scaled(values, scale)
    # beyond 2**62 the float would not fit an int64; only its low bits matter and those are zero
    return wrap(np.where(np.abs(scaled) < 2.0**62, scaled, 0.0).astype(np.int64), bits)


def quantise_number(value: float, bits: int, scale: int) -> int:
    """As `quantise`, of a single number, in a twentieth of the time."""
    try:
        scaled = math.ldexp(value, scale)
    except OverflowError:
        return 0
    half = 1 << (bits - 1)
    return ((int(scaled) + half) & ((1 << bits) - 1)) - half if abs(scaled) < 2.0**62 else 0


def quantise_clipped(values: npt.ArrayLike, bits: int, scale: int) -> IntArray:
    """`values * 2**scale` truncated toward zero, and beyond the range of `bits` its end."""
    limit = 1 << (bits - 1)
    scaled = _scaled(values, scale)
    return np.clip(scaled, -limit, limit - 1).astype(np.int64)


def _scaled(values: npt.ArrayLike, scale: int) -> FloatArray:
    """`values * 2**scale` truncated toward zero. A product with a power of two is as exact as `ldexp`, which takes ten times as long."""
    numbers = np.asarray(values, dtype=np.float64)
    return np.asarray(np.trunc(numbers * 2.0**scale if abs(scale) <= FLOAT_EXPONENT else np.ldexp(numbers, scale)))


def quantise_features(values: npt.ArrayLike, bits: int, scale: int) -> IntArray:
    """What an exported program's header makes of features: the papers' compilers give the input a scale at which the training samples
    fit, and others may lie beyond."""
    return quantise_clipped(values, bits, scale)


def exponent(magnitude: float) -> int:
    """The least e with `magnitude < 2**e`; 0 has the exponent 0."""
    return math.frexp(magnitude)[1] if magnitude > 0 else 0


def get_scale(magnitude: float, bits: int) -> int:
    """The largest scale at which `magnitude` fits `bits` bits (Shiftry Algorithm 10, `GetScale`).

    SeeDot's GetP, `(B - 1) - ceil(log2 n)`, is the same but for exact powers of two, which it lets overflow by one.
    """
    return bits - 1 - exponent(magnitude)
