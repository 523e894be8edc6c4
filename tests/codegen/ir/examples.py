"""The smallest program of every operator of the closed union."""

from __future__ import annotations

import typing

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray

HERE = ir.Location("example.sd", 1, 1)

SHAPES: dict[type[ir.Operation], tuple[tuple[int, ...], ...]] = {
    **dict.fromkeys((*ir.POINTWISE, ir.Exp, ir.Sigmoid, ir.Tanh, ir.NormaliseL2), ((3, 4), (3, 4))),
    **dict.fromkeys((ir.Add, ir.Subtract, ir.Multiply), ((3, 4), (3, 4), (3, 4))),
    ir.Fill: ((3, 4),),
    ir.MatMul: ((3, 2), (3, 4), (4, 2)),
    ir.Conv2D: ((1, 3, 4, 2), (1, 3, 4, 1), (1, 1, 1, 1, 2)),
    ir.MaxPool: ((1, 2, 3, 1), (1, 3, 4, 1)),
    ir.Select: ((3, 4), (), (3, 4), (3, 4)),
    ir.ArgMax: ((), (3, 4)),
    ir.Sign: ((), ()),
}
"""Shapes of the result and of the operands. The first operand is the input, or one element of it; the others are parameters."""

SETTINGS: dict[type[ir.Operation], dict[str, object]] = {
    ir.Fill: {"value": 0.5},
    ir.MaxPool: {"kernel": (2, 2), "stride": (1, 1)},
}


def operators() -> tuple[type[ir.Operation], ...]:
    """Every class of the closed union whose formats are to be decided; the families in it stand for their members."""
    families = {
        ir.Pointwise: ir.POINTWISE,
        ir.TableFunction: tuple(ir.TableFunction.__subclasses__()),
        ir.QuantisedElements: (),
        ir.QuantisedSoftmax: (),
    }
    found: list[type[ir.Operation]] = []
    for kind in typing.get_args(ir.Operation):
        found += families.get(kind, (kind,))
    return tuple(found)


def example(kind: type[ir.Operation]) -> tuple[ir.Program, dict[str, FloatArray], FloatArray]:
    """A program of a copy of the input, and of the operation on it; its parameters; 5 samples."""
    out_shape, *shapes = SHAPES[kind]
    given = ir.Variable("X", (12,), ir.Role.INPUT, HERE)
    held = ir.Variable("held", (12,), ir.Role.TEMPORARY, HERE)
    result = ir.Variable("result", out_shape, ir.Role.TEMPORARY, HERE)
    variables, operands = [given, held, result], []
    parameters: dict[str, FloatArray] = {}
    random = np.random.default_rng(3)
    for number, shape in enumerate(shapes):
        if number == 0:
            operands.append(ir.View("held", shape, ir.row_major_strides(shape)))
            continue
        made = ir.Variable(f"W{number}", shape, ir.Role.PARAMETER, HERE)
        variables.append(made)
        parameters[made.name] = random.normal(0, 0.5, shape)
        operands.append(ir.whole(made))
    operation = kind(ir.whole(result), HERE, *operands, **SETTINGS.get(kind, {}))  # type: ignore[call-arg]
    body = (ir.Copy(ir.whole(held), HERE, ir.whole(given)), operation)
    label = kind in ir.INTEGER_RESULTS
    result_kind = ir.ResultKind.CLASS if label else ir.ResultKind.REAL
    program = ir.Program(kind.__name__, tuple(variables), body, ir.whole(result), result_kind)
    return program, parameters, random.normal(0, 1.5, (5, 12))
