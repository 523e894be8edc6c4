"""How a parameter is stored in flash: as codes of 1, 2, 3, 4 or 6 bits, or as the nearest integers of its own width.

This is the one place that says it. A program computes with integers of 8 or 16 bits at a scale; a `ParameterEncoding` says which integers
those of a parameter are, and in which codes they lie in flash. The simulators, the ranges and the emitted C take both from here, so
arithmetic knows nothing of it: what is narrow is storage, not what is computed with.

A code of w bits is a signed integer from -2**(w-1) to 2**(w-1) - 1 (of 2 bits, ternary, also -2), or for w = 1 (binary weights) one of -1
and 1. The real numbers become codes by rounding to the nearest one, the last one for all that lie beyond (a clipped range).
Codes are stored without their sign, from 0, in groups that fill whole bytes (`LAYOUTS`).

Codes of 4 bits may also be places in a table of 16 integers of 8 bits, which lies in flash beside them (`codegen.fixed.codebook`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.arithmetic import quantise_clipped
from kilotune.codegen.fixed.codebook import (
    CODEBOOK_BITS,
    CODEBOOK_SIZE,
    INTEGER_BITS,
    CodedWeights,
    coded_weights,
)
from kilotune.codegen.fixed.sequential_rounding import SequentialRounding

BYTE_BITS = 8


@dataclass(frozen=True)
class Layout:
    """`codes` codes of `width` bits in `group_bytes` bytes.

    Every byte holds `beside` whole codes from its lowest bit on. Where bits are left over, those of all bytes of a group make its last
    codes, the first byte's being the lowest.
    """

    width: int
    codes: int
    group_bytes: int

    @property
    def beside(self) -> int:
        """Whole codes in a byte."""
        return BYTE_BITS // self.width

    def size_bytes(self, count: int) -> int:
        """Bytes of an array of so many codes: of whole groups."""
        return -(-count // self.codes) * self.group_bytes

    def pack(self, codes: IntArray) -> bytes:
        """Codes [count] from 0 to 2**width - 1 as bytes."""
        groups = np.pad(codes, (0, -len(codes) % self.codes)).reshape(-1, self.codes)
        packed = np.zeros((len(groups), self.group_bytes), dtype=np.int64)
        for byte in range(self.group_bytes):
            for place in range(self.beside):
                packed[:, byte] |= groups[:, byte * self.beside + place] << place * self.width
        spare = BYTE_BITS - self.beside * self.width
        for number, code in enumerate(range(self.group_bytes * self.beside, self.codes)):
            for byte in range(self.group_bytes):
                left = self.left_over(groups[:, code], number, byte)
                packed[:, byte] |= left << BYTE_BITS - spare
        return packed.astype(np.uint8).tobytes()

    def left_over(self, codes: IntArray, number: int, byte: int) -> IntArray:
        """What of the group's code number `number` among those made of left-over bits lies in a byte's left-over bits."""
        spare = BYTE_BITS - self.beside * self.width
        return np.asarray((codes << number * self.width >> byte * spare) & ((1 << spare) - 1))


LAYOUTS: Mapping[int, Layout] = MappingProxyType(
    {1: Layout(1, 8, 1), 2: Layout(2, 4, 1), 3: Layout(3, 8, 3), 4: Layout(4, 2, 1), 6: Layout(6, 4, 3)}
)
"""By width, of all widths that are packed."""


@dataclass(frozen=True)
class RowShifts:
    """How much larger than those of the finest row the steps of each row are, as powers of two.

    A row is what lies at one place of the parameter's `axes`: the weights of one sum. `shifts`: one a row, in row-major order.
    ValueError if no row is shifted: such a parameter has no scales of its own for its rows, and no array of them belongs into its program.
    """

    axes: tuple[int, ...]
    shifts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not any(self.shifts):
            raise ValueError(f"at least one of {len(self.shifts)} rows must be shifted")

    def of_shape(self, shape: tuple[int, ...]) -> IntArray:
        """The shifts, to be broadcast over a parameter of that shape."""
        extents = [extent if axis in self.axes else 1 for axis, extent in enumerate(shape)]
        return np.array(self.shifts, dtype=np.int64).reshape(extents)


@dataclass(frozen=True, eq=False)
class GivenCodes:
    """Codes that were chosen elsewhere, of a parameter's own shape, and the codebook [16] that they are places in, if there is one."""

    codes: IntArray
    table: IntArray | None = None


@dataclass(frozen=True)
class ParameterEncoding:
    """Codes of `width` bits, each of which stands for the integer `code * 2**shift`, of `rows` times 2 to its row's.

    A width of 8 or 16 is that of the integers themselves, which are then the nearest ones, not those toward zero. `integer_bits` is at
    most the width that programs compute with. `rounding`: chooses codes with regard to
    what they are multiplied by; None: the nearest.

    `given`: the codes themselves, which no value chooses any more.

    With a `codebook` a code is the number of an integer in a table, counted from its middle. ValueError for one of another width than
    4 bits, with a shift or with shifts of rows.
    """

    width: int
    shift: int = 0
    rounding: SequentialRounding | None = field(default=None, repr=False)
    rows: RowShifts | None = None
    codebook: bool = False
    given: GivenCodes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.codebook and (self.width != CODEBOOK_BITS or self.shift or self.rows is not None):
            raise ValueError(f"codes of a table have {CODEBOOK_BITS} bits and no shifts")

    @property
    def integer_bits(self) -> int:
        """The width that holds all integers of the encoding."""
        if self.codebook:
            return INTEGER_BITS
        return max(self.width, 2) + self.shift + (max(self.rows.shifts) if self.rows else 0)

    @property
    def layout(self) -> Layout | None:
        """How codes are packed; None where each has its own bytes."""
        return LAYOUTS.get(self.width)

    @property
    def in_codes(self) -> bool:
        """Whether codes lie in flash, and not the integers that a program computes with."""
        return self.layout is not None or self.rows is not None

    @property
    def table_bytes(self) -> int:
        """Flash of what lies beside the codes: the table, and the shifts of rows."""
        return (CODEBOOK_SIZE if self.codebook else 0) + (len(self.rows.shifts) if self.rows is not None else 0)

    def codes(self, values: FloatArray, scale: int) -> IntArray:
        """The code of every value, for integers at `scale`; of the parameter's own shape, where rows have shifts."""
        if self.given is not None:
            return self.given.codes.reshape(np.shape(values))
        if self.codebook:
            return self._coded(values, scale).places - CODEBOOK_SIZE // 2
        scaled = np.ldexp(np.asarray(values, dtype=np.float64), scale - self._shifts(np.shape(values)))
        return self._nearest(scaled) if self.rounding is None else self.rounding.codes(scaled, self._nearest)

    def _nearest(self, scaled: FloatArray) -> IntArray:
        """The nearest code of numbers in units of the codes."""
        if self.width == 1:
            return np.where(scaled < 0, -1, 1).astype(np.int64)
        half = 1 << (self.width - 1)
        return np.clip(np.floor(scaled + 0.5), -half, half - 1).astype(np.int64)

    def integers(self, values: FloatArray, scale: int) -> IntArray:
        """The integers at `scale` that the codes of values stand for; `values` of the parameter's own shape, where rows have shifts."""
        if self.codebook and self.given is None:
            return self._coded(values, scale).integers
        if self.codebook:
            return np.asarray(self.table(values, scale)[self.codes(values, scale) + CODEBOOK_SIZE // 2])
        return np.asarray(self.codes(values, scale) << self._shifts(np.shape(values)))

    def table(self, values: FloatArray, scale: int) -> IntArray:
        """The codebook [16] of a parameter. ValueError for an encoding without."""
        if not self.codebook:
            raise ValueError("codes that are multiples have no table")
        if self.given is not None and self.given.table is not None:
            return self.given.table
        return self._coded(values, scale).table

    def with_codes(self, codes: IntArray) -> ParameterEncoding:
        """The encoding with these codes given, of a parameter that already has given ones, in whose table a codebook's stay."""
        return replace(self, given=GivenCodes(codes, None if self.given is None else self.given.table))

    def around(self, values: FloatArray, scale: int) -> tuple[IntArray, IntArray]:
        """For every value the code of the largest integer that is not above it, and of the least one that is above; for what lies beyond
        all codes the last one twice."""
        exact = np.ldexp(np.asarray(values, dtype=np.float64), scale)
        if self.codebook:
            table = self.table(values, scale)
            order, last = np.argsort(table, kind="stable"), CODEBOOK_SIZE - 1
            places = np.searchsorted(table[order], exact, side="right")
            codes = order - CODEBOOK_SIZE // 2
            return codes[np.maximum(places - 1, 0)], codes[np.minimum(places, last)]
        if self.width == 1:
            return np.full(exact.shape, -1, dtype=np.int64), np.ones(exact.shape, dtype=np.int64)
        half = 1 << (self.width - 1)
        below = np.floor(np.ldexp(exact, -self._shifts(exact.shape))).astype(np.int64)
        return np.clip(below, -half, half - 1), np.clip(below + 1, -half, half - 1)

    def beside(self, code: int, values: FloatArray, scale: int) -> tuple[int, int]:
        """The codes of the next smaller integer and of the next larger one; at either end the code itself. `values`: of the parameter."""
        if self.width == 1:
            return -1, 1
        half = 1 << (self.width - 1)
        if not self.codebook:
            return max(code - 1, -half), min(code + 1, half - 1)
        table = self.table(values, scale)  # ascending; its last integer may stand there several times
        first = int(np.searchsorted(table, table[code + half]))
        after = int(np.searchsorted(table, table[first], side="right"))
        return max(first - 1, 0) - half, (after if after < len(table) else first) - half

    def _coded(self, values: FloatArray, scale: int) -> CodedWeights:
        return coded_weights(np.ldexp(np.asarray(values, dtype=np.float64), scale), self.rounding)

    def _shifts(self, shape: tuple[int, ...]) -> IntArray:
        return np.asarray(self.shift if self.rows is None else self.shift + self.rows.of_shape(shape))

    def packed(self, codes: IntArray) -> bytes:
        """Codes [count] as they lie in flash. ValueError for a width that is not packed."""
        if self.layout is None:
            raise ValueError(f"codes of {self.width} bits are not packed")
        from_zero = (codes + 1) // 2 if self.width == 1 else codes + (1 << (self.width - 1))
        return self.layout.pack(from_zero)


def stored_integers(values: FloatArray, bits: int, scale: int, encoding: ParameterEncoding | None) -> IntArray:
    """The integers of `bits` bits at `scale` that stand for a parameter: those of its encoding, or without one the papers', toward zero.

    At a scale finer than its largest values they are clipped in every width. There the papers' compilers have them wrap around, which
    makes a weight of the other sign of each of them: of the scales that Shiftry tries, the finer ones were of no use to weights.
    """
    if encoding is None:
        return quantise_clipped(values, bits, scale)
    return encoding.integers(values, scale)


def stored_bytes(count: int, width: int) -> int:
    """Flash bytes of `count` codes of a width."""
    layout = LAYOUTS.get(width)
    return count * width // BYTE_BITS if layout is None else layout.size_bytes(count)
