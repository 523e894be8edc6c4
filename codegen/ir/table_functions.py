"""Functions that are computed from e**x, which fixed-point programs look up in tables (Shiftry Section 5.4, Libraries 6 to 9)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.ir.operation import OperationBase, Order
from kilotune.codegen.ir.views import View


@dataclass(frozen=True)
class TableFunction(OperationBase):
    """One function of every element of `a`, from tables of e**x."""

    a: View

    order = Order.ELEMENTS
    function: ClassVar[str]  # its name in the language
    doubling: ClassVar[int] = 0  # by how many powers of two the table's argument is more than `a`

    def __init_subclass__(cls) -> None:
        cls.content_kind = cls.function

    def real(self, a: FloatArray) -> FloatArray:
        """The function itself, elementwise."""
        raise NotImplementedError(type(self).__name__)

    def fold(self, a: float) -> float:
        """The function of a constant. Raises OverflowError."""
        raise NotImplementedError(type(self).__name__)

    def real_c(self, a: str) -> str:
        """Its C expression in floats."""
        raise NotImplementedError(type(self).__name__)

    def integer(self, x: IntArray, exponential: Callable[[IntArray], IntArray], scale: int) -> IntArray:
        """The function of scaled, doubled arguments, from the table's e**x, at `scale`, as is the result.

        Divisions are C's, toward zero.
        """
        raise NotImplementedError(type(self).__name__)

    def limits(self, scale: int) -> tuple[int, int] | None:
        """Least and greatest result at `scale`; None where they are those of the table."""
        return None


@dataclass(frozen=True)
class Exp(TableFunction):
    """Elementwise `e ** a`."""

    function = "exp"

    def real(self, a: FloatArray) -> FloatArray:
        return np.exp(a)

    def fold(self, a: float) -> float:
        return math.exp(a)

    def real_c(self, a: str) -> str:
        return f"expf({a})"

    def integer(self, x: IntArray, exponential: Callable[[IntArray], IntArray], scale: int) -> IntArray:
        return exponential(x)


@dataclass(frozen=True)
class Sigmoid(TableFunction):
    """Elementwise `1 / (1 + e ** -a)`."""

    function = "sigmoid"

    def real(self, a: FloatArray) -> FloatArray:
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * a)))

    def fold(self, a: float) -> float:
        return 0.5 * (1.0 + math.tanh(0.5 * a))

    def real_c(self, a: str) -> str:
        return f"1 / (1 + expf(-{a}))"

    def integer(self, x: IntArray, exponential: Callable[[IntArray], IntArray], scale: int) -> IntArray:
        one, decayed = 1 << scale, exponential(-np.abs(x))
        return np.asarray((one * np.where(x <= 0, decayed, one)) // (one + decayed))

    def limits(self, scale: int) -> tuple[int, int] | None:
        return 0, 1 << scale


@dataclass(frozen=True)
class Tanh(TableFunction):
    """Elementwise hyperbolic tangent."""

    function = "tanh"
    doubling = 1

    def real(self, a: FloatArray) -> FloatArray:
        return np.tanh(a)

    def fold(self, a: float) -> float:
        return math.tanh(a)

    def real_c(self, a: str) -> str:
        return f"tanhf({a})"

    def integer(self, x: IntArray, exponential: Callable[[IntArray], IntArray], scale: int) -> IntArray:
        one, decayed = 1 << scale, exponential(-np.abs(x))
        magnitude = (one * (one - decayed)) // (one + decayed)
        return np.asarray(np.where(x <= 0, -magnitude, magnitude))

    def limits(self, scale: int) -> tuple[int, int] | None:
        return -(1 << scale), 1 << scale
