"""Products of integers and floats that are halfway between two integers, or are not by one bit of a float."""

from __future__ import annotations

import math

import numpy as np


def tied_cases() -> list[tuple[int, int, int]]:
    """Values, mantissas of 24 bits and shifts whose product is halfway between two integers but for its last of 24 bits, and others."""
    random = np.random.default_rng(12)
    found = [(int(v), 1 << 23, 24) for v in range(-40, 41)]
    for _ in range(3000):
        value, result = int(random.integers(1, 1 << int(random.integers(4, 24)))), int(random.integers(0, 300))
        shift = math.ceil(23 + math.log2(value / (result + 0.5)))
        mantissa = round((result + 0.5) * 2.0**shift / value) + int(random.integers(-1, 2))
        if 1 << 23 <= mantissa < 1 << 24 and shift > 0:
            found += [(value, mantissa, shift), (-value, mantissa, shift)]
    values, mantissas = random.integers(-(2**30), 2**30, 2000), random.integers(2**23, 2**24, 2000)
    others = zip(values.tolist(), mantissas.tolist(), random.integers(24, 60, 2000).tolist(), strict=True)
    return [*found, *others]
