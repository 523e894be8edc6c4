"""HardSwish: `a` times a gate that is a line between -3 and 3 (ONNX `HardSwish`).

In integers the gate `clip(a / 6 + 1 / 2, 0, 1)` is a number of `b` fractional bits, two less than the operand has (at most 14); a sixth is
a constant of two bits more. Of operands of 32 bits the gate sees the upper 16.
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
class HardSwish(Pointwise):
    """Elementwise `a * min(max(a + 3, 0), 6) / 6`."""

    function = "hardswish"

    @property
    def work(self) -> tuple[int, int]:
        return 2, 1

    def real(self, a: FloatArray) -> FloatArray:
        return np.asarray(a * np.clip(a / 6.0 + 0.5, 0.0, 1.0))

    def real_c(self, a: str, literal: Callable[[float], str]) -> str:
        return f"{a} < -3 ? 0 : {a} < 3 ? {a} * ({a} + 3) / 6 : {a}"

    def constants(self, bits: Constant, scale: Constant) -> Constants:
        """`a`: the bits that the gate does not see; `b`: its fractional bits; `shift`: from those of a sixth of `a` to them."""
        unseen = np.maximum(np.asarray(bits, dtype=np.int64) - 16, 0)
        # below scale -2 the least number is beyond 3 already, so that less shifting changes nothing
        return Constants(unseen, bits - unseen - 2, np.clip(scale - unseen + 2, 0, MOST_SHIFT))

    def integer(self, n: Numbers[T], a: T, constants: Constants) -> T:
        one = 1 << constants.b
        sixth = (4 * one + 3) // 6
        line = n.down(n.scaled(n.down(a, constants.a), sixth), constants.shift)
        gate = n.clip(n.plus(line, one >> 1), one)
        return n.down(n.times(a, n.narrow(gate, a)), constants.b)
