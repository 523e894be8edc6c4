"""Integers of 8 bits whose scales are no powers of two, as quantised models of TensorFlow Lite and ONNX have them.

A real number is `(integer - zero) * step`, on one grid (`codegen.quantisation_grid`) for each tensor, and of weights for each output
channel. What has to be multiplied by a ratio of scales is multiplied by a `FixedMultiplier` or an `EvenMultiplier`, and every rounding is
part of the definition: two programs of the same file have the same integers. Sources: Jacob et al., Quantization and Training of Neural
Networks for Efficient Integer-Arithmetic-Only Inference (CVPR 2018), Section 2, with the roundings of TensorFlow Lite's reference
kernels; and ONNX's QuantizeLinear and QLinearConv, with the floats of 32 bits of ONNX Runtime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.quantisation_grid import LEAST, MOST


@dataclass(frozen=True)
class FixedMultiplier:
    """A factor that is not negative, as `mantissa * 2**(shift - 31)`, with a mantissa of at most 31 bits; `shift` from -31 to 30."""

    mantissa: int
    shift: int

    @property
    def real(self) -> float:
        """The factor."""
        return math.ldexp(self.mantissa, self.shift - 31)

    def integer(self, values: IntArray) -> IntArray:
        """Integers of 32 bits times the factor.

        Shifted up first where `shift` is positive, then the upper half of twice the product, to the nearest, halves upward; then shifted
        down, to the nearest, halves away from zero.
        """
        up, down = max(self.shift, 0), max(-self.shift, 0)
        high = ((values << up) * self.mantissa + (1 << 30)) >> 31
        return (high + ((1 << down) >> 1) - ((high < 0) & (down > 0))) >> down


def fixed_multiplier(factor: float, most: int = 30) -> FixedMultiplier:
    """The nearest to a factor that is not negative. ValueError for one that is, is not finite, or is 2**`most` or more."""
    if not 0 <= factor < 2.0**most:
        raise ValueError(f"expected a ratio of scales from 0 to below 2**{most}, found {factor!r}")
    fraction, shift = math.frexp(factor)
    mantissa = math.floor(math.ldexp(fraction, 31) + 0.5)
    if mantissa == 1 << 31:
        mantissa, shift = mantissa // 2, shift + 1
    return FixedMultiplier(0, 0) if shift < -31 else FixedMultiplier(mantissa, shift)


EVEN_BITS = 24
"""Bits of the mantissa of a float of 32 bits."""


@dataclass(frozen=True)
class EvenMultiplier:
    """A factor above 0 that is a float of 32 bits, as `mantissa * 2**shift` with a mantissa of EVEN_BITS bits and `shift` at most 0."""

    mantissa: int
    shift: int

    @property
    def real(self) -> float:
        """The factor."""
        return math.ldexp(self.mantissa, self.shift)

    def integer(self, values: IntArray) -> IntArray:
        """Integers of 32 bits times the factor: both as floats of 32 bits, whose product is one too, then to the nearest, halves to the
        even number."""
        return np.asarray(np.rint(values.astype(np.float32) * np.float32(self.real)).astype(np.int64))


def even_multiplier(factor: np.float32) -> EvenMultiplier:
    """Exactly that factor. ValueError for one that is not above 0, is not finite, or is 2**24 or more."""
    fraction, exponent = math.frexp(float(factor))
    if not (0 < factor < 2.0**EVEN_BITS):
        raise ValueError(f"expected a ratio of scales above 0 and below 2**{EVEN_BITS}, found {float(factor)!r}")
    return EvenMultiplier(int(math.ldexp(fraction, EVEN_BITS)), exponent - EVEN_BITS)


Multiplier = FixedMultiplier | EvenMultiplier

MULTIPLIED_BITS = 32
"""Bits of integers that are multiplied, shifted up where the factor asks for it."""


def check_room(factors: Sequence[Multiplier], most: int) -> None:
    """ValueError "expected X, found Y" where integers of magnitudes up to `most` times one of the factors, all of one kind, do not fit
    MULTIPLIED_BITS on the way; to be rounded to floats of 32 bits they need one bit more."""
    up = max(0, *(factor.shift for factor in factors))
    room = MULTIPLIED_BITS - 1 - isinstance(factors[0], EvenMultiplier)
    if most << up >= 1 << room:
        times = f", to be shifted up by {up} bits," if up else ""
        raise ValueError(
            f"expected sums{times} below 2**{room}, found ones of up to {most}: a bias, or a ratio of scales, is too large"
        )


ConstantTable = tuple[int, tuple[int, ...]]
"""Width in bits, and integers."""


def differs(entries: Sequence[int]) -> bool:
    """Whether a constant is a table, and not one number for all channels."""
    return len(set(entries)) > 1


@dataclass(frozen=True)
class Requantisation:
    """What a sum of products becomes: its channel's bias is added, the whole is multiplied by the channel's factor, `zero` is added, and
    what lies beyond `least` and `most` becomes these. One bias and one factor for each output channel, all factors of one kind."""

    biases: tuple[int, ...]
    factors: tuple[Multiplier, ...]
    zero: int
    least: int = LEAST
    most: int = MOST

    content_kind = "requantisation"

    def integer(self, sums: IntArray) -> IntArray:
        """Sums [.., channels, samples]."""
        made = [
            factor.integer(sums[..., channel, :] + bias)
            for channel, (bias, factor) in enumerate(zip(self.biases, self.factors, strict=True))
        ]
        return np.clip(np.stack(made, axis=-2) + self.zero, self.least, self.most)

    def real(self, sums: FloatArray) -> FloatArray:
        """What `integer` has, without rounding."""
        biases, factors = np.array(self.biases, dtype=np.float64), np.array([factor.real for factor in self.factors])
        return np.asarray(np.clip((sums + biases[:, None]) * factors[:, None] + self.zero, self.least, self.most))

    def channels(self, chosen: slice) -> Requantisation:
        """What holds for some of the channels."""
        return Requantisation(self.biases[chosen], self.factors[chosen], self.zero, self.least, self.most)

    @property
    def tables(self) -> tuple[ConstantTable, ...]:
        """Constants that differ from channel to channel, and so lie in flash."""
        ups, downs = zip(*((max(f.shift, 0), max(-f.shift, 0)) for f in self.factors), strict=True)
        found = (32, self.biases), (32, tuple(f.mantissa for f in self.factors)), (8, ups), (8, downs)
        return tuple(table for table in found if differs(table[1]))


@dataclass(frozen=True)
class Averaging:
    """What a sum of `count` integers becomes: their average, to the nearest, halves away from zero, within `least` and `most`."""

    count: int
    least: int = LEAST
    most: int = MOST

    content_kind = "averaging"

    def integer(self, sums: IntArray) -> IntArray:
        """Sums of any shape."""
        rounded = np.sign(sums) * ((np.abs(sums) + self.count // 2) // self.count)
        return np.asarray(np.clip(rounded, self.least, self.most))

    def real(self, sums: FloatArray) -> FloatArray:
        """What `integer` has, without rounding."""
        return np.clip(sums / self.count, self.least, self.most)

    @property
    def tables(self) -> tuple[ConstantTable, ...]:
        """There are none."""
        return ()

    def channels(self, chosen: slice) -> Averaging:
        """What holds for some of the channels: the same for all."""
        return self


Completion = Requantisation | Averaging
"""What makes an integer of 8 bits of a sum of products."""
