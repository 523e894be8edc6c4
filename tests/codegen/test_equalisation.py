"""Equalised programs compute the same, and their channels are balanced wherever they are free to be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import equalisation, ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.equalisation import equalised, factor_classes
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.ir.pointwise.abs import Abs
from kilotune.codegen.ir.pointwise.copy import Copy
from kilotune.codegen.ir.pointwise.hard_swish import HardSwish
from kilotune.codegen.ir.pointwise.leaky_relu import LeakyRelu
from kilotune.codegen.ir.pointwise.negate import Negate
from kilotune.codegen.ir.pointwise.relu import Relu
from kilotune.codegen.ir.pointwise.relu6 import Relu6
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.fixed.programs import HERE, variable

FEATURES, HIDDEN, OUTPUTS = 3, 4, 2


def two_layers(function: type[ir.Operation] = Relu, looped: int = 0) -> tuple[ir.Program, dict[str, FloatArray]]:
    """`W2 f(W1 x + B1) + B2`; with `looped`, f(...) is computed so many times, each time from the one before."""
    rng = np.random.default_rng(0)
    shapes = {
        "W1": (HIDDEN, FEATURES),
        "B1": (HIDDEN, 1),
        "W2": (OUTPUTS, HIDDEN),
        "B2": (OUTPUTS, 1),
        "U": (HIDDEN, HIDDEN),
    }
    parameters = {name: rng.normal(0, 1, shape) for name, shape in shapes.items() if looped or name != "U"}
    parameters["W1"] *= np.array([[0.01], [1.0], [30.0], [1.0]])
    variables = [variable("X", (FEATURES, 1), ir.Role.INPUT)]
    variables += [variable(name, values.shape, ir.Role.PARAMETER) for name, values in parameters.items()]
    sizes = {"product": HIDDEN, "sum": HIDDEN, "h": HIDDEN, "scores": OUTPUTS, "y": OUTPUTS}
    variables += [variable(name, (size, 1)) for name, size in sizes.items()]
    v = {one.name: ir.whole(one) for one in variables}
    body: list[ir.Statement] = [
        ir.MatMul(v["product"], HERE, v["W1"], v["X"]),
        ir.Add(v["sum"], HERE, v["product"], v["B1"]),
        function(v["h"], HERE, v["sum"]),
    ]
    if looped:
        again = (ir.MatMul(v["product"], HERE, v["U"], v["h"]), function(v["h"], HERE, v["product"]))
        body.append(ir.Loop("i", 0, looped, again, HERE))
    body += [ir.MatMul(v["scores"], HERE, v["W2"], v["h"]), ir.Add(v["y"], HERE, v["scores"], v["B2"])]
    return ir.Program("layers", tuple(variables), tuple(body), v["y"], ir.ResultKind.REAL), parameters


def outputs(program: ir.Program, parameters: dict[str, FloatArray], samples: FloatArray) -> FloatArray:
    return run_float(program, parameters, samples).outputs


@pytest.mark.parametrize("function", [Relu, LeakyRelu, Copy, Abs, Negate])
def test_the_weights_before_and_behind_every_channel_span_alike(function: type[ir.Operation]) -> None:
    program, parameters = two_layers(function)
    found = equalised(program, parameters)
    assert found.channels == HIDDEN
    before, behind = np.abs(found.parameters["W1"]).max(axis=1), np.abs(found.parameters["W2"]).max(axis=0)
    np.testing.assert_allclose(before, behind, rtol=1e-6)
    # the geometric mean of what they were (Nagel et al. 2019, Equation 11)
    expected = np.sqrt(np.abs(parameters["W1"]).max(axis=1) * np.abs(parameters["W2"]).max(axis=0))
    np.testing.assert_allclose(before, expected, rtol=1e-6)
    np.testing.assert_array_equal(found.parameters["B2"], parameters["B2"])
    samples = np.random.default_rng(1).normal(0, 2, (50, FEATURES))
    np.testing.assert_allclose(
        outputs(program, dict(found.parameters), samples), outputs(program, parameters, samples), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("function", [ir.Tanh, Relu6, HardSwish, ir.Sigmoid])
def test_what_does_not_scale_along_leaves_its_channels_alone(function: type[ir.Operation]) -> None:
    program, parameters = two_layers(function)
    found = equalised(program, parameters)
    assert found.channels == 0
    for name, values in parameters.items():
        np.testing.assert_array_equal(found.parameters[name], values)


def test_channels_that_a_loop_goes_through_have_one_factor_in_all_rounds() -> None:
    program, parameters = two_layers(looped=3)
    found = equalised(program, parameters)
    assert found.channels == HIDDEN
    ratios = found.parameters["U"] / parameters["U"]
    np.testing.assert_allclose(ratios * ratios.T, 1.0)  # U[i, j] by s_i / s_j
    samples = np.random.default_rng(2).normal(0, 2, (50, FEATURES))
    expected = outputs(program, parameters, samples)
    np.testing.assert_allclose(outputs(program, dict(found.parameters), samples), expected, rtol=1e-8, atol=1e-8)


def between(operation: Callable[[dict[str, ir.View]], list[ir.Operation]]) -> tuple[ir.Program, dict[str, FloatArray]]:
    """`W2 h`, where `operation` makes h of a = V x, b = W x and the input x."""
    rng = np.random.default_rng(0)
    parameters = {name: rng.normal(0, 1, (HIDDEN, FEATURES)) for name in "VW"} | {
        "W2": rng.normal(0, 1, (OUTPUTS, HIDDEN))
    }
    variables = [variable("X", (FEATURES, 1), ir.Role.INPUT)]
    variables += [variable(name, values.shape, ir.Role.PARAMETER) for name, values in parameters.items()]
    variables += [variable(name, (HIDDEN, 1)) for name in "abh"] + [variable("y", (OUTPUTS, 1))]
    v = {one.name: ir.whole(one) for one in variables}
    products = [ir.MatMul(v["a"], HERE, v["V"], v["X"]), ir.MatMul(v["b"], HERE, v["W"], v["X"])]
    body = (*products, *operation(v), ir.MatMul(v["y"], HERE, v["W2"], v["h"]))
    return ir.Program("between", tuple(variables), body, v["y"], ir.ResultKind.REAL), parameters


BETWEEN: dict[str, tuple[int, Callable[[dict[str, ir.View]], list[ir.Operation]]]] = {
    "a sum": (HIDDEN, lambda v: [ir.Add(v["h"], HERE, v["a"], v["b"])]),
    "nothing added": (HIDDEN, lambda v: [ir.Subtract(v["h"], HERE, v["a"], ir.Literal(0.0))]),
    "a number added": (0, lambda v: [ir.Add(v["h"], HERE, v["a"], ir.Literal(0.5))]),
    "times a number": (HIDDEN, lambda v: [ir.Multiply(v["h"], HERE, v["a"], ir.Literal(0.5))]),
    "a product": (0, lambda v: [ir.Multiply(v["h"], HERE, v["a"], v["b"])]),
    "a choice": (HIDDEN, lambda v: [ir.Select(v["h"], HERE, ir.View("X", (), ()), v["a"], v["b"])]),
    "from zero": (HIDDEN, lambda v: [ir.Fill(v["h"], HERE, 0.0), ir.Add(v["h"], HERE, v["h"], v["a"])]),
    "from one": (0, lambda v: [ir.Fill(v["h"], HERE, 1.0), ir.Add(v["h"], HERE, v["h"], v["a"])]),
    "a length of one": (0, lambda v: [ir.NormaliseL2(v["h"], HERE, v["a"])]),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_what_lies_between_two_layers_says_which_factors_are_free(name: str) -> None:
    channels, operation = BETWEEN[name]
    program, parameters = between(operation)
    assert equalised(program, parameters).channels == channels
    classes = factor_classes(program)
    logs = np.random.default_rng(0).normal(0, 1, classes.count)
    logs[classes.fixed] = 0.0
    samples = np.random.default_rng(1).normal(0, 2, (50, FEATURES))
    scaled = outputs(program, dict(classes.scaled(parameters, logs)), samples)
    np.testing.assert_allclose(scaled, outputs(program, parameters, samples), rtol=1e-9, atol=1e-9)


def test_an_images_channels_are_each_balanced_through_a_pool() -> None:
    rng = np.random.default_rng(0)
    parameters = {"F1": rng.normal(0, 1, (1, 2, 2, 1, 3)) * [0.1, 1.0, 9.0], "F2": rng.normal(0, 1, (1, 1, 1, 3, 2))}
    variables = [variable("X", (1, 5, 5, 1), ir.Role.INPUT)]
    variables += [variable(name, values.shape, ir.Role.PARAMETER) for name, values in parameters.items()]
    variables += [variable("a", (1, 4, 4, 3)), variable("h", (1, 2, 2, 3)), variable("y", (1, 2, 2, 2))]
    v = {one.name: ir.whole(one) for one in variables}
    body = (
        ir.Conv2D(v["a"], HERE, v["X"], v["F1"]),
        ir.MaxPool(v["h"], HERE, v["a"], (2, 2), (2, 2)),
        ir.Conv2D(v["y"], HERE, v["h"], v["F2"]),
    )
    program = ir.Program("images", tuple(variables), body, v["y"], ir.ResultKind.REAL)
    found = equalised(program, parameters)
    assert found.channels == 3
    before, behind = np.abs(found.parameters["F1"]).max(axis=(0, 1, 2, 3)), np.abs(found.parameters["F2"]).max(axis=4)
    np.testing.assert_allclose(before, behind.reshape(-1), rtol=1e-6)
    samples = rng.normal(0, 2, (30, 25))
    expected = outputs(program, parameters, samples)
    np.testing.assert_allclose(outputs(program, dict(found.parameters), samples), expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None, deadline=None)
@given(model=random_models(classifies=False), seed=st.integers(0, 2**32 - 1))
def test_any_program_computes_the_same_whatever_the_free_factors_are(model: RandomModel, seed: int) -> None:
    classes = factor_classes(model.program)
    logs = np.random.default_rng(seed).normal(0, 1, classes.count)
    logs[classes.fixed] = 0.0
    before = run_float(model.program, model.parameters, model.features).outputs
    after = run_float(model.program, classes.scaled(model.parameters, logs), model.features).outputs
    scale = np.abs(before).max(initial=1.0, where=np.isfinite(before))
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-9 * scale)


def test_a_program_that_is_too_large_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equalisation, "MOST_EQUATIONS", 10)
    with pytest.raises(
        ValueError, match=r"--equalise: expected a program of at most 10 reads and writes, found more in layers\."
    ):
        equalised(*two_layers())
