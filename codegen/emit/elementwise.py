"""C of the operations that visit elements one by one: sums, products, moves, functions, windows, labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, Row, counters_of, operand, visit
from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.emit.operators import Value, cast, constant, int_type
from kilotune.codegen.fixed.arithmetic import IntArray, scale_down, wrap
from kilotune.codegen.fixed.table import Column


def emit_elementwise(context: Context, operation: ir.Operation, row: Row) -> None:
    """One loop nest in which every element of `out` is computed from elements at the same place."""
    items = operation.operands
    views = [item for item in items if isinstance(item, ir.View)]
    loops = iterate([operation.out, *views])
    literals = {0: row[Column.CONSTANT_A], 1: row[Column.CONSTANT_B]}
    first = 1 if isinstance(operation, ir.Select) else 0
    with context.writer.loops(counters_of(loops)) as counters:
        strides = iter(loops.strides[1:])
        none = (0,) * len(counters)
        values = [
            operand(
                context,
                item,
                counters,
                next(strides) if isinstance(item, ir.View) else none,
                literals.get(number - first, 0),
            )
            for number, item in enumerate(items)
        ]
        target = visit(context, operation.out, counters, loops.strides[0])
        result = _result(context, operation, row, values)
        context.writer.line(f"{target.text} = {cast(result, target.bits).text};")


def _result(context: Context, operation: ir.Operation, row: Row, values: Sequence[Value]) -> Value:
    operators, bits, shift_out = context.operators, row[Column.BITS], row[Column.SHIFT_OUT]
    match operation:
        case ir.Fill():
            filled = scale_down(_exact(row[Column.CONSTANT_A]), shift_out, operators.rounding)
            return constant(int(wrap(filled, bits)))
        case ir.Sign():
            return Value(f"({values[0].text} > 0)", context.storage.bits[operation.out.variable])
        case ir.Select():
            return _choice(context, operation, row, values)
        case ir.Add() | ir.Subtract() | ir.Multiply():
            return operators.store(_binary(context, operation, row, values), shift_out, bits)
        case ir.Exp() | ir.Sigmoid() | ir.Tanh():
            table = context.tables[row[Column.FUNCTION]]
            result = context.functions.apply(operation, table, values[0], row[Column.SHIFT_A])
            return operators.store(result, shift_out, bits)
        case ir.Negate():
            return operators.store(operators.subtract(constant(0), values[0], row[Column.ACC_BITS]), shift_out, bits)
        case _:
            return operators.store(_move(context, operation, row, values[0]), shift_out, bits)


def _exact(value: int) -> IntArray:
    """A number as the arithmetic functions take it."""
    return np.asarray(value, dtype=np.int64)


def _binary(context: Context, operation: ir.Operation, row: Row, values: Sequence[Value]) -> Value:
    operators, accumulator = context.operators, row[Column.ACC_BITS]
    a, b = _scaled_pair(context, operation, row, values, accumulator)
    match operation:
        case ir.Add():
            return operators.add(a, b, accumulator)
        case ir.Subtract():
            return operators.subtract(a, b, accumulator)
        case _:
            return operators.multiply(a, b, accumulator)


def _scaled_pair(
    context: Context, operation: ir.Operation, row: Row, values: Sequence[Value], bits: int
) -> tuple[Value, Value]:
    """Both operands after their shifts; a literal already is at its final scale."""
    pair = []
    for item, value, column in zip(operation.operands, values, (Column.SHIFT_A, Column.SHIFT_B), strict=True):
        literal = isinstance(item, ir.Literal)
        pair.append(_modulo(value, bits) if literal else context.operators.scale(value, row[column], bits))
    return pair[0], pair[1]


def _modulo(value: Value, bits: int) -> Value:
    return cast(value, bits) if value.bits > bits else value


def _choice(context: Context, operation: ir.Select, row: Row, values: Sequence[Value]) -> Value:
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
    return operators.store(Value(f"({int_type(width)}){chosen}", width), shift_out, bits)


def _move(context: Context, operation: ir.Operation, row: Row, value: Value) -> Value:
    match operation:
        case ir.Copy():
            return value
        case ir.Relu():
            return Value(f"({int_type(value.bits)})({value.text} > 0 ? {value.text} : 0)", value.bits)
        case ir.Relu6():
            limit = constant(row[Column.CONSTANT_B])
            bits = max(value.bits, limit.bits)
            kind = int_type(bits)
            name = context.operators.require(
                f"kt_clip{bits}",
                f"/* v, held between 0 and limit */\n"
                f"KT_INLINE {kind} kt_clip{bits}({kind} v, {kind} limit)\n{{\n"
                f"    if (v < 0) v = 0;\n    return v < limit ? v : limit;\n}}",
            )
            return Value(f"{name}({value.text}, {limit.text})", bits)
    raise NotImplementedError(type(operation).__name__)
