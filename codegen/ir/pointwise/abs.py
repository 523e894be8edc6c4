"""Abs: the size without the sign (ONNX `Abs`). The least integer of a width has no positive counterpart, so it wraps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.ir.numbers import Constants, Numbers, T
from kilotune.codegen.ir.operation import Pointwise


@dataclass(frozen=True)
class Abs(Pointwise):
    """Elementwise `|a|`."""

    function = "abs"
    scales_along = True

    def real(self, a: FloatArray) -> FloatArray:
        return np.abs(a)

    def real_c(self, a: str, literal: Callable[[float], str]) -> str:
        return f"{a} < 0 ? -{a} : {a}"

    def integer(self, n: Numbers[T], a: T, constants: Constants) -> T:
        return n.where_negative(a, n.negative(a), a)
