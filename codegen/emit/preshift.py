"""Parameters stored as their only reader wants them: divided beforehand, where it would divide each element it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array
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


def preshifted_rows(batch: FixedBatch) -> Int32Array:
    """The rows [candidates, operations, columns] as they are emitted: without divisions of such parameters.

    One that is encoded is divided when it is read: its codes have no room for more digits, and need none.
    """
    rows = batch.rows.copy()
    columns = {v.name: i for i, v in enumerate(batch.program.variables)}
    for (row, column), name in shifted_operands(batch.program).items():
        stored_whole = batch.encoded[:, columns[name]] < 0
        rows[:, row, column] = np.where(stored_whole, np.minimum(rows[:, row, column], 0), rows[:, row, column])
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
