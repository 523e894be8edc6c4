"""Sums and products of two integers of 8 bits on grids of their own, rounded once.

Ratios of scales are floats of 32 bits, as in ONNX Runtime's QLinearAdd and QLinearMul; what is computed with them is exact until it is
rounded to the nearest, halves to the even number. Those kernels add and multiply in floats of 32 bits too, in an order that hangs on the
processor, so that of the 65 536 pairs of integers a few whose result is next to a half may come out otherwise there.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.ir.quantised import even_quotient
from kilotune.codegen.ir.requantisation import even_multiplier
from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid

MOST_BITS = 62
"""Bits of a weighted sum."""

NARROW_BITS = 31
"""Bits of a weighted sum that is computed in 32 bits."""

NEIGHBOURS = (0, -1, 1, -2, 2)
"""What is added to weights of fewer bits until they round as the exact ones do."""


def even_sum(
    first: QuantisationGrid, second: QuantisationGrid, made: QuantisationGrid, *, minus: bool
) -> tuple[tuple[int, int], int]:
    """Weights and shift of `ir.EvenSum` for `a + b`, or `a - b`: in 32 bits where these round every pair as the exact ones do.

    ValueError "expected X, found Y" for scales that are too far apart.
    """
    factors = [even_multiplier(np.float32(grid.step) / np.float32(made.step)) for grid in (first, second)]
    shift = max(1, *(-factor.shift for factor in factors))
    a, b = (factor.mantissa << (shift + factor.shift) for factor in factors)
    weights = a, -b if minus else b
    if _bits(weights, shift) > MOST_BITS:
        raise ValueError(f"expected scales that are nearer to each other, found {first.step!r} and {second.step!r}")
    return _narrow(weights, shift, first, second) or (weights, shift)


def even_product(first: QuantisationGrid, second: QuantisationGrid, made: QuantisationGrid) -> ir.EvenMultiplier:
    """The factor of `ir.QuantisedProduct`. ValueError "expected X, found Y" for scales that are too far apart."""
    return even_multiplier(np.float32(first.step) * np.float32(second.step) / np.float32(made.step))


def _bits(weights: tuple[int, int], shift: int) -> int:
    """Bits of the largest sum, with what is added to round it."""
    return ((MOST - LEAST + 1) * sum(map(abs, weights)) + (1 << shift)).bit_length()


def _narrow(
    weights: tuple[int, int], shift: int, first: QuantisationGrid, second: QuantisationGrid
) -> tuple[tuple[int, int], int] | None:
    """Weights and shift for sums of NARROW_BITS that round as the given ones do, wherever the result is one of 8 bits whatever its zero
    point; None where none were found."""
    fewer = _bits(weights, shift) - NARROW_BITS
    if fewer <= 0:
        return weights, shift
    if shift - fewer < 1:
        return None
    integers = np.arange(LEAST, MOST + 1, dtype=np.int64)
    a, b = (np.ravel(operand) for operand in np.meshgrid(integers - first.zero, integers - second.zero))
    wanted = even_quotient(a * weights[0] + b * weights[1], shift)
    seen = np.abs(wanted) <= MOST - LEAST
    near = [round(math.ldexp(weight, -fewer)) for weight in weights]
    for changes in itertools.product(NEIGHBOURS, repeat=2):
        tried = near[0] + changes[0], near[1] + changes[1]
        if _bits(tried, shift - fewer) > NARROW_BITS:
            continue
        found = even_quotient(a * tried[0] + b * tried[1], shift - fewer)
        # beyond the range it must stay there
        if (found == wanted)[seen].all() and (np.abs(found[~seen]) >= MOST - LEAST).all():
            return tried, shift - fewer
    return None
