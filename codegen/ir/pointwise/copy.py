"""Copy: the element as it is, in another place or format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.ir.numbers import Constants, Numbers, T
from kilotune.codegen.ir.operation import Pointwise


@dataclass(frozen=True)
class Copy(Pointwise):
    """Elementwise copy of `a`, of the shape of `out` (writing a slice, or the last step of a recurrence)."""

    content_kind = "copy"
    scales_along = True

    def real(self, a: FloatArray) -> FloatArray:
        return a

    def real_c(self, a: str, literal: Callable[[float], str]) -> str:
        return a

    def integer(self, n: Numbers[T], a: T, constants: Constants) -> T:
        return a
