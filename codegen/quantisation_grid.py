"""Where the integers of a quantised tensor stand: a real number is `(integer - zero) * step`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray

LEAST, MOST = -128, 127
"""Ends of integers of 8 bits."""


@dataclass(frozen=True)
class QuantisationGrid:
    """`step` is the scale, exact as a 32-bit float, `zero` the integer that stands for 0."""

    step: float
    zero: int

    def apply(self, reals: FloatArray) -> FloatArray:
        """The integers of 8 bits, as floats, that TensorFlow Lite's QUANTIZE makes of real numbers of any shape: computed with floats of 32
        bits, to the nearest, halves away from zero, and beyond the ends these."""
        scaled = np.asarray(reals, dtype=np.float32) / np.float32(self.step)
        whole = np.trunc(scaled)
        rounded = whole + np.where(np.abs(scaled - whole) >= np.float32(0.5), np.sign(scaled), np.float32(0))
        return np.asarray(np.clip(rounded.astype(np.float64) + self.zero, LEAST, MOST), dtype=np.float64)
