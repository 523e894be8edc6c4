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
from dataclasses import dataclass

from kilotune.codegen.arrays import Int32Array
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.ir import Constants, Program
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
    stored (a scale here is the effective one, after lowering).
    """

    program: Program
    rounding: Rounding
    bits: Int32Array
    scales: Int32Array
    rows: Int32Array
    functions: tuple[Exponential, ...]

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def one(self, index: int) -> FixedBatch:
        """The batch that holds only candidate `index`."""
        return self.part(slice(index, index + 1))

    def part(self, pick: slice) -> FixedBatch:
        """The batch that holds some of the candidates."""
        return FixedBatch(
            self.program, self.rounding, self.bits[pick], self.scales[pick], self.rows[pick], self.functions
        )
