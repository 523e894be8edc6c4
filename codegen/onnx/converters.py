"""Columns of a crossbar as they are read: weights in slices of few bits, operands in pieces, and converters of few bits behind them.

A weight is a sign and a magnitude: a pair of cells, of which one is programmed, holds some bits of the magnitude, and further pairs in
columns beside it hold the next ones (bit slices). An operand's magnitude enters piece by piece, with its sign. A converter reads the sum of
a column for each slice and each piece, to the nearest of its steps, and what it gives is shifted to its place and added up digitally, as
in ISAAC (Shafiee et al. 2016, Section 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import Array


@dataclass(frozen=True)
class ColumnBlock:
    """Output channels [first, last) computed from input channels [first_input, last_input).

    row_bounds: row block r holds rows [row_bounds[r], row_bounds[r + 1]) of the block's matrix.
    """

    first: int
    last: int
    first_input: int
    last_input: int
    row_bounds: tuple[int, ...]

    @property
    def row_blocks(self) -> int:
        """How many cores add up."""
        return len(self.row_bounds) - 1


@dataclass(frozen=True)
class ColumnConverter:
    """What reads the columns of a layer. bits: of what it gives, with a sign. right: its step is 2**right. blocks: which rows and columns
    are on one core, for each has converters of its own. cell_bits: of a weight's magnitude in a pair of cells, 0: all. piece_bits: of an
    operand's magnitude that enter at once, 0: all."""

    bits: int
    blocks: tuple[ColumnBlock, ...]
    cell_bits: int = 0
    piece_bits: int = 0
    right: int = 0

    @property
    def largest(self) -> int:
        """The largest magnitude that it gives, in steps."""
        return int(2 ** (self.bits - 1) - 1)

    def read(self, sums: Array) -> Array:
        """Sums of columns as it gives them, in units of 1: floor(sum / 2**right + 1/2) steps, limited. Floats hold whole numbers below
        2**23 exactly; noisy cells give others."""
        steps = np.floor(sums * np.float32(2.0**-self.right) + np.float32(0.5))
        return np.asarray(np.clip(steps, -self.largest, self.largest) * np.float32(2.0**self.right))

    def slices(self, weights: Array) -> tuple[tuple[int, Array], ...]:
        """What the cells of integer weights hold, with the places of the slices; see `digits`."""
        return tuple(digits(weights, self.cell_bits))

    def products(self, slices: Sequence[tuple[int, Array]], operands: Array) -> Array:
        """What a core makes of weights [columns, rows], in `slices`, and operands [rows, ...], after all is added up; int64."""
        columns = len(slices[0][1])
        total = np.zeros((columns, *operands.shape[1:]))
        for further, sums in self.sums(slices, operands):
            read = self.read(sums)
            for number, (shift, _) in enumerate(slices):
                total += read[number * columns : (number + 1) * columns] * np.float32(2.0 ** (shift + further))
        return total.astype(np.int64)

    def sums(self, slices: Sequence[tuple[int, Array]], operands: Array) -> Iterator[tuple[int, Array]]:
        """For each piece of the operands its place, and the sums of all slices' columns, slice after slice; whole numbers as floats."""
        cells = np.concatenate([cells for _, cells in slices]).astype(np.float32)
        for place, piece in digits(operands, self.piece_bits):
            yield place, cells @ piece.astype(np.float32)

    def slack(self, weight_bits: int, operand_bits: int) -> int:
        """By how much rounding may enlarge a sum of all cores together. operand_bits: of a magnitude."""
        rows = max(block.row_blocks for block in self.blocks)
        places = [
            sum(1 << (k * step) for k in range(digit_count(bits, step)))
            for bits, step in ((weight_bits - 1, self.cell_bits), (operand_bits, self.piece_bits))
        ]
        return rows * places[0] * places[1] * ((1 << self.right) >> 1)


def digits(integers: Array, bits: int, least: int = 1) -> Iterator[tuple[int, Array]]:
    """Digits of so many bits of the magnitudes of integers, each with the integer's sign, and by how much they are shifted, the lowest
    first; as many as the largest magnitude has, or at least so many. bits 0: the integers themselves."""
    if not bits:
        yield 0, integers
        return
    magnitudes, negative = np.abs(integers), integers < 0
    signed = bool(negative.any())
    for place in range(max(least, digit_count(int(magnitudes.max(initial=0)).bit_length(), bits))):
        digit = (magnitudes >> (place * bits)) & ((1 << bits) - 1)
        yield place * bits, np.where(negative, -digit, digit) if signed else digit


def digit_count(magnitude_bits: int, bits: int) -> int:
    """How many digits of so many bits a magnitude takes, at least 1."""
    return max(1, -(-magnitude_bits // bits)) if bits else 1


def slice_count(weight_bits: int, cell_bits: int) -> int:
    """Columns that a weight takes. weight_bits: with its sign, which a pair of cells has for nothing."""
    return digit_count(weight_bits - 1, cell_bits)
