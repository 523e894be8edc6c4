"""Units and choices that are left out: by brute force on small networks, and the derivatives that weights are fitted by."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.branch_pruning import branches, without_choice
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.reverse_accumulation import parameter_gradients
from kilotune.codegen.summed_weights import summed_weights
from kilotune.codegen.unit_pruning import FloatModel, SmallerModel, UnitPruning, unit_groups
from tests.codegen.fixed.programs import HERE, variable

INPUTS, UNITS, SCORES = 4, 5, 3


def perceptron(seed: int) -> FloatModel:
    """One hidden layer with biases; its scores are what it returns."""
    rng = np.random.default_rng(seed)
    shapes = {"W1": (UNITS, INPUTS), "B1": (UNITS, 1), "W2": (SCORES, UNITS), "B2": (SCORES, 1)}
    sizes = {"a": UNITS, "b": UNITS, "h": UNITS, "c": SCORES, "scores": SCORES}
    variables = [variable("X", (INPUTS, 1), ir.Role.INPUT)]
    variables += [variable(name, shape, ir.Role.PARAMETER) for name, shape in shapes.items()]
    variables += [variable(name, (size, 1)) for name, size in sizes.items()]
    v = {one.name: ir.whole(one) for one in variables}
    body = (
        ir.MatMul(v["a"], HERE, v["W1"], v["X"]),
        ir.Add(v["b"], HERE, v["a"], v["B1"]),
        ir.Tanh(v["h"], HERE, v["b"]),
        ir.MatMul(v["c"], HERE, v["W2"], v["h"]),
        ir.Add(v["scores"], HERE, v["c"], v["B2"]),
    )
    program = ir.Program("perceptron", tuple(variables), body, v["scores"], ir.ResultKind.REAL)
    return FloatModel(program, {name: rng.normal(size=shape) for name, shape in shapes.items()})


def imported_perceptron(seed: int) -> FloatModel:
    """The same, as an importer writes it: a vector is a row, and read as a column where a product needs one."""
    whole = perceptron(seed)
    shapes = {
        "B1": (UNITS,),
        "B2": (SCORES,),
        **dict.fromkeys(("b", "h"), (1, UNITS)),
        "scores": (1, SCORES),
        "X": (1, INPUTS),
    }
    variables = tuple(replace(one, shape=shapes.get(one.name, one.shape)) for one in whole.program.variables)
    v = {one.name: ir.whole(one) for one in variables}

    def row(name: str) -> ir.View:
        size = whole.program.variable(name).size
        return ir.View(name, (1, size), (0, 1))

    def column(name: str) -> ir.View:
        size = whole.program.variable(name).size
        return ir.View(name, (size, 1), (1, 0))

    body = (
        ir.MatMul(v["a"], HERE, v["W1"], column("X")),
        ir.Add(v["b"], HERE, row("a"), row("B1")),
        ir.Tanh(v["h"], HERE, v["b"]),
        ir.MatMul(v["c"], HERE, v["W2"], column("h")),
        ir.Add(v["scores"], HERE, row("c"), row("B2")),
    )
    program = replace(whole.program, variables=variables, body=body, result=v["scores"])
    return FloatModel(
        program, {**whole.parameters, **{name: whole.parameters[name].reshape(-1) for name in ("B1", "B2")}}
    )


def rows_of_vectors(seed: int) -> FloatModel:
    """The same network of three vectors at once, as rows, with matrices that are stored as [units, inputs] and read as their transposes."""
    whole, rows = perceptron(seed), 3
    widths = {"X": INPUTS, "a": UNITS, "b": UNITS, "h": UNITS, "c": SCORES, "scores": SCORES}
    variables = tuple(
        replace(one, shape=(rows, widths[one.name])) if one.name in widths else one for one in whole.program.variables
    )
    v = {one.name: ir.whole(one) for one in variables}
    first, second = ir.View("W1", (INPUTS, UNITS), (1, INPUTS)), ir.View("W2", (UNITS, SCORES), (1, UNITS))
    body = (
        ir.MatMul(v["a"], HERE, v["X"], first),
        ir.Add(v["b"], HERE, v["a"], ir.View("B1", (rows, UNITS), (0, 1))),
        ir.Tanh(v["h"], HERE, v["b"]),
        ir.MatMul(v["c"], HERE, v["h"], second),
        ir.Add(v["scores"], HERE, v["c"], ir.View("B2", (rows, SCORES), (0, 1))),
    )
    return FloatModel(replace(whole.program, variables=variables, body=body, result=v["scores"]), whole.parameters)


def tree(seed: int) -> FloatModel:
    """A tree of depth 1: rows 0 and 1 of W are what the root adds, 2 and 3 one leaf, 4 and 5 the other, of which `side` chooses."""
    rng = np.random.default_rng(seed)
    variables = [
        variable("X", (INPUTS, 1), ir.Role.INPUT),
        variable("W", (6, INPUTS), ir.Role.PARAMETER),
        variable("T", (1, INPUTS), ir.Role.PARAMETER),
        variable("node", (6, 1)),
        variable("side", (1, 1)),
        variable("leaf", (2, 1)),
        variable("scores", (2, 1)),
    ]
    v = {one.name: ir.whole(one) for one in variables}

    def rows(start: int) -> ir.View:
        return ir.View("node", (2, 1), (1, 1), ir.Affine(start))

    body = (
        ir.MatMul(v["node"], HERE, v["W"], v["X"]),
        ir.MatMul(v["side"], HERE, v["T"], v["X"]),
        ir.Select(v["leaf"], HERE, ir.View("side", (), ()), rows(2), rows(4)),
        ir.Add(v["scores"], HERE, rows(0), v["leaf"]),
    )
    program = ir.Program("tree", tuple(variables), body, v["scores"], ir.ResultKind.REAL)
    return FloatModel(program, {"W": rng.normal(size=(6, INPUTS)), "T": rng.normal(size=(1, INPUTS))})


def outputs(model: FloatModel, features: FloatArray) -> FloatArray:
    return run_float(model.program, model.parameters, features).outputs


def smaller_of(model: FloatModel) -> SmallerModel:
    return SmallerModel.whole(model)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("made", [perceptron, imported_perceptron])
def test_the_unit_is_left_out_that_is_missed_least_and_the_others_make_up_for_it(
    made: Callable[[int], FloatModel], seed: int
) -> None:
    model = made(seed)
    features = np.random.default_rng(seed + 10).normal(size=(80, INPUTS))
    pruning = UnitPruning(model, features, np.ones(80))
    (group,) = unit_groups(model.program)
    assert (group.name, group.size) == ("h", UNITS)
    hidden = np.tanh(features @ model.parameters["W1"].T + model.parameters["B1"].reshape(1, -1))
    wanted = outputs(model, features)
    least = []
    for unit in range(UNITS):  # by least squares on the hidden values themselves
        inputs = np.column_stack([np.delete(hidden, unit, axis=1), np.ones(80)])
        fitted = np.linalg.lstsq(inputs, wanted, rcond=None)[0]
        least.append(float(np.square(inputs @ fitted - wanted).sum()))
        smaller = pruning.without(smaller_of(model), group, unit)
        off = float(np.square(outputs(smaller, features) - wanted).sum())
        assert least[-1] <= off <= 1.05 * least[-1] + 1e-9
        assert smaller.program.variable("W2").shape == smaller.parameters["W2"].shape == (SCORES, UNITS - 1)
    assert pruning.least_missed(smaller_of(model), group) == int(np.argmin(least))


def test_units_are_left_out_one_after_the_other_by_what_the_whole_model_computes() -> None:
    model = perceptron(0)
    features = np.random.default_rng(1).normal(size=(60, INPUTS))
    pruning, smaller = UnitPruning(model, features, np.ones(60)), smaller_of(model)
    hidden = np.tanh(features @ model.parameters["W1"].T + model.parameters["B1"].T)
    wanted = outputs(model, features)
    for unit in (3, 0):
        (group,) = unit_groups(smaller.program)
        smaller = pruning.without(smaller, group, unit)
    kept = [1, 2, 4]
    assert smaller.units["W2", 1].tolist() == kept
    np.testing.assert_array_equal(smaller.parameters["W1"], model.parameters["W1"][kept])
    inputs = np.column_stack([hidden[:, kept], np.ones(60)])
    best = np.linalg.lstsq(inputs, wanted, rcond=None)[0]
    np.testing.assert_allclose(outputs(smaller, features), inputs @ best, atol=2e-2)


def two_layers(columns: int, *, is_shared: bool) -> FloatModel:
    """Two hidden layers of 4 and 2 units over `columns` vectors at once; the units 2 and 3 of the first are nearly equal. `is_shared`: one
    number is added to all sums of the second layer, instead of one number to each."""
    rng = np.random.default_rng(0)
    sizes = {"a": 4, "b": 4, "h": 4, "c": 2, "d": 2, "k": 2, "scores": SCORES}
    shapes = {"W1": (4, 3), "B1": (4, 1), "W2": (2, 4), "B2": (1 if is_shared else 2, 1), "W3": (SCORES, 2)}
    variables = [variable("X", (3, columns), ir.Role.INPUT)]
    variables += [variable(name, shape, ir.Role.PARAMETER) for name, shape in shapes.items()]
    variables += [variable(name, (size, columns)) for name, size in sizes.items()]
    v = {one.name: ir.whole(one) for one in variables}
    to_all = ir.View("B2", (2, columns), (0 if is_shared else 1, 0))
    body = (
        ir.MatMul(v["a"], HERE, v["W1"], v["X"]),
        ir.Add(v["b"], HERE, v["a"], ir.View("B1", (4, columns), (1, 0))),
        ir.Tanh(v["h"], HERE, v["b"]),
        ir.MatMul(v["c"], HERE, v["W2"], v["h"]),
        ir.Add(v["d"], HERE, v["c"], to_all),
        ir.Tanh(v["k"], HERE, v["d"]),
        ir.MatMul(v["scores"], HERE, v["W3"], v["k"]),
    )
    parameters = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    parameters["B2"] += 3
    parameters["W1"][3], parameters["B1"][3] = parameters["W1"][2] + 0.01, parameters["B1"][2]
    program = ir.Program("layers", tuple(variables), body, v["scores"], ir.ResultKind.REAL)
    return FloatModel(program, parameters)


def test_matrices_that_are_read_as_their_transposes_are_fitted_as_well() -> None:
    model, rng = rows_of_vectors(6), np.random.default_rng(7)
    assert [(one.by_sums, one.bias) for one in summed_weights(model.program)] == [(True, "B1"), (True, "B2")]
    features = rng.normal(size=(60, 3 * INPUTS))
    pruning, (group,) = UnitPruning(model, features, np.ones(60)), unit_groups(model.program)
    vectors = features.reshape(-1, INPUTS)
    hidden = np.tanh(vectors @ model.parameters["W1"].T + model.parameters["B1"].T)
    wanted = hidden @ model.parameters["W2"].T + model.parameters["B2"].T
    for unit in range(UNITS):
        inputs = np.column_stack([np.delete(hidden, unit, axis=1), np.ones(len(vectors))])
        best = inputs @ np.linalg.lstsq(inputs, wanted, rcond=None)[0]
        found = outputs(pruning.without(smaller_of(model), group, unit), features).reshape(-1, SCORES)
        assert np.square(best - wanted).sum() > 0.1
        np.testing.assert_allclose(found, best, atol=0.02)


def test_a_unit_that_adds_nothing_is_left_out_without_a_trace() -> None:
    model = perceptron(4)
    model.parameters["W1"][2], model.parameters["B1"][2] = 0.0, 0.0
    features = np.random.default_rng(5).normal(size=(50, INPUTS))
    pruning, (group,) = UnitPruning(model, features, np.ones(50)), unit_groups(model.program)
    assert pruning.least_missed(smaller_of(model), group) == 2
    smaller = pruning.without(smaller_of(model), group, 2)
    np.testing.assert_allclose(outputs(smaller, features), outputs(model, features), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("columns", [1, 3])
def test_the_single_sum_that_is_left_is_fitted_with_the_bias_that_it_has_in_the_whole_model(
    columns: int, *, is_shared: bool
) -> None:
    model = two_layers(columns, is_shared=is_shared)
    features = np.random.default_rng(1).normal(size=(100, 3 * columns))
    pruning, smaller = UnitPruning(model, features, np.ones(100)), smaller_of(model)

    def sums_of_unit_0(one: FloatModel) -> FloatArray:
        p, vectors = one.parameters, features.reshape(100, 3, columns)
        hidden = np.tanh(np.einsum("ui,bin->bun", p["W1"], vectors) + p["B1"])
        return np.einsum("u,bun->bn", p["W2"][0], hidden) + p["B2"][0]

    for name, unit in (("k", 1), ("h", None)):
        (group,) = (one for one in unit_groups(smaller.program, smaller.parts) if one.name == name)
        gone = pruning.least_missed(smaller, group) if unit is None else unit
        smaller = pruning.without(smaller, group, gone)
    assert gone in (2, 3)
    assert np.sqrt(np.square(sums_of_unit_0(smaller) - sums_of_unit_0(model)).mean()) < 0.01


@pytest.mark.parametrize(
    ("read", "stored", "added", "bias"),
    [
        (ir.View("c", (6, 1), (1, 1)), (6, 1), ir.View("B", (6, 1), (1, 1)), "B"),
        (ir.View("c", (2, 3), (3, 1)), (6,), ir.View("B", (2, 3), (3, 1)), "B"),
        (ir.View("c", (3, 2), (1, 3)), (2, 3), ir.View("B", (3, 2), (1, 3)), "B"),  # both read in another order
        (ir.View("c", (3, 2), (1, 3)), (3, 2), ir.View("B", (3, 2), (2, 1)), None),  # the sums are, the numbers are not
        (
            ir.View("c", (6, 1), (1, 1)),
            (9, 1),
            ir.View("B", (6, 1), (1, 1), ir.Affine(3)),
            None,
        ),  # a part of what is stored
        (ir.View("c", (6, 1), (1, 1)), (9, 1), ir.View("B", (6, 1), (1, 1)), None),
        (ir.View("c", (6, 1), (1, 1)), (1, 1), ir.View("B", (6, 1), (0, 0)), None),  # one number for all sums
    ],
)
def test_a_bias_has_a_number_for_each_sum_in_their_order(
    read: ir.View, stored: tuple[int, ...], added: ir.View, bias: str | None
) -> None:
    variables = [
        variable("X", (INPUTS, 1), ir.Role.INPUT),
        variable("W", (6, INPUTS), ir.Role.PARAMETER),
        variable("B", stored, ir.Role.PARAMETER),
        variable("c", (6, 1)),
        variable("scores", read.shape),
    ]
    v = {one.name: ir.whole(one) for one in variables}
    body = (ir.MatMul(v["c"], HERE, v["W"], v["X"]), ir.Add(v["scores"], HERE, read, added))
    program = ir.Program("sums", tuple(variables), body, v["scores"], ir.ResultKind.REAL)
    (found,) = summed_weights(program)
    assert found.bias == bias


@pytest.mark.parametrize("way", [0, 1])
def test_a_choice_that_is_left_out_takes_the_other_branch_and_its_weights_with_it(way: int) -> None:
    model = tree(2)
    features = np.random.default_rng(3).normal(size=(40, INPUTS))
    found = list(branches(model.program))
    assert [one.name for one in found] == ["leaf", "leaf"]
    smaller = without_choice(smaller_of(model), found[way])
    weights = model.parameters["W"]
    np.testing.assert_allclose(outputs(smaller, features), features @ (weights[:2] + weights[2 + 2 * way :][:2]).T)
    assert {name: values.shape for name, values in smaller.parameters.items()} == {"W": (4, INPUTS)}
    assert not any(branches(smaller.program))


def test_no_choice_is_left_out_of_a_loop_or_of_what_is_returned() -> None:
    program = tree(0).program
    looped = ir.Program(
        "looped", program.variables, (ir.Loop("t", 0, 2, program.body, HERE),), program.result, program.result_kind
    )
    assert not any(branches(looped))
    leaf = ir.whole(program.variable("leaf"))
    assert not any(branches(ir.Program("leaf", program.variables, program.body, leaf, program.result_kind)))


@pytest.mark.parametrize("model", [perceptron(4), tree(4)], ids=["perceptron", "tree"])
def test_gradients_are_those_of_differences(model: FloatModel) -> None:
    features = np.random.default_rng(5).normal(size=(7, INPUTS))
    factors = np.random.default_rng(6).normal(size=(model.program.variable("scores").size, 1))
    body = (*model.program.body, ir.Relu(ir.whole(variable("kept", factors.shape)), HERE, model.program.result))
    variables = (*model.program.variables, variable("kept", factors.shape))
    program = ir.Program("read", variables, body, model.program.result, ir.ResultKind.REAL)
    last = len(body) - 1
    whole = FloatModel(program, model.parameters)
    found = parameter_gradients(
        whole, loop_steps(program), features, last, lambda scores: np.broadcast_to(factors, (len(factors), 7)).copy()
    )
    for name, values in model.parameters.items():
        for place in itertools.islice(np.ndindex(values.shape), 12):
            moved = {sign: {**model.parameters, name: values.copy()} for sign in (1, -1)}
            for sign, parameters in moved.items():
                parameters[name][place] += sign * 1e-6
            sums = [(outputs(FloatModel(program, moved[sign]), features) @ factors)[:, 0] for sign in (1, -1)]
            flat = int(np.ravel_multi_index(place, values.shape))
            np.testing.assert_allclose(found[name][flat], (sums[0] - sums[1]) / 2e-6, atol=1e-6)
