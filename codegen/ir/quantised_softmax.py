"""Softmax on integers of 8 bits, with every rounding of TensorFlow Lite's reference kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed_fractions import inverse_fraction, rounded_down, times
from kilotune.codegen.ir.operation import OperationBase, Order
from kilotune.codegen.ir.views import View
from kilotune.codegen.quantisation_grid import LEAST, MOST

SUM_BITS = 12
"""Bits before the point of a sum of powers."""

RESULT_BITS = 8


@dataclass(frozen=True)
class QuantisedSoftmax(OperationBase):
    """Shares along the last axis, in steps of 1/256 from -128 on.

    `powers[d]`: e to the power of an element that is d integers below the largest of its row, as a fraction of 31 bits; one that is
    farther below has no share.
    """

    a: View
    powers: tuple[int, ...]

    content_kind = "quantised softmax"
    order = Order.ROWS

    @property
    def length(self) -> int:
        """Elements of a row."""
        return self.a.shape[-1] if self.a.shape else 1

    @property
    def work(self) -> tuple[int, int]:
        return 1, 3

    def integer(self, a: IntArray) -> IntArray:
        """Rows [n, length, samples]."""
        distance = a.max(axis=1, keepdims=True) - a
        near = distance < len(self.powers)
        powers = np.where(near, np.asarray(self.powers, dtype=np.int64)[np.where(near, distance, 0)], 0)
        total = rounded_down(powers, SUM_BITS).sum(axis=1, keepdims=True)
        headroom = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)  # zeros before the first digit
        scale = inverse_fraction((total << headroom) - (1 << 31))
        shares = rounded_down(times(scale, powers), SUM_BITS - headroom + 31 - RESULT_BITS)
        return np.where(near, np.clip(shares + LEAST, LEAST, MOST), LEAST)

    def real(self, a: FloatArray) -> FloatArray:
        """What `integer` has, without rounding: powers between two integers lie on the line between theirs."""
        distance = a.max(axis=1, keepdims=True) - a
        powers = np.interp(distance, np.arange(len(self.powers)), self.powers, right=0.0)
        return np.asarray(np.clip(256.0 * powers / powers.sum(axis=1, keepdims=True) + LEAST, LEAST, MOST))
