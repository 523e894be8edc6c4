"""The lowered form of fixed-point programs: for every operation a row of widths and shifts.

The operations themselves stay in the IR. A candidate differs from another one only in these integers, so a batch of
candidates is one array, and nothing is parsed, built or compiled per candidate. What a row means:

    down(x, n)   x / 2**n, rounded as the program says; n < 0 multiplies
    wrap(x, b)   two's complement of the low b bits

    Add, Subtract     wrap(down(wrap(down(a, SHIFT_A) +- down(b, SHIFT_B), ACC_BITS), SHIFT_OUT), BITS)
    Multiply, MatMul, Conv2D
                      products wrap(down(a, SHIFT_A) * down(b, SHIFT_B), ACC_BITS), each down by SHIFT_TERM, summed:
                      HALVINGS < 0: in order, modulo 2**ACC_BITS;
                      HALVINGS = h: by SeeDot's TreeSum, whose first h levels halve both addends;
                      then wrap(down(sum, SHIFT_OUT), BITS)
    MaxPool           wrap(down(the largest a, SHIFT_OUT), BITS)
    pointwise         wrap(down(f(a), SHIFT_OUT), BITS), with f as its module of `codegen/ir/pointwise` says; what it computes of
                      widths and scales is in CONSTANT_A, CONSTANT_B and SHIFT_B
    Select            wrap(down(the chosen one of down(a, SHIFT_A), down(b, SHIFT_B), SHIFT_OUT), BITS)
    Exp, Sigmoid, Tanh
                      wrap(down(f(down(a, SHIFT_A)), SHIFT_OUT), BITS) with f from functions[FUNCTION]
    NormaliseL2       r = isqrt(sum(down(a, SHIFT_A)**2)); wrap(down(down(a, SHIFT_A) * 2**SHIFT_B / r, SHIFT_OUT), BITS),
                      the division toward zero; 0 where r is 0
    Fill              CONSTANT_A
    ArgMax, Sign      exact

A literal operand a (b) is the integer CONSTANT_A (CONSTANT_B), already at its final scale.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, Int32Array, IntArray
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.encoding import ParameterEncoding, stored_integers
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.ir import Constants, Exp, Program, operations
from kilotune.codegen.ir.numbers import Constant


class Column(enum.IntEnum):
    """Columns of a row; see the module's text for what they do."""

    BITS = 0
    ACC_BITS = 1
    SHIFT_A = 2
    SHIFT_B = 3
    SHIFT_TERM = 4
    SHIFT_OUT = 5
    HALVINGS = 6
    CONSTANT_A = 7
    CONSTANT_B = 8
    FUNCTION = 9


def constant_columns(constants: Constants) -> tuple[tuple[Column, Constant], ...]:
    """The columns in which the constants of a pointwise operator are stored, with their values."""
    return (Column.CONSTANT_A, constants.a), (Column.CONSTANT_B, constants.b), (Column.SHIFT_B, constants.shift)


@dataclass(frozen=True)
class FixedBatch:
    """N lowered candidates of one program.

    `rows` [N, operations, columns]; `bits` and `scales` [N, variables] in the order of `program.variables`: what is
    computed with (a scale here is the effective one, after lowering). `encoded` [N, variables]: by which of `encodings` a parameter is
    stored; -1 for one that is stored as the papers say, at its own width.
    """

    program: Program
    rounding: Rounding
    bits: Int32Array
    scales: Int32Array
    rows: Int32Array
    functions: tuple[Exponential, ...]
    encoded: Int32Array
    encodings: tuple[ParameterEncoding, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def one(self, index: int) -> FixedBatch:
        """The batch that holds only candidate `index`."""
        return self.part(slice(index, index + 1))

    def part(self, pick: slice | Sequence[int]) -> FixedBatch:
        """The batch that holds some of the candidates."""
        return replace(
            self,
            bits=self.bits[pick],
            scales=self.scales[pick],
            rows=self.rows[pick],
            encoded=self.encoded[pick],
        )

    def parts(self, most: int) -> list[FixedBatch]:
        """The batch in parts of so many candidates at most."""
        if len(self) <= most:
            return [self]
        return [self.part(slice(start, start + most)) for start in range(0, len(self), most)]

    @cached_property
    def most_bits(self) -> int:
        """The width of the widest variable of all candidates."""
        return int(self.bits.max(initial=0))

    @property
    def stored_bits(self) -> IntArray:
        """Widths in storage [N, variables]: those of codes where a parameter is encoded."""
        bits = self.bits.astype(np.int64)
        if not self.encodings:
            return bits
        widths = np.array([encoding.width for encoding in self.encodings], dtype=np.int64)
        return np.where(self.encoded >= 0, widths[np.maximum(self.encoded, 0)], bits)

    @property
    def packed(self) -> npt.NDArray[np.bool_]:
        """Which parameters [N, variables] lie in flash as codes of less than a byte."""
        narrow = np.array([*(encoding.layout is not None for encoding in self.encodings), False])
        return np.asarray(narrow[self.encoded])  # without an encoding it is -1

    @property
    def by_half_tanh(self) -> tuple[bool, ...]:
        """Whether, of each of the functions, `Exponential.half_tanh` stands in flash: where sigmoid and tanh are all that they are for."""
        only = not any(isinstance(operation, Exp) for operation in operations(self.program.body))
        return tuple(only and function.half_tanh is not None for function in self.functions)

    def encoding(self, index: int, column: int) -> ParameterEncoding | None:
        """How candidate `index` encodes the parameter in `column`."""
        number = int(self.encoded[index, column])
        return None if number < 0 else self.encodings[number]

    def integers(self, index: int, column: int, values: FloatArray) -> IntArray:
        """What candidate `index` computes with for the `values` of the parameter in `column`."""
        bits, scale = int(self.bits[index, column]), int(self.scales[index, column])
        shaped = np.reshape(values, self.program.variables[column].shape)
        return stored_integers(shaped, bits, scale, self.encoding(index, column))


def unencoded(shape: tuple[int, ...]) -> Int32Array:
    """`FixedBatch.encoded` of candidates [N, variables] without encodings."""
    encoded = np.empty(shape, dtype=np.int32)
    encoded.fill(-1)  # in half the time of `np.full`
    return encoded
