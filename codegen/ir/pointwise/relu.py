"""Relu: the positive part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.ir.numbers import Constants, Numbers, T
from kilotune.codegen.ir.operation import Pointwise


@dataclass(frozen=True)
class Relu(Pointwise):
    """Elementwise `max(a, 0)`."""

    function = "relu"
    scales_along = True

    def real(self, a: FloatArray) -> FloatArray:
        return np.maximum(a, 0.0)

    def real_c(self, a: str, literal: Callable[[float], str]) -> str:
        return f"{a} > 0 ? {a} : 0"

    def integer(self, n: Numbers[T], a: T, constants: Constants) -> T:
        return n.positive(a)
