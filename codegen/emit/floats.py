"""Floating-point C of a program: the baseline that fixed-point programs are measured against.

It shares everything with them but the numbers: loops, sparse lists, parameters in flash, temporaries in one array. Parameters may be
stored in 8 bits (`codegen.byte_weights`); their integers become floats where they are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.byte_weights import byte_step, eight_bit_weights, stored_as_bytes
from kilotune.codegen.emit.c import CSource, emit_program
from kilotune.codegen.emit.constant_arrays import float_literal
from kilotune.codegen.emit.context import Context, OperationRow, counters_of, visit
from kilotune.codegen.emit.iteration import first_of_rows, iterate
from kilotune.codegen.emit.operators import CExpression, Operators
from kilotune.codegen.emit.storage import LABEL_BITS, make_storage
from kilotune.codegen.emit.writer import Writer
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.encoding import BYTE_BITS
from kilotune.codegen.fixed.table import Column

FLOAT_BITS = 32


def emit_float_c(
    program: ir.Program,
    parameters: Mapping[str, FloatArray],
    *,
    byte_weights: bool = False,
    name: str = "model",
    function: str = "predict",
) -> CSource:
    """The program in C with floats of 32 bits; link it with -lm. Temporaries are placed as those of fixed-point programs.
    `byte_weights`: as a hybrid program, which computes in floats with `eight_bit_weights` of the parameters and stores these in 8 bits.

    Raises ValueError for an operation that overwrites what it still has to read.
    """
    labels = ir.label_variables(program)
    bits = {v.name: LABEL_BITS if v.name in labels else FLOAT_BITS for v in program.variables}
    steps: dict[str, float] = {}
    if byte_weights:
        steps = {name: byte_step(parameters[name]) for name in stored_as_bytes(program)}
        parameters = eight_bit_weights(parameters)
    bits |= dict.fromkeys(steps, BYTE_BITS)
    storage = dataclasses.replace(make_storage(program, bits, dict.fromkeys(bits, 0), real=True), steps=steps)
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
        texts = [
            _stepped(context, item.variable, value.text) if isinstance(item, ir.View) else value.text
            for item, value in zip(operation.operands, values, strict=True)
        ]
        a, b, c = [*texts, "", "", ""][:3]
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

    def sum(self, context: Context, operation: ir.Product, row: OperationRow) -> _FloatSum:
        """In order; of operands in 8 bits it is multiplied at its end by what their integers are worth."""
        steps = context.storage.steps
        return _FloatSum(context, steps.get(operation.a.variable, 1.0) * steps.get(operation.b.variable, 1.0))

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
    step: float = 1.0
    numbered: bool = False
    plain: bool = False
    kind: str = "float"
    key: str = "float"
    modular: frozenset[int] = frozenset()
    narrowing: None = None

    def grown(self, a: CExpression, b: CExpression) -> str:
        return f"sum + {_product(a, b)}"

    def scaled_up(self, amount: str) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self.context.writer.line("float sum = 0;")

    def add(self, a: CExpression, b: CExpression, number: str, condition: str = "") -> None:
        self.context.writer.line(f"{f'if ({condition}) ' if condition else ''}sum += {_product(a, b)};")

    def store(self, target: str, bits: int) -> None:
        factor = "" if self.step == 1.0 else f" * {float_literal(self.step)}"
        self.context.writer.line(f"{target} = sum{factor};")


def _product(a: CExpression, b: CExpression) -> str:
    """In floats, also where both factors are integers of 8 bits."""
    return f"{'(float)' if a.bits == b.bits == BYTE_BITS else ''}{a.text} * {b.text}"


def _stepped(context: Context, variable: str, text: str) -> str:
    """An element as a float: the integer of a parameter in 8 bits is multiplied by what it is worth."""
    step = context.storage.steps.get(variable)
    return text if step is None else f"({text} * {float_literal(step)})"


def _value(text: str) -> CExpression:
    return CExpression(text, FLOAT_BITS)
