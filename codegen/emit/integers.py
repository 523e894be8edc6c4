"""The arithmetic of fixed-point programs: one element of every elementwise operation, as `codegen.fixed.table` defines it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.context import Context, OperationRow, SumOfProducts
from kilotune.codegen.emit.normalise import emit_normalise
from kilotune.codegen.emit.operators import CExpression, cast, constant, int_type
from kilotune.codegen.emit.pointwise import Expressions, constants_of
from kilotune.codegen.emit.quantised_softmax import emit_softmax
from kilotune.codegen.emit.ranges import NARROW_BITS
from kilotune.codegen.emit.requantising import completed, quantised_element
from kilotune.codegen.emit.sums import integer_sum
from kilotune.codegen.emit.tables import Functions
from kilotune.codegen.fixed.arithmetic import scale_down, wrap
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.table import Column


@dataclass(frozen=True)
class Integers:
    """Numbers are integers at a scale."""

    functions: Functions
    tables: Sequence[Exponential]
    narrow: frozenset[int] = frozenset()  # rows whose sums of 32 bits fit 16 (`ranges`)
    largest_sums: Mapping[int, int] = field(
        default_factory=dict
    )  # by row of a quantised program, with biases (`ranges`)

    def literal(self, operation: ir.Operation, item: ir.Literal, place: int, row: OperationRow) -> CExpression:
        """The literal at its final scale."""
        first = 1 if isinstance(operation, ir.Select) else 0
        return constant(row[Column.CONSTANT_A if place == first else Column.CONSTANT_B])

    def element(
        self, context: Context, operation: ir.Elementwise, row: OperationRow, values: Sequence[CExpression]
    ) -> CExpression:
        """One element of the result, at its width."""
        return _result(self, context, operation, row, values)

    def rescale(self, context: Context, value: CExpression, row: OperationRow) -> CExpression:
        """Down by SHIFT_OUT, to the result's width."""
        return context.operators.store(value, row[Column.SHIFT_OUT], row[Column.BITS])

    def sum(self, context: Context, operation: ir.Product, row: OperationRow) -> SumOfProducts:
        """In order, or by SeeDot's TreeSum."""
        return integer_sum(context, row, operation.taps, row.number in self.narrow)

    def completing(
        self, context: Context, operation: ir.Product, row: OperationRow
    ) -> Callable[[str, str], None] | None:
        """By the operation's completion."""
        completion = operation.completion
        if completion is None:
            return None
        bits = NARROW_BITS if row.number in self.narrow else row[Column.ACC_BITS]

        def complete(channel: str, target: str) -> None:
            total = CExpression(f"({int_type(bits)})sum", bits)
            largest = self.largest_sums[row.number]
            made = completed(context.operators, self.functions.array, completion, total, channel, largest)
            context.writer.line(f"{target} = {made.text};")

        return complete

    def normalise(self, context: Context, operation: ir.NormaliseL2, row: OperationRow) -> None:
        """By an integer square root."""
        emit_normalise(context, operation, row)

    def softmax(self, context: Context, operation: ir.QuantisedSoftmax) -> None:
        """With powers from a table."""
        emit_softmax(context, operation, self.functions.array)

    def least(self, bits: int) -> str:
        """The end of the type."""
        return f"INT{bits}_MIN"


def _result(
    numbers: Integers, context: Context, operation: ir.Elementwise, row: OperationRow, values: Sequence[CExpression]
) -> CExpression:
    operators, bits, shift_out = context.operators, row[Column.BITS], row[Column.SHIFT_OUT]
    match operation:
        case ir.Fill():
            filled = scale_down(_exact(row[Column.CONSTANT_A]), shift_out, operators.rounding)
            return constant(int(wrap(filled, bits)))
        case ir.QuantisedElements():
            return quantised_element(operators, numbers.functions.array, operation, values)
        case ir.Sign():
            return CExpression(f"({values[0].text} > 0)", context.storage.bits[operation.out.variable])
        case ir.Select():
            return _choice(context, operation, row, values)
        case ir.Add() | ir.Subtract() | ir.Multiply():
            return operators.store(_binary(context, operation, row, values), shift_out, bits)
        case ir.TableFunction():
            table = numbers.tables[row[Column.FUNCTION]]
            result = numbers.functions.apply(operation, table, values[0], row[Column.SHIFT_A])
            return operators.store(result, shift_out, bits)
        case ir.Pointwise():
            expressions = Expressions(operators, row[Column.ACC_BITS])
            return operators.store(operation.integer(expressions, values[0], constants_of(row)), shift_out, bits)
        case _:
            assert_never(operation)


def _exact(value: int) -> IntArray:
    """A number as the arithmetic functions take it."""
    return np.asarray(value, dtype=np.int64)


def _binary(
    context: Context,
    operation: ir.Add | ir.Subtract | ir.Multiply,
    row: OperationRow,
    values: Sequence[CExpression],
) -> CExpression:
    """At the accumulator's width; modulo the result's where nothing of a sum comes down: avr-gcc 5.4 adds all bytes, and keeps one."""
    operators, bits = context.operators, row[Column.ACC_BITS]
    if row[Column.SHIFT_OUT] <= 0 and not isinstance(operation, ir.Multiply):
        bits = min(bits, row[Column.BITS])
    a, b = _scaled_pair(context, operation, row, values, bits)
    match operation:
        case ir.Add():
            return operators.add(a, b, bits)
        case ir.Subtract():
            return operators.subtract(a, b, bits)
        case ir.Multiply():
            return operators.multiply(a, b, bits)
        case _:
            assert_never(operation)


def _scaled_pair(
    context: Context, operation: ir.Operation, row: OperationRow, values: Sequence[CExpression], bits: int
) -> tuple[CExpression, CExpression]:
    """Both operands after their shifts; a literal already is at its final scale."""
    pair = []
    for item, value, column in zip(operation.operands, values, (Column.SHIFT_A, Column.SHIFT_B), strict=True):
        if isinstance(item, ir.Literal):
            pair.append(_modulo(value, bits))
        elif row[column] > 0:
            pair.append(context.operators.down(value, row[column], bits))
        else:
            pair.append(context.operators.scale(value, row[column], bits))
    return pair[0], pair[1]


def _modulo(value: CExpression, bits: int) -> CExpression:
    return cast(value, bits) if value.bits > bits else value


def _choice(context: Context, operation: ir.Select, row: OperationRow, values: Sequence[CExpression]) -> CExpression:
    """Exact until the end when something is shifted down there; modulo the result's width otherwise."""
    operators, bits, shift_out = context.operators, row[Column.BITS], row[Column.SHIFT_OUT]
    pair = []
    for item, value, column in zip(operation.operands[1:], values[1:], (Column.SHIFT_A, Column.SHIFT_B), strict=True):
        if isinstance(item, ir.Literal):
            pair.append(value)
        elif shift_out > 0:
            pair.append(operators.exact(value, row[column]))
        else:
            pair.append(operators.scale(value, row[column], bits))
    width = max(value.bits for value in pair)
    relation = ">" if operation.strict else ">="
    chosen = f"({values[0].text} {relation} 0 ? {pair[0].text} : {pair[1].text})"
    # C gives both branches one type, at least int; the cast names it
    return operators.store(CExpression(f"({int_type(width)}){chosen}", width), shift_out, bits)
