"""LeakyRelu: a small slope below zero (ONNX `LeakyRelu`).

In integers the slope is a constant of the operand's width (at most 16 bits), quantised as literals are, without the powers of
two that it is divided by anyway: a slope that is a power of two costs a shift and no product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.ir.numbers import Constant, Constants, Numbers, T
from kilotune.codegen.ir.operation import Pointwise

MOST_SHIFT = 31
"""No division is by more than 2**31."""


@dataclass(frozen=True)
class LeakyRelu(Pointwise):
    """Elementwise `a` where it is at least 0, else `slope * a`. The default slope is ONNX's."""

    slope: float = 0.01

    function = "leakyrelu"
    scales_along = True

    def __post_init__(self) -> None:
        if not 0 < self.slope < 1:
            raise ValueError("a slope above 0 and below 1")

    @property
    def work(self) -> tuple[int, int]:
        return 1, 0

    def real(self, a: FloatArray) -> FloatArray:
        return np.where(a < 0, self.slope * a, a)

    def real_c(self, a: str, literal: Callable[[float], str]) -> str:
        return f"{a} < 0 ? {literal(self.slope)} * {a} : {a}"

    def constants(self, bits: Constant, scale: Constant) -> Constants:
        """The slope is `b / 2**shift`, toward zero; `b` is odd, or 0 for a slope below 2**-31."""
        width = np.minimum(np.asarray(bits, dtype=np.int64), 16)
        shift = np.minimum(width - 1 - np.frexp(self.slope)[1], MOST_SHIFT)
        factor = np.trunc(np.ldexp(self.slope, shift)).astype(np.int64)
        twos = np.where(factor == 0, 0, np.frexp((factor & -factor).astype(np.float64))[1] - 1)
        return Constants(b=factor >> twos, shift=shift - twos)

    def integer(self, n: Numbers[T], a: T, constants: Constants) -> T:
        leaked = n.down(n.scaled(a, constants.b), constants.shift)
        return n.where_negative(a, n.narrow(leaked, a), a)
