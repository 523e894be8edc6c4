"""The lowering of quantised programs (`codegen.ir.requantisation`): there is one, which the file that they come from has decided."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.table import Column, FixedBatch, unencoded
from kilotune.codegen.ir.requantisation import ConstantTable

BITS = 8
"""Width of every variable; all are at scale 0."""

SUM_BITS = 32


def lower_quantised(program: ir.Program, count: int = 1) -> FixedBatch:
    """The only candidate, so many times. ValueError for a program that is not quantised."""
    if not ir.is_quantised(program):
        raise ValueError(f"{program.name} has no integers of its own")
    operations = tuple(ir.operations(program.body))
    rows = np.zeros((1, len(operations), len(Column)), dtype=np.int32)
    rows[:, :, Column.BITS] = BITS
    rows[:, :, Column.ACC_BITS] = BITS
    rows[:, :, Column.HALVINGS] = -1
    for number, operation in enumerate(operations):
        if isinstance(operation, ir.Product):
            rows[0, number, Column.ACC_BITS] = SUM_BITS
        elif isinstance(operation, ir.INTEGER_RESULTS):
            rows[0, number, Column.BITS] = 16
        elif isinstance(operation, ir.QuantisedElements):
            for operand, column in zip(operation.operands, (Column.CONSTANT_A, Column.CONSTANT_B), strict=False):
                if isinstance(operand, ir.Literal):
                    rows[0, number, column] = int(operand.value)
        elif isinstance(operation, ir.Fill):
            rows[0, number, Column.CONSTANT_A] = int(operation.value)
    rows = np.repeat(rows, count, axis=0)
    bits = np.full((count, len(program.variables)), BITS, dtype=np.int32)
    return FixedBatch(program, Rounding.TOWARD_ZERO, bits, np.zeros_like(bits), rows, (), unencoded(bits.shape))


def quantised_tables(program: ir.Program) -> frozenset[ConstantTable]:
    """Constants of a quantised program that lie in flash beside its parameters."""
    found: set[ConstantTable] = set()
    for operation in ir.operations(program.body):
        if isinstance(operation, ir.Product) and operation.completion is not None:
            found.update(operation.completion.tables)
        elif isinstance(operation, ir.Lookup):
            found.add((8, operation.entries))
        elif isinstance(operation, ir.QuantisedSoftmax):
            found.add((32, operation.powers))
    return frozenset(found)
