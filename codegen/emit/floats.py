"""Floating-point C of a program: the baseline that fixed-point programs are measured against.

It shares everything with them but the numbers: loops, sparse lists, parameters in flash, temporaries in one array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import CSource, emit_program
from kilotune.codegen.emit.constant_arrays import float_literal
from kilotune.codegen.emit.context import Context, OperationRow, counters_of, visit
from kilotune.codegen.emit.iteration import first_of_rows, iterate
from kilotune.codegen.emit.operators import CExpression, Operators
from kilotune.codegen.emit.storage import LABEL_BITS, make_storage
from kilotune.codegen.emit.writer import Writer
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.table import Column

FLOAT_BITS = 32


def emit_float_c(
    program: ir.Program, parameters: Mapping[str, FloatArray], *, name: str = "model", function: str = "predict"
) -> CSource:
    """The program in C with floats of 32 bits; link it with -lm. Temporaries are placed as those of fixed-point programs.

    Raises ValueError for an operation that overwrites what it still has to read.
    """
    labels = ir.label_variables(program)
    bits = {v.name: LABEL_BITS if v.name in labels else FLOAT_BITS for v in program.variables}
    storage = make_storage(program, bits, dict.fromkeys(bits, 0), real=True)
    rows = np.zeros((sum(1 for _ in ir.operations(program.body)), len(Column)), dtype=np.int32)
    context = Context(storage, Operators(Rounding.TOWARD_ZERO), Floats(), rows, Writer(depth=1))
    return emit_program(context, parameters, {}, True, (name, function), lambda: ([], []))


@dataclass(frozen=True)
class Floats:
    """Numbers are floats. Functions are those of <math.h>."""

    def literal(self, operation: ir.Operation, item: ir.Literal, place: int, row: OperationRow) -> CExpression:
        """The constant itself."""
        return _value(float_literal(item.value) if item.value >= 0 else f"({float_literal(item.value)})")

    def element(
        self, context: Context, operation: ir.Elementwise, row: OperationRow, values: Sequence[CExpression]
    ) -> CExpression:
        """One element of the result."""
        a, b, c = [*(value.text for value in values), "", "", ""][:3]
        match operation:
            case ir.Fill(value=value):
                return _value(float_literal(value))
            case ir.Pointwise():
                return _value(operation.real_c(a, float_literal))
            case ir.TableFunction():
                return _value(operation.real_c(a))
            case ir.Add() | ir.Subtract() | ir.Multiply():
                return _value(f"{a} {operation.symbol} {b}")
            case ir.Select(strict=strict):
                return _value(f"{a} {'>' if strict else '>='} 0 ? {b} : {c}")
            case ir.QuantisedElements():
                raise ValueError(f"{operation.location}: a quantised program has no floats")
            case ir.Sign():
                return CExpression(f"({a} > 0)", LABEL_BITS)
            case _:
                assert_never(operation)

    def rescale(self, context: Context, value: CExpression, row: OperationRow) -> CExpression:
        """The element itself."""
        return value

    def sum(self, context: Context, row: OperationRow, length: int) -> _FloatSum:
        """In order."""
        return _FloatSum(context)

    def completing(
        self, context: Context, operation: ir.Product, row: OperationRow
    ) -> Callable[[str, str], None] | None:
        """Nothing. ValueError for a sum of a quantised program."""
        if operation.completion is not None:
            raise ValueError(f"{operation.location}: a quantised program has no floats")
        return None

    def normalise(self, context: Context, operation: ir.NormaliseL2, row: OperationRow) -> None:
        """The sum of squares of each row, then the quotients."""
        writer, length = context.writer, operation.length
        rows = iterate([first_of_rows(operation.out), first_of_rows(operation.a)])
        last = [view.strides[-1] if view.shape else 0 for view in (operation.out, operation.a)]
        with writer.loops(counters_of(rows), scope=True) as counters:
            writer.line("float norm = 0;")
            with writer.loops([("k", length)]) as (k,):
                value = visit(context, operation.a, [*counters, k], [*rows.strides[1], last[1]]).text
                writer.line(f"norm += {value} * {value};")
            writer.line("norm = norm > 0 ? sqrtf(norm) : 1;")
            with writer.loops([("k", length)]) as (k,):
                value = visit(context, operation.a, [*counters, k], [*rows.strides[1], last[1]]).text
                target = visit(context, operation.out, [*counters, k], [*rows.strides[0], last[0]]).text
                writer.line(f"{target} = {value} / norm;")

    def softmax(self, context: Context, operation: ir.QuantisedSoftmax) -> None:
        """ValueError: it belongs to a quantised program."""
        raise ValueError(f"{operation.location}: a quantised program has no floats")

    def least(self, bits: int) -> str:
        """Minus infinity."""
        return "-INFINITY"


@dataclass(frozen=True)
class _FloatSum:
    context: Context
    numbered: bool = False
    plain: bool = False
    kind: str = "float"
    key: str = "float"
    modular: frozenset[int] = frozenset()

    def grown(self, a: CExpression, b: CExpression) -> str:
        return f"sum + {a.text} * {b.text}"

    def scaled_up(self, amount: str) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self.context.writer.line("float sum = 0;")

    def add(self, a: CExpression, b: CExpression, number: str, condition: str = "") -> None:
        self.context.writer.line(f"{f'if ({condition}) ' if condition else ''}sum += {a.text} * {b.text};")

    def store(self, target: str, bits: int) -> None:
        self.context.writer.line(f"{target} = sum;")


def _value(text: str) -> CExpression:
    return CExpression(text, FLOAT_BITS)
