"""A numerical model with what grows in several ways beyond the training samples."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.evaluators.fixed_point.measuring import Task
from tests.codegen.fixed.programs import HERE, variable


def growing_model(samples: int = 60, reach: float = 1.95) -> Task:
    """`s` is quadratic, `y` and `r` are sums of it, `t` is bounded, `q` clipped. The largest feature is `reach`, just below a power of
    two: a scale that only holds the samples has no room at all."""
    rng = np.random.default_rng(2)
    parameters = {"W": rng.normal(0, 1, (4, 3)), "A": rng.uniform(0.3, 1, (1, 3)), "B": rng.normal(0, 1, (1, 4))}
    shapes = {"h": (4, 1), "t": (4, 1), "q": (4, 1), "s": (3, 1), "y": (1, 1), "z": (1, 1), "r": (1, 1)}
    variables = [variable("X", (3, 1), ir.Role.INPUT)]
    variables += [variable(name, values.shape, ir.Role.PARAMETER) for name, values in parameters.items()]
    variables += [variable(name, shape) for name, shape in shapes.items()]
    v = {x.name: ir.whole(x) for x in variables}
    body: tuple[ir.Statement, ...] = (
        ir.MatMul(v["h"], HERE, v["W"], v["X"]),
        ir.Tanh(v["t"], HERE, v["h"]),
        ir.Relu6(v["q"], HERE, v["h"]),
        ir.Multiply(v["s"], HERE, v["X"], v["X"]),
        ir.MatMul(v["y"], HERE, v["A"], v["s"]),
        ir.MatMul(v["z"], HERE, v["B"], v["t"]),
        ir.Add(v["r"], HERE, v["y"], v["z"]),
    )
    program = ir.Program("growing", tuple(variables), body, v["r"], ir.ResultKind.REAL)
    features = rng.uniform(-1, 1, (samples, 3))
    features = np.vstack([features, -features])[:samples] * reach / np.abs(features).max()
    return Task(program, parameters, features, results(program, parameters, features))


def results(program: ir.Program, parameters: dict[str, FloatArray], features: FloatArray) -> FloatArray:
    """What the float program returns [samples]."""
    return run_float(program, parameters, features).outputs[:, 0]
