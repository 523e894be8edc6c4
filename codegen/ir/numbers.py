"""The integer arithmetic in which pointwise operators are written, whatever a number is.

An operator states its integer function once, over any `Numbers`. NumPy arrays make it the definition of the semantics
(`evaluators/fixed_point/reference.py`), C expressions the emitted program (`codegen/emit/pointwise.py`), intervals its range
(`codegen/emit/ranges.py`), widths its cost (`evaluators/pointwise_costs.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from kilotune.codegen.arrays import IntArray

Constant = int | IntArray
"""An integer of one candidate, or those of a batch [candidates]."""

T = TypeVar("T")


@dataclass(frozen=True)
class Constants:
    """What a lowering computes of a candidate's widths and scales; stored in the columns CONSTANT_A, CONSTANT_B, SHIFT_B."""

    a: Constant = 0
    b: Constant = 0
    shift: Constant = 0


class Numbers(Protocol[T]):
    """Operations on integers of kind T. All are exact but `negative`, which wraps."""

    def negative(self, a: T) -> T:
        """`-a` modulo 2**ACC_BITS."""

    def positive(self, a: T) -> T:
        """`a` where it is above 0, else 0."""

    def clip(self, a: T, limit: Constant) -> T:
        """`a` held between 0 and `limit`."""

    def plus(self, a: T, constant: Constant) -> T:
        """`a + constant`, which the operator promises to fit the width of `a`."""

    def scaled(self, a: T, constant: Constant) -> T:
        """`a * constant`."""

    def times(self, a: T, b: T) -> T:
        """`a * b`."""

    def down(self, a: T, shift: Constant) -> T:
        """`a / 2**shift`, rounded as the program says; a negative shift multiplies."""

    def narrow(self, a: T, like: T) -> T:
        """`a`, which the operator promises to fit the width of `like`."""

    def where_negative(self, a: T, then: T, otherwise: T) -> T:
        """`then` where `a` is below 0, else `otherwise`."""
