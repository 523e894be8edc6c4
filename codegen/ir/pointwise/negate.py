"""Negate: the sign turned round. The least integer of a width has no negative, so it wraps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.ir.numbers import Constants, Numbers, T
from kilotune.codegen.ir.operation import Pointwise


@dataclass(frozen=True)
class Negate(Pointwise):
    """Elementwise `-a`."""

    content_kind = "negate"
    scales_along = True

    def real(self, a: FloatArray) -> FloatArray:
        return -a

    def real_c(self, a: str, literal: Callable[[float], str]) -> str:
        return f"-{a}"

    def integer(self, n: Numbers[T], a: T, constants: Constants) -> T:
        return n.negative(a)
