"""Products with a literal, without the powers of two that their division takes out of it again.

Quotients are rounded in the same way where divisor and dividend have a factor less. A literal of 1 or -1 is no product, and a smaller
shift takes fewer instructions.
"""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array, IntArray
from kilotune.codegen.emit.preshift import preshifted_rows
from kilotune.codegen.fixed.table import Column, FixedBatch


def emitted_rows(batch: FixedBatch) -> Int32Array:
    """The rows [candidates, operations, columns] of which code is made: those of `preshifted_rows` with the literals of products that
    cannot wrap, and the shifts of these, both without a power of two that they have in common."""
    rows = preshifted_rows(batch)
    columns = {v.name: i for i, v in enumerate(batch.program.variables)}
    for row, operation in enumerate(ir.operations(batch.program.body)):
        views = [item for item in operation.operands if isinstance(item, ir.View)]
        if not isinstance(operation, ir.Multiply) or len(views) != 1:
            continue
        is_first = isinstance(operation.operands[0], ir.Literal)
        literal = Column.CONSTANT_A if is_first else Column.CONSTANT_B
        numbers, shift = rows[:, row, literal], rows[:, row, Column.SHIFT_OUT]
        grows = rows[:, row, Column.SHIFT_B if is_first else Column.SHIFT_A] < 0
        bits = batch.bits[:, columns[views[0].variable]] + _width(numbers)
        exact = ~grows & (bits <= rows[:, row, Column.ACC_BITS]) & (shift > 0)
        power = np.where(exact, np.minimum(_power_of_two(numbers), shift), 0)
        rows[:, row, literal] = numbers >> power
        rows[:, row, Column.SHIFT_OUT] = shift - power
    return rows


def _width(numbers: Int32Array) -> IntArray:
    """The least width of integers that holds each number, of 8, 16 and 32."""
    magnitude = np.where(numbers < 0, -1 - numbers.astype(np.int64), numbers)
    return np.where(magnitude < 1 << 7, 8, np.where(magnitude < 1 << 15, 16, 32))


def _power_of_two(numbers: Int32Array) -> IntArray:
    """The exponent of the greatest power of two that divides each number; 0 of 0."""
    lowest = numbers.astype(np.int64) & -numbers.astype(np.int64)
    return np.where(lowest > 0, np.log2(np.maximum(lowest, 1)).round(), 0).astype(np.int64)
