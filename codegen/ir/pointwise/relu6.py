"""Relu6: the positive part, held at 6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.ir.numbers import Constant, Constants, Numbers, T
from kilotune.codegen.ir.operation import Pointwise


@dataclass(frozen=True)
class Relu6(Pointwise):
    """Elementwise `min(max(a, 0), 6)`."""

    function = "relu6"

    def real(self, a: FloatArray) -> FloatArray:
        return np.clip(a, 0.0, 6.0)

    def real_c(self, a: str, literal: Callable[[float], str]) -> str:
        return f"{a} < 0 ? 0 : {a} < 6 ? {a} : 6"

    def constants(self, bits: Constant, scale: Constant) -> Constants:
        """6 at the scale, or the largest number where that is less."""
        largest = np.left_shift(1, np.asarray(bits, dtype=np.int64) - 1) - 1
        # the smaller one while still real: 6 at a scale above 60 fits no int64
        return Constants(b=np.minimum(np.floor(np.ldexp(6.0, scale)), largest).astype(np.int64))

    def integer(self, n: Numbers[T], a: T, constants: Constants) -> T:
        return n.clip(a, constants.b)
