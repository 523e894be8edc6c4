"""Programs of the papers, as IR, with their parameters."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir

HERE = ir.Location("papers", 1, 1)


def variable(name: str, shape: tuple[int, ...], role: ir.Role = ir.Role.TEMPORARY) -> ir.Variable:
    return ir.Variable(name, shape, role, HERE)


def program(name: str, variables: list[ir.Variable], body: tuple[ir.Statement, ...], result: str) -> ir.Program:
    views = {v.name: ir.whole(v) for v in variables}
    return ir.Program(name, tuple(variables), body, views[result], ir.ResultKind.REAL)


def shiftry_section_3() -> tuple[ir.Program, dict[str, np.ndarray]]:
    """Pseudocode 1: W2 x (W1 x X + B1) + B2, with X a constant."""
    parameters = {
        "W1": np.array([[0.0421, 0.1948], [1.021, -0.827]]),
        "B1": np.array([[-0.032], [0.619]]),
        "W2": np.array([[-0.402, -1.013]]),
        "B2": np.array([[0.737]]),
        "X": np.array([[2.391], [-3.583]]),
    }
    variables = [variable(n, a.shape, ir.Role.PARAMETER) for n, a in parameters.items()]
    variables += [variable("t1", (2, 1)), variable("t2", (2, 1)), variable("t3", (1, 1)), variable("t4", (1, 1))]
    v = {x.name: ir.whole(x) for x in variables}
    body = (
        ir.MatMul(v["t1"], HERE, v["W1"], v["X"]),
        ir.Add(v["t2"], HERE, v["t1"], v["B1"]),
        ir.MatMul(v["t3"], HERE, v["W2"], v["t2"]),
        ir.Add(v["t4"], HERE, v["t3"], v["B2"]),
    )
    return program("shiftry-section-3", variables, body, "t4"), parameters


def seedot_section_3() -> tuple[ir.Program, dict[str, np.ndarray]]:
    """Equation 1: w * x, with x a constant."""
    parameters = {
        "x": np.array([[0.0767], [0.9238], [-0.8311], [0.8213]]),
        "w": np.array([[0.7793, -0.7316, 1.8008, -1.8622]]),
    }
    variables = [variable(n, a.shape, ir.Role.PARAMETER) for n, a in parameters.items()] + [variable("y", (1, 1))]
    v = {x.name: ir.whole(x) for x in variables}
    return program("seedot-section-3", variables, (ir.MatMul(v["y"], HERE, v["w"], v["x"]),), "y"), parameters


def no_features() -> np.ndarray:
    """One sample of a program that has no input."""
    return np.zeros((1, 0))
