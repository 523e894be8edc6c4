"""A small classifier with fixed weights: a sparse product, a hidden layer, a dense product and an argmax."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from tests.codegen.emit.random_programs import RandomModel

_HERE = ir.Location("/somewhere/net.sd", 1, 1)


def classifier(bits: int = 16, result_kind: ir.ResultKind = ir.ResultKind.CLASS) -> tuple[RandomModel, FixedBatch]:
    """The network on 20 samples of 12 features, and one Shiftry candidate of it."""
    random = np.random.default_rng(7)
    roles = {"X": (12, 1), "W": (8, 12), "B": (8, 1), "V": (5, 8), "hidden": (8, 1), "sum": (8, 1), "act": (8, 1)}
    shapes = {**roles, "scores": (5, 1), "label": ()}
    kinds = {"X": ir.Role.INPUT, "W": ir.Role.PARAMETER, "B": ir.Role.PARAMETER, "V": ir.Role.PARAMETER}
    variables = {
        name: ir.Variable(name, shape, kinds.get(name, ir.Role.TEMPORARY), _HERE, sparse=name == "W")
        for name, shape in shapes.items()
    }
    view = {name: ir.whole(variable) for name, variable in variables.items()}
    body: tuple[ir.Operation, ...] = (
        ir.MatMul(view["hidden"], _HERE, view["W"], view["X"], sparse=True),
        ir.Add(view["sum"], _HERE, view["hidden"], view["B"]),
        ir.Tanh(view["act"], _HERE, view["sum"]),
        ir.MatMul(view["scores"], _HERE, view["V"], view["act"]),
        ir.ArgMax(view["label"], _HERE, view["scores"]),
    )
    result = view["label"]
    if result_kind is ir.ResultKind.REAL:
        body, result = body[:-1], view["scores"]
        del variables["label"]
    program = ir.Program("net", tuple(variables.values()), body, result, result_kind)
    parameters = {name: random.normal(0, 0.5, shapes[name]) for name in ("W", "B", "V")}
    parameters["W"][random.random((8, 12)) < 0.6] = 0.0
    model = RandomModel(program, parameters, random.normal(0, 1, (20, 12)))
    widths = np.full((1, len(variables)), bits)
    wanted = {"X": bits - 4, "W": bits - 3, "B": bits - 3, "V": bits - 3, "hidden": bits - 5, "scores": bits - 5}
    scales = np.array([[wanted.get(name, bits - 4) for name in variables]])
    return model, ShiftryLowering(program, {}).lower(widths, scales)
