"""Values stored as their only reader wants them: divided beforehand, where it would divide each element it reads.

A parameter is divided when its array is written; a sum of products together with the division that ends it, since two divisions by powers
of two toward zero, or toward minus infinity, are one by their product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.table import Column, FixedBatch

_SHIFTED = ir.MatMul | ir.Conv2D | ir.Multiply | ir.Add | ir.Subtract


def shifted_operands(program: ir.Program) -> Mapping[tuple[int, Column], str]:
    """By row and shift: the parameter that only this operand reads, and so can be stored divided."""
    operations = tuple(ir.operations(program.body))
    readers = Counter(view.variable for o in operations for view in o.operands if isinstance(view, ir.View))
    parameters = {v.name for v in program.variables if v.role is ir.Role.PARAMETER} - {program.result.variable}
    found = {}
    for row, operation in enumerate(operations):
        if not isinstance(operation, _SHIFTED):
            continue
        for operand, column in zip(operation.operands, (Column.SHIFT_A, Column.SHIFT_B), strict=True):
            if isinstance(operand, ir.View) and operand.variable in parameters and readers[operand.variable] == 1:
                found[row, column] = operand.variable
    return found


def shifted_sums(program: ir.Program) -> Mapping[int, tuple[int, Column]]:
    """By the row of a product: the row and shift of the only operand that reads its result, which nothing else writes."""
    operations = tuple(ir.operations(program.body))
    readers = Counter(view.variable for o in operations for view in o.operands if isinstance(view, ir.View))
    writers = Counter(o.out.variable for o in operations)
    makers = {o.out.variable: row for row, o in enumerate(operations) if isinstance(o, ir.Product) and not o.completion}
    found = {}
    for row, operation in enumerate(operations):
        if not isinstance(operation, _SHIFTED):
            continue
        for operand, column in zip(operation.operands, (Column.SHIFT_A, Column.SHIFT_B), strict=True):
            name = operand.variable if isinstance(operand, ir.View) else None
            if name in makers and readers[name] == writers[name] == 1 and name != program.result.variable:
                found[makers[name]] = row, column
    return found


def preshifted_rows(batch: FixedBatch) -> Int32Array:
    """The rows [candidates, operations, columns] as they are emitted: without divisions of such parameters and sums.

    A parameter that lies in flash as codes is divided when it is read: its codes have no room for more digits, and need none. So is a sum
    that wraps before it is divided again.
    """
    rows = batch.rows.copy()
    # The last is of parameters without an encoding, whose number is -1.
    whole = np.array([not encoding.in_codes for encoding in batch.encodings] + [True])
    columns = {v.name: i for i, v in enumerate(batch.program.variables)}
    for (row, column), name in shifted_operands(batch.program).items():
        stored_whole = whole[batch.encoded[:, columns[name]]]
        rows[:, row, column] = np.where(stored_whole, np.minimum(rows[:, row, column], 0), rows[:, row, column])
    if batch.rounding is Rounding.NEAREST:
        return rows
    for maker, (row, column) in shifted_sums(batch.program).items():
        further = np.maximum(rows[:, row, column], 0)
        first, bits, kept = (rows[:, maker, c] for c in (Column.SHIFT_OUT, Column.ACC_BITS, Column.BITS))
        exact = (first >= 0) & (bits - first <= kept) & (first + further < bits)
        rows[:, row, column] -= np.where(exact, further, 0)
        rows[:, maker, Column.SHIFT_OUT] += np.where(exact, further, 0)
    return rows


def preshift(batch: FixedBatch) -> tuple[Int32Array, dict[str, int]]:
    """The rows of the only candidate without divisions of such parameters, and by which power of two to divide those."""
    given, rows = batch.rows[0], preshifted_rows(batch)[0]
    shifts = {
        name: int(given[row, column] - rows[row, column])
        for (row, column), name in shifted_operands(batch.program).items()
        if given[row, column] > rows[row, column]
    }
    return rows, shifts
