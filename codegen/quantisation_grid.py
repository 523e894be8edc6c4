"""Where the integers of a quantised tensor stand: a real number is `(integer - zero) * step`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import FloatArray, IntArray

LEAST, MOST = -128, 127
"""Ends of integers of 8 bits."""


@dataclass(frozen=True)
class QuantisationGrid:
    """`step` is the scale, exact as a 32-bit float, `zero` the integer that stands for 0. `even`: whether halves become the even integer,
    as ONNX's QuantizeLinear has it, and not the one away from zero, as TensorFlow Lite's QUANTIZE does."""

    step: float
    zero: int
    even: bool = False

    def apply(self, reals: NDArray[np.floating[Any]]) -> FloatArray:
        """The integers of 8 bits, as floats, of real numbers of any shape: computed with floats of 32 bits, to the nearest, and beyond the
        ends these."""
        scaled = np.asarray(reals, dtype=np.float32) / np.float32(self.step)
        whole = np.trunc(scaled)
        away = whole + np.where(np.abs(scaled - whole) >= np.float32(0.5), np.sign(scaled), np.float32(0))
        rounded = np.rint(scaled) if self.even else away
        return np.asarray(np.clip(rounded.astype(np.float64) + self.zero, LEAST, MOST), dtype=np.float64)

    def reals(self, integers: IntArray) -> NDArray[np.float32]:
        """What integers of any shape stand for, as floats of 32 bits."""
        return (integers - self.zero).astype(np.float32) * np.float32(self.step)
