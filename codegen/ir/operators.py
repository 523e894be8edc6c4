"""Operations that are no function of single elements, and the closed union of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.ir.operation import OperationBase, Order, Pointwise
from kilotune.codegen.ir.quantised import QuantisedElements
from kilotune.codegen.ir.quantised_softmax import QuantisedSoftmax
from kilotune.codegen.ir.requantisation import Completion
from kilotune.codegen.ir.table_functions import TableFunction
from kilotune.codegen.ir.views import ABSENT_AS_NONE, ABSENT_AS_ZERO, Operand, View, count_elements

ScalarT = TypeVar("ScalarT", bound=np.generic)


@dataclass(frozen=True)
class Fill(OperationBase):
    """Every element of `out` becomes `value` (`init`)."""

    value: float

    content_kind = "fill"
    order = Order.ELEMENTS


@dataclass(frozen=True)
class Binary(OperationBase):
    """An elementwise operation on `a` and `b`; an operand of size 1 is broadcast, otherwise shapes are equal."""

    a: Operand
    b: Operand

    order = Order.ELEMENTS
    symbol: ClassVar[str]  # in C, and in formulas

    def real(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """The operation itself, elementwise."""
        raise NotImplementedError(type(self).__name__)

    def of_integers(self, a: IntArray, b: IntArray) -> IntArray:
        """The operation itself on exact integers."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True)
class Add(Binary):
    """Elementwise `a + b`; broadcasting as in `Binary`."""

    content_kind = "add"
    symbol = "+"

    def real(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return np.asarray(a + b)

    def of_integers(self, a: IntArray, b: IntArray) -> IntArray:
        return np.asarray(a + b)

    @property
    def work(self) -> tuple[int, int]:
        return 0, 1


@dataclass(frozen=True)
class Subtract(Binary):
    """Elementwise `a - b`; broadcasting as in `Binary`."""

    content_kind = "subtract"
    symbol = "-"

    def real(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return np.asarray(a - b)

    def of_integers(self, a: IntArray, b: IntArray) -> IntArray:
        return np.asarray(a - b)

    @property
    def work(self) -> tuple[int, int]:
        return 0, 1


@dataclass(frozen=True)
class Multiply(Binary):
    """Elementwise (Hadamard) product; broadcasting as in `Binary`, so scalar times matrix too."""

    content_kind = "multiply"
    symbol = "*"

    def real(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return np.asarray(a * b)

    def of_integers(self, a: IntArray, b: IntArray) -> IntArray:
        return np.asarray(a * b)

    @property
    def work(self) -> tuple[int, int]:
        return 1, 0


@dataclass(frozen=True)
class MatMul(OperationBase):
    """`(P, Q) x (Q, R) -> (P, R)`. `sparse` marks the source operator `|*|` (SeeDot's `x`), whatever the storage.

    `completion`: what becomes of the sums of quantised programs, columns being the channels.
    """

    a: View
    b: View
    sparse: bool = False
    completion: Completion | None = field(default=None, metadata=ABSENT_AS_NONE)

    content_kind = "matmul"
    order = Order.PRODUCTS

    @property
    def taps(self) -> int:
        """Products that are summed to one element of the result."""
        return self.a.shape[-1]

    @property
    def work(self) -> tuple[int, int]:
        return self.taps, self.taps - 1

    def weights_of_sums(self, b: npt.NDArray[ScalarT]) -> npt.NDArray[ScalarT]:
        """The elements of `b` [sums, taps] that meet in one sum."""
        return b.T


@dataclass(frozen=True)
class Conv2D(OperationBase):
    """`a` (N, H, W, Cin) with `b` (G, kH, kW, Cin/G, Cout/G) -> (N, H', W', Cout).

    Output channels are ordered by group. `padding` is (top, bottom, left, right), zeros. Of quantised programs: `completion` is what
    becomes of the sums, `outside` the integer that padding counts as.
    """

    a: View
    b: View
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    completion: Completion | None = field(default=None, metadata=ABSENT_AS_NONE)
    outside: int = field(default=0, metadata=ABSENT_AS_ZERO)

    content_kind = "conv2d"
    order = Order.PRODUCTS

    @property
    def taps(self) -> int:
        """Products that are summed to one element of the result."""
        return count_elements(self.b.shape[1:4])

    @property
    def pads_with_numbers(self) -> bool:
        """Whether padding counts as something else than nothing, so that no sum may leave it out."""
        return self.outside != 0 and any(self.padding)

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of the window."""
        return self.b.shape[1], self.b.shape[2]

    @property
    def work(self) -> tuple[int, int]:
        return self.taps, self.taps - 1

    @property
    def steps(self) -> int:
        return self.groups

    def weights_of_sums(self, b: npt.NDArray[ScalarT]) -> npt.NDArray[ScalarT]:
        """The elements of `b` [sums, taps] that meet in one sum."""
        return np.moveaxis(b, 4, 1).reshape(-1, self.taps)


@dataclass(frozen=True)
class MaxPool(OperationBase):
    """`a` (N, H, W, C) -> (N, H', W', C). Padded places never win."""

    a: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    content_kind = "maxpool"
    order = Order.WINDOWS

    @property
    def dilation(self) -> tuple[int, int]:
        """Distance of neighbouring places under the window: they lie beside each other."""
        return 1, 1


@dataclass(frozen=True)
class NormaliseL2(OperationBase):
    """`a / sqrt(sum(a ** 2))` along the last axis; a row of zeros stays zero."""

    a: View

    content_kind = "normalise_l2"
    order = Order.ROWS

    @property
    def length(self) -> int:
        """Elements of a row."""
        return self.a.shape[-1] if self.a.shape else 1


@dataclass(frozen=True)
class Select(OperationBase):
    """`a` where the scalar `condition >= 0` (`> 0` when `strict`), else `b`; `a` and `b` of the shape of `out`."""

    condition: View
    a: Operand
    b: Operand
    strict: bool = False

    content_kind = "select"
    order = Order.ELEMENTS


@dataclass(frozen=True)
class ArgMax(OperationBase):
    """Index of the first largest element of `a` in row-major order; `out` is a scalar integer."""

    a: View

    content_kind = "argmax"
    order = Order.READS_FIRST


@dataclass(frozen=True)
class Sign(OperationBase):
    """`1` where `a > 0`, else `0`; `out` is a scalar integer (the label of a binary classifier, `sgn`)."""

    a: View

    content_kind = "sign"
    order = Order.ELEMENTS


Product = MatMul | Conv2D
"""Operations that sum products."""

Windowed = Conv2D | MaxPool
"""Operations with a window that slides over an image."""

RealElements = Fill | Pointwise | TableFunction | Add | Subtract | Multiply | Select | Sign
"""Elementwise operations on real numbers, whose formats are to be decided."""

Elementwise = RealElements | QuantisedElements
"""Operations whose result has an element for each of their operands' (Order.ELEMENTS)."""

Gathering = MatMul | Conv2D | MaxPool | NormaliseL2 | ArgMax | QuantisedSoftmax
"""Operations whose elements depend on many elements of an operand."""

Operation = Elementwise | Gathering
"""Every operation. Whoever tells operations apart ends with `assert_never`, so that a new one is missed nowhere."""
