"""Features of mixed size: each is moved and divided by a power of two of its own before a program sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.array_files import RealArray


@dataclass(frozen=True)
class FeatureScaling:
    """The program's feature i is `(the given one - offsets[i]) / 2**exponents[i]`. Offsets are exact as 32-bit floats."""

    exponents: tuple[int, ...]
    offsets: tuple[float, ...]

    @property
    def factors(self) -> RealArray:
        """2**exponents [features]."""
        return np.asarray(np.ldexp(1.0, np.asarray(self.exponents)), dtype=np.float64)

    def apply(self, features: RealArray) -> RealArray:
        """Features as they are given [samples, features], as the program takes them, computed in floats of 32 bits as by its header."""
        moved = np.asarray(features, dtype=np.float32) - np.asarray(self.offsets, dtype=np.float32)
        return np.asarray(moved.astype(np.float64) / self.factors)
