"""Elementwise operations on integers of 8 bits whose scales are no powers of two (`codegen.ir.requantisation`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.ir.operation import OperationBase, Order
from kilotune.codegen.ir.requantisation import FixedMultiplier, Multiplier
from kilotune.codegen.ir.views import Operand, View
from kilotune.codegen.quantisation_grid import LEAST, MOST

HEADROOM = 20
"""Bits by which operands of a sum are shifted up before they are multiplied, so that roundings cost little (TensorFlow Lite's ADD)."""


@dataclass(frozen=True)
class QuantisedElements(OperationBase):
    """One function of the elements of integer operands, with every rounding that belongs to it."""

    order = Order.ELEMENTS

    def integer(self, *values: IntArray) -> IntArray:
        """The function."""
        raise NotImplementedError(type(self).__name__)

    def real(self, *values: FloatArray) -> FloatArray:
        """What `integer` has, without rounding."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True)
class QuantisedSum(QuantisedElements):
    """`a + b` (`a - b` where `minus`) of operands with scales and zero points of their own.

    Each less its zero point is shifted up by HEADROOM and multiplied by its factor; the sum is multiplied by `factor`, `zero` is added,
    and the result is held between `least` and `most`. An operand of size 1 is broadcast.
    """

    a: Operand
    b: Operand
    zeros: tuple[int, int]
    factors: tuple[FixedMultiplier, FixedMultiplier]
    factor: FixedMultiplier
    zero: int
    minus: bool = False
    least: int = LEAST
    most: int = MOST

    content_kind = "quantised sum"

    @property
    def work(self) -> tuple[int, int]:
        return 3, 3

    @property
    def magnitude(self) -> int:
        """No sum that is multiplied by `factor` is larger: both operands' factors are at most a half."""
        return 1 << (HEADROOM + 9)

    def integer(self, *values: IntArray) -> IntArray:
        first, second = (
            factor.integer((operand - zero) << HEADROOM)
            for operand, zero, factor in zip(values, self.zeros, self.factors, strict=True)
        )
        total = first - second if self.minus else first + second
        return np.clip(self.factor.integer(total) + self.zero, self.least, self.most)

    def real(self, *values: FloatArray) -> FloatArray:
        first, second = (
            (operand - zero) * 2.0**HEADROOM * factor.real
            for operand, zero, factor in zip(values, self.zeros, self.factors, strict=True)
        )
        total = first - second if self.minus else first + second
        return np.clip(total * self.factor.real + self.zero, self.least, self.most)


@dataclass(frozen=True)
class EvenSum(QuantisedElements):
    """Weighted sum of operands with zero points of their own: each less its zero point is multiplied by its whole number of `weights`, the
    sum is divided by 2**`shift`, to the nearest, halves to the even number, `zero` is added, and the result is held between `least` and
    `most`. An operand of size 1 is broadcast; `shift` > 0."""

    a: Operand
    b: Operand
    zeros: tuple[int, int]
    weights: tuple[int, int]
    shift: int
    zero: int
    least: int = LEAST
    most: int = MOST

    content_kind = "even sum"

    @property
    def work(self) -> tuple[int, int]:
        return 3, 2

    @property
    def magnitude(self) -> int:
        """No sum is as large as this before it is divided; what rounding adds is counted."""
        return (MOST - LEAST + 1) * sum(map(abs, self.weights)) + (1 << self.shift)

    def integer(self, *values: IntArray) -> IntArray:
        total = (values[0] - self.zeros[0]) * self.weights[0] + (values[1] - self.zeros[1]) * self.weights[1]
        return np.clip(even_quotient(total, self.shift) + self.zero, self.least, self.most)

    def real(self, *values: FloatArray) -> FloatArray:
        total = (values[0] - self.zeros[0]) * self.weights[0] + (values[1] - self.zeros[1]) * self.weights[1]
        return np.clip(total * 2.0**-self.shift + self.zero, self.least, self.most)


def even_quotient(values: IntArray, shift: int) -> IntArray:
    """Integers over 2**shift, to the nearest, halves to the even number; shift > 0."""
    return np.asarray((values + (1 << (shift - 1)) - 1 + ((values >> shift) & 1)) >> shift)


@dataclass(frozen=True)
class QuantisedProduct(QuantisedElements):
    """`a * b` of operands with zero points of their own: the product of both less these is multiplied by `factor`, `zero` is added, and
    the result is held between `least` and `most`. An operand of size 1 is broadcast."""

    a: Operand
    b: Operand
    zeros: tuple[int, int]
    factor: Multiplier
    zero: int
    least: int = LEAST
    most: int = MOST

    content_kind = "quantised product"

    @property
    def work(self) -> tuple[int, int]:
        return 2, 3

    @property
    def magnitude(self) -> int:
        """No product that is multiplied by `factor` is larger."""
        return (MOST - LEAST + 1) ** 2

    def integer(self, *values: IntArray) -> IntArray:
        product = (values[0] - self.zeros[0]) * (values[1] - self.zeros[1])
        return np.clip(self.factor.integer(product) + self.zero, self.least, self.most)

    def real(self, *values: FloatArray) -> FloatArray:
        product = (values[0] - self.zeros[0]) * (values[1] - self.zeros[1])
        return np.clip(product * self.factor.real + self.zero, self.least, self.most)


@dataclass(frozen=True)
class Lookup(QuantisedElements):
    """The entry of a table of 256 for every element of `a`; `entries[0]` is that of the least integer."""

    a: View
    entries: tuple[int, ...]

    content_kind = "lookup"

    def integer(self, *values: IntArray) -> IntArray:
        return np.asarray(self.entries, dtype=np.int64)[values[0] - LEAST]

    def real(self, *values: FloatArray) -> FloatArray:
        """Between two integers on the line between their entries."""
        return np.interp(values[0], np.arange(LEAST, MOST + 1), self.entries)
