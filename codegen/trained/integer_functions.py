"""Functions of one integer of 8 bits as tables of 256, and powers for softmax, entry by entry what TensorFlow Lite Micro's reference
kernels compute on fractions of 32 bits (`codegen.fixed_fractions`)."""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.codegen.fixed_fractions import (
    ONE,
    complement_fraction,
    exponential,
    inverse_fraction,
    rounded_down,
    times,
)
from kilotune.codegen.ir.requantisation import fixed_multiplier
from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid

INPUT_INTEGER_BITS = 4
"""Before the point of an argument of sigmoid and tanh."""

SOFTMAX_INTEGER_BITS = 5
"""Before the point of how far an element is below the largest, in softmax."""

FARTHEST_STEP = 2.0 ** (INPUT_INTEGER_BITS - 1)


def rescaling_entries(given: QuantisationGrid, made: QuantisationGrid) -> tuple[int, ...]:
    """Integers of one grid on another, where they stand for the same real numbers."""
    factor = fixed_multiplier(given.step / made.step)
    scaled = factor.integer(np.arange(LEAST, MOST + 1) - given.zero) + made.zero
    return tuple(np.clip(scaled, LEAST, MOST).tolist())


def leaky_relu_entries(given: QuantisationGrid, made: QuantisationGrid, slope: float) -> tuple[int, ...]:
    """x, or `slope` * x below 0. ValueError for a slope below 0, which has no multiplier."""
    distances = np.arange(LEAST, MOST + 1) - given.zero
    above, below = (fixed_multiplier(given.step * factor / made.step) for factor in (1.0, slope))
    scaled = np.where(distances >= 0, above.integer(distances), below.integer(distances))
    return tuple(np.clip(scaled + made.zero, LEAST, MOST).tolist())


def logistic_entries(given: QuantisationGrid, made: QuantisationGrid) -> tuple[int, ...]:
    """1 / (1 + e**-x). ValueError for a result that is not on the grid of 1/256 from -128 on, as the kernel has it."""
    if made != QuantisationGrid(2.0**-8, LEAST):
        raise ValueError(f"expected a sigmoid in steps of 1/256 from -128 on, found {made.step!r} and {made.zero}")
    argument, beyond = _argument(given)
    shares = inverse_fraction(exponential(-np.abs(argument), INPUT_INTEGER_BITS))
    shares = np.where(argument > 0, shares, np.where(argument < 0, ONE - shares, 1 << 30))
    return _entries(rounded_down(shares, 23) + LEAST, beyond)


def tanh_entries(given: QuantisationGrid, made: QuantisationGrid) -> tuple[int, ...]:
    """tanh x. ValueError for a result that is not on the grid of 1/128 around 0, as the kernel has it."""
    if made != QuantisationGrid(2.0**-7, 0):
        raise ValueError(f"expected a tanh in steps of 1/128 around 0, found {made.step!r} and {made.zero}")
    argument, beyond = _argument(given)
    magnitude = complement_fraction(exponential(-np.abs(argument), INPUT_INTEGER_BITS + 1))
    return _entries(rounded_down(np.sign(argument) * magnitude, 24), beyond)


def softmax_powers(given: QuantisationGrid, beta: float) -> tuple[int, ...]:
    """e to the power of -`beta` times 0, 1, 2, ... steps, as fractions of 31 bits, as far as the kernel goes. ValueError for a `beta` that
    is not above 0."""
    if not 0 < beta < math.inf:
        raise ValueError(f"expected a Softmax with beta above 0, found {beta!r}")
    factor = fixed_multiplier(min(beta * given.step * 2.0 ** (31 - SOFTMAX_INTEGER_BITS), 2.0**31 - 1), most=31)
    reach = math.floor(((1 << SOFTMAX_INTEGER_BITS) - 1) * 2.0 ** (31 - SOFTMAX_INTEGER_BITS - factor.shift))
    distances = np.arange(min(reach, MOST - LEAST) + 1, dtype=np.int64)
    scaled = times(-distances << factor.shift, factor.mantissa)
    return tuple(exponential(scaled, SOFTMAX_INTEGER_BITS).tolist())


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
