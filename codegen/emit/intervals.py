"""Intervals of integers, and pointwise operators on them: `codegen.ir.numbers` over everything that a number may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.fixed.arithmetic import Rounding, scale_down
from kilotune.codegen.ir.numbers import Constant


@dataclass(frozen=True)
class Interval:
    """All integers from low to high."""

    low: int
    high: int

    @staticmethod
    def of_width(bits: int) -> Interval:
        """Everything that so many bits hold."""
        return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def fits(self, bits: int) -> bool:
        """Whether it lies in so many bits."""
        whole = Interval.of_width(bits)
        return whole.low <= self.low and self.high <= whole.high

    def down(self, shift: int, rounding: Rounding) -> Interval:
        """The interval of `x / 2**shift`, which no rounding makes fall; a negative shift multiplies."""
        ends = scale_down(np.array([self.low, self.high], dtype=np.int64), shift, rounding)
        return Interval(int(ends[0]), int(ends[1]))


@dataclass(frozen=True)
class Intervals:
    """Numbers are intervals; None stands for any number."""

    rounding: Rounding
    accumulator_bits: int

    def negative(self, a: Interval | None) -> Interval | None:
        turned = None if a is None else Interval(-a.high, -a.low)
        return turned if turned is not None and turned.fits(self.accumulator_bits) else None

    def positive(self, a: Interval | None) -> Interval | None:
        return None if a is None else Interval(max(a.low, 0), max(a.high, 0))

    def clip(self, a: Interval | None, limit: Constant) -> Interval | None:
        end = int(limit)
        return Interval(0, end) if a is None else Interval(min(max(a.low, 0), end), min(max(a.high, 0), end))

    def plus(self, a: Interval | None, constant: Constant) -> Interval | None:
        return None if a is None else Interval(a.low + int(constant), a.high + int(constant))

    def scaled(self, a: Interval | None, constant: Constant) -> Interval | None:
        return self.times(a, Interval(int(constant), int(constant)))

    def times(self, a: Interval | None, b: Interval | None) -> Interval | None:
        if a is None or b is None:
            return None
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return Interval(min(ends), max(ends))

    def down(self, a: Interval | None, shift: Constant) -> Interval | None:
        return None if a is None else a.down(int(shift), self.rounding)

    def narrow(self, a: Interval | None, like: Interval | None) -> Interval | None:
        return a

    def where_negative(self, a: Interval | None, then: Interval | None, otherwise: Interval | None) -> Interval | None:
        if then is None or otherwise is None:
            return None
        return Interval(min(then.low, otherwise.low), max(then.high, otherwise.high))
