"""Integer exponentials by table: SeeDot's two-table scheme (Section 5.3.1) and Shiftry's (Section 5.4, Library 6).

Both split the distance t of the argument from a reference into high and low bits, and multiply two table entries.
Arguments outside the covered range are clamped to its ends, so the result is right on the whole input range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache, cached_property

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.codegen.fixed.arithmetic import Rounding, exponent, get_scale, scale_down, wrap

SHIFTRY_INPUT_SCALE = {16: 11, 8: 4}
"""Scale of the argument by its bitwidth (Shiftry Section 5.4)."""

SHIFTRY_PSI = 7
"""Low bits of the 16-bit argument that index the fine table (psi in Shiftry Section 5.4)."""


@dataclass(frozen=True)
class Exponential:
    """e**x for an integer x at `input_scale`, as an integer of `bits` bits at `scale`.

    t = clamp(sign * (x - reference), 0, limit); the result is coarse[t >> coarse_shift], times
    fine[(t >> fine_shift) & (len(fine) - 1)] when there is a fine table: both factors are shifted down by their
    operand shifts, the product wraps at `product_bits` and is shifted down by `product_shift`.
    """

    bits: int
    input_scale: int
    scale: int
    sign: int
    reference: int
    limit: int
    coarse: tuple[int, ...]
    coarse_shift: int
    fine: tuple[int, ...] = ()
    fine_shift: int = 0
    coarse_operand_shift: int = 0
    fine_operand_shift: int = 0
    product_bits: int = 32
    product_shift: int = 0

    @property
    def table_bytes(self) -> int:
        """Bytes of whole tables, as the papers count them."""
        return (len(self.coarse) + len(self.fine)) * self.bits // 8

    @cached_property
    def last_told_apart(self) -> int:
        """The least t from which on the result is one number: of a single table that of its last entries, of two zero (of e**v in 8
        bits, too). What lies behind it is not stored."""
        last = self.limit >> self.coarse_shift
        if self.fine and self.coarse[last]:
            return self.limit
        while last and self.coarse[last - 1] == self.coarse[last]:
            last -= 1
        return min(last << self.coarse_shift, self.limit)

    def shifted_arrays(self, rounding: Rounding) -> tuple[tuple[int, ...], ...]:
        """Whole arrays, to which the factors' operand shifts are applied beforehand."""
        return _shifted_arrays(self, rounding)

    def stored_arrays(self, rounding: Rounding) -> tuple[tuple[int, ...], ...]:
        """The arrays as a program stores them: shifted, the coarse one up to where it no longer changes."""
        coarse, *fine = _shifted_arrays(self, rounding)
        return (coarse[: (self.last_told_apart >> self.coarse_shift) + 1], *fine)

    @property
    def stored_bytes(self) -> int:
        """Flash that they take."""
        return ((self.last_told_apart >> self.coarse_shift) + 1 + len(self.fine)) * self.bits // 8

    @cached_property
    def half_tanh(self) -> tuple[int, ...] | None:
        """Integers at `scale` of tanh(t / 2), which sigmoids follow from as well, that may be stored in the place of e**-t, as many and as
        long; None where e**-t is no array of its own from 1 to 0, or 1 takes all of its bits."""
        one, stored = 1 << self.scale, self.coarse[: self.last_told_apart + 1]
        plain = not self.fine and (self.coarse_shift, self.reference, self.sign) == (0, 0, -1)
        if (
            not plain
            or one >> (self.bits - 1)
            or (stored[0], stored[-1]) != (one, 0)
            or not all(one > e > 0 for e in stored[1:-1])
        ):
            return None
        return tuple(one * (one - e) // (one + e) for e in stored)

    def __call__(self, x: IntArray, rounding: Rounding) -> IntArray:
        """The exponential of every element of `x`."""
        t = np.clip(self.sign * (x - self.reference), 0, self.limit)
        high = np.array(self.coarse, dtype=np.int64)[t >> self.coarse_shift]
        if not self.fine:
            return np.asarray(high)
        low = np.array(self.fine, dtype=np.int64)[(t >> self.fine_shift) & (len(self.fine) - 1)]
        product = wrap(
            scale_down(high, self.coarse_operand_shift, rounding) * scale_down(low, self.fine_operand_shift, rounding),
            self.product_bits,
        )
        return scale_down(product, self.product_shift, rounding)


@dataclass(frozen=True)
class LibraryExponential(Exponential):
    """math.h's e**x between the ends of a table, in its place: what tables are compared with. Programs with it are emitted and run by the
    reference simulator, whose floats are longer than the device's; batch simulators know tables only."""

    def __call__(self, x: IntArray, rounding: Rounding) -> IntArray:
        """The exponential of every element of `x`, toward zero."""
        ends = (self.reference, self.reference + self.sign * self.last_told_apart)
        real = np.exp(np.ldexp(np.clip(x, min(ends), max(ends)).astype(np.float64), -self.input_scale))
        return np.trunc(np.ldexp(real, self.scale)).astype(np.int64)


def by_library(table: Exponential) -> LibraryExponential:
    """Math.h's e**x in the place of a table."""
    return LibraryExponential(**{field.name: getattr(table, field.name) for field in fields(table)})


@cache
def _shifted_arrays(table: Exponential, rounding: Rounding) -> tuple[tuple[int, ...], ...]:
    arrays = [(table.coarse, table.coarse_operand_shift if table.fine else 0)]
    if table.fine:
        arrays.append((table.fine, table.fine_operand_shift))
    return tuple(tuple(scale_down(np.array(a, dtype=np.int64), shift, rounding).tolist()) for a, shift in arrays)


@cache
def shiftry_exponential(bits: int, largest: float = 0.0) -> Exponential:
    """Shiftry's exponential for 8 or 16 bit arguments that are at most `largest` (Library 6, `getTable_8`, `getTables_16`).

    The paper rewrites programs so that arguments are negative (`largest` = 0: input scale 11 and output scale 14,
    or 4 and 6). For positive ones the tables start at e**largest instead, and the output scale makes room for it.
    """
    input_scale = SHIFTRY_INPUT_SCALE[bits]
    reference = math.ceil(math.ldexp(max(largest, 0.0), input_scale))
    top = math.exp(math.ldexp(reference, -input_scale))
    scale = get_scale(top, bits)
    if bits == 8:
        entries = tuple(math.floor(math.ldexp(top * math.exp(-i / 2**input_scale), scale)) for i in range(1 << 7))
        return Exponential(bits, input_scale, scale, -1, reference, len(entries) - 1, entries, 0)
    steps = 1 << SHIFTRY_PSI
    coarse = tuple(
        math.floor(math.ldexp(top * math.exp(-i * steps / 2**input_scale), scale))
        for i in range(1 << (15 - SHIFTRY_PSI))
    )
    fine_scale = get_scale(1.0, bits)
    fine = tuple(math.floor(math.ldexp(math.exp(-j / 2**input_scale), fine_scale)) for j in range(steps))
    return Exponential(
        bits, input_scale, scale, -1, reference, (1 << 15) - 1, coarse, SHIFTRY_PSI, fine, 0, product_shift=fine_scale
    )


def mul_scale(scale_a: int, scale_b: int, bits: int, maxscale: int) -> tuple[int, int, int]:
    """SeeDot Algorithm 1, MulScale: (scale of the product, shift of a, shift of b).

    The paper halves S_mul for each operand; when S_mul is odd the second operand takes the extra bit.
    """
    shift = bits
    if scale_a + scale_b - shift <= maxscale:
        shift = max(bits - (maxscale - (scale_a + scale_b - shift)), 0)
    return scale_a + scale_b - shift, shift // 2, shift - shift // 2


def _saturated(value: float, scale: int, largest: int) -> int:
    """floor(value * 2**scale), at most `largest`, also where the product is beyond a double."""
    if value > 0.0 and math.frexp(value)[1] + scale > largest.bit_length():
        return largest
    return min(math.floor(math.ldexp(value, scale)), largest)


def _within_word(value: float, scale: int) -> float:
    """value * 2**scale, cut off at 2**62: arguments of so many bits are clamped to the table's ends anyway."""
    if value == 0.0 or math.frexp(value)[1] + scale <= 62:
        return math.ldexp(value, scale)
    return math.copysign(2.0**62, value)


@cache
def seedot_exponential(
    bits: int, maxscale: int, input_scale: int, low: float, high: float, index_bits: int
) -> Exponential:
    """SeeDot's exponential for arguments in [low, high] at `input_scale` (Algorithm 1, ExpTable; T = `index_bits`).

    Where the paper takes the scale of the coarse table from e**m, its smallest entry, this takes it from the largest
    one: with the paper's the entries overflow. The fine entries exceed 1, so their scale leaves room too.
    """
    m = math.floor(_within_word(low, input_scale))
    limit = max(math.ceil(_within_word(high, input_scale)) - m, 1)
    k = limit.bit_length()
    coarse_shift = max(k - index_bits, 0)
    fine_shift = max(k - 2 * index_bits, 0)
    largest = (1 << (bits - 1)) - 1

    def table(count: int, start: int, step: int, last: int) -> tuple[tuple[int, ...], int]:
        """`count` entries e**((start + i*step) / 2**input_scale); those after `last` are never read and saturate."""
        values = [math.exp(min(math.ldexp(start + i * step, -input_scale), 700.0)) for i in range(count)]
        scale = bits - 1 - exponent(values[last])
        return tuple(_saturated(v, scale, largest) for v in values), scale

    coarse, coarse_scale = table(1 << min(k, index_bits), m, 1 << coarse_shift, limit >> coarse_shift)
    fine_count = 1 << (coarse_shift - fine_shift)
    if fine_count == 1:
        return Exponential(bits, input_scale, coarse_scale, 1, m, limit, coarse, coarse_shift)
    fine, fine_scale = table(fine_count, 0, 1 << fine_shift, fine_count - 1)
    scale, shift_coarse, shift_fine = mul_scale(coarse_scale, fine_scale, bits, maxscale)
    return Exponential(
        bits, input_scale, scale, 1, m, limit, coarse, coarse_shift, fine, fine_shift, shift_coarse, shift_fine, bits
    )
