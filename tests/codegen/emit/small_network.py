"""Small networks with fixed weights: a classifier (a sparse product, a hidden layer, a dense product, an argmax), and a recurrent one."""

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


def recurrent() -> tuple[RandomModel, FixedBatch]:
    """A state of 4 that takes in 3 features in each of 4 rounds, and is what is returned, on 20 samples; one Shiftry candidate of it in
    16 bits."""
    random = np.random.default_rng(5)
    shapes = {"X": (12, 1), "W": (4, 3), "fresh": (4, 1), "sum": (4, 1), "H": (4, 1)}
    kinds = {"X": ir.Role.INPUT, "W": ir.Role.PARAMETER}
    variables = tuple(ir.Variable(n, s, kinds.get(n, ir.Role.TEMPORARY), _HERE) for n, s in shapes.items())
    view = {variable.name: ir.whole(variable) for variable in variables}
    frame = ir.View("X", (3, 1), (1, 1), ir.Affine(0, (("t", 3),)))
    rounds = (
        ir.MatMul(view["fresh"], _HERE, view["W"], frame),
        ir.Add(view["sum"], _HERE, view["fresh"], view["H"]),
        ir.Tanh(view["H"], _HERE, view["sum"]),
    )
    body = (ir.Fill(view["H"], _HERE, 0.0), ir.Loop("t", 0, 4, rounds, _HERE))
    program = ir.Program("net", variables, body, view["H"], ir.ResultKind.REAL)
    model = RandomModel(program, {"W": random.normal(0, 0.5, (4, 3))}, random.normal(0, 1, (20, 12)))
    widths, scales = np.full((1, 5), 16), np.array([[12, 13, 11, 11, 11]])
    return model, ShiftryLowering(program, {}).lower(widths, scales)
