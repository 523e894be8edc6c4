"""Places that are left out of loops, convolutions and recurrent networks: the smaller program computes what the whole one does whose
weights at these places are zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.axis_parts import parts_of
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.reverse_accumulation import parameter_gradients
from kilotune.codegen.shared_axes import LOOP, SharedAxes, taken
from kilotune.codegen.unit_pruning import FloatModel, SmallerModel, UnitPruning, unit_groups
from kilotune.experiments.models.catalogue import resolve_model
from tests.codegen.fixed.programs import HERE, variable

GROUPS = {
    "fastgrnn16-digits": {"t9": 16},
    "gru16-vowels": {"t17": 16},
    "lenet-digits": {"pool1": 6, "pool2": 12},
    "cnn-exercises": {"pool1": 8, "pool2": 12},
    "protonn-digits": {"d": 10, "j": 30},
    "bonsai-digits": {"z": 10},
    "channels in groups": {"g": 3, "g 2": 2, "h": 2},
}


def grouped() -> FloatModel:
    """An image of three channels, two filters for each of them, and sums over all six, read as a row of eight numbers."""
    shapes = {"D": (1, 1, 1, 1, 3), "F": (3, 2, 2, 1, 2), "C": (1, 1, 1, 6, 2), "W": (8, 2)}
    variables = [variable("X", (9, 1), ir.Role.INPUT)]
    variables += [variable(name, shape, ir.Role.PARAMETER) for name, shape in shapes.items()]
    sizes = {"d": (1, 3, 3, 3), "g": (1, 2, 2, 6), "h": (1, 2, 2, 2), "scores": (1, 2)}
    variables += [variable(name, shape) for name, shape in sizes.items()]
    v = {one.name: ir.whole(one) for one in variables}
    body = (
        ir.Conv2D(v["d"], HERE, ir.View("X", (1, 3, 3, 1), (9, 3, 1, 1)), v["D"]),
        ir.Conv2D(v["g"], HERE, v["d"], v["F"], groups=3),
        ir.Conv2D(v["h"], HERE, v["g"], v["C"]),
        ir.MatMul(v["scores"], HERE, ir.View("h", (1, 8), (8, 1)), v["W"]),
    )
    program = ir.Program("grouped", tuple(variables), body, v["scores"], ir.ResultKind.REAL)
    rng = np.random.default_rng(1)
    return FloatModel(program, {name: rng.normal(size=shape) for name, shape in shapes.items()})


def read_as_rows() -> FloatModel:
    """A hidden layer of six that is read as two rows, which meet the same weights; what comes of them is read as one row again."""
    shapes = {"A": (6, 4), "B": (3, 2), "C": (4, 2)}
    variables = [variable("X", (4, 1), ir.Role.INPUT)]
    variables += [variable(name, shape, ir.Role.PARAMETER) for name, shape in shapes.items()]
    variables += [
        variable(name, shape) for name, shape in {"a": (6, 1), "h": (6, 1), "g": (2, 2), "scores": (1, 2)}.items()
    ]
    v = {one.name: ir.whole(one) for one in variables}
    body = (
        ir.MatMul(v["a"], HERE, v["A"], v["X"]),
        ir.Relu(v["h"], HERE, v["a"]),
        ir.MatMul(v["g"], HERE, ir.View("h", (2, 3), (3, 1)), v["B"]),
        ir.MatMul(v["scores"], HERE, ir.View("g", (1, 4), (4, 1)), v["C"]),
    )
    program = ir.Program("rows", tuple(variables), body, v["scores"], ir.ResultKind.REAL)
    rng = np.random.default_rng(3)
    return FloatModel(program, {name: rng.normal(size=shape) for name, shape in shapes.items()})


def in_two_groups() -> FloatModel:
    """Four channels of an image in two groups of two, each with two filters, and sums over all that come of them."""
    shapes = {"F": (1, 1, 1, 1, 4), "D": (2, 2, 2, 2, 2), "W": (16, 2)}
    variables = [variable("X", (9, 1), ir.Role.INPUT)]
    variables += [variable(name, shape, ir.Role.PARAMETER) for name, shape in shapes.items()]
    variables += [
        variable(name, shape) for name, shape in {"c": (1, 3, 3, 4), "g": (1, 2, 2, 4), "scores": (1, 2)}.items()
    ]
    v = {one.name: ir.whole(one) for one in variables}
    body = (
        ir.Conv2D(v["c"], HERE, ir.View("X", (1, 3, 3, 1), (9, 3, 1, 1)), v["F"]),
        ir.Conv2D(v["g"], HERE, v["c"], v["D"], groups=2),
        ir.MatMul(v["scores"], HERE, ir.View("g", (1, 16), (16, 1)), v["W"]),
    )
    program = ir.Program("two groups", tuple(variables), body, v["scores"], ir.ResultKind.REAL)
    rng = np.random.default_rng(5)
    return FloatModel(program, {name: rng.normal(size=shape) for name, shape in shapes.items()})


@cache
def model_of(name: str) -> tuple[FloatModel, FloatArray]:
    """A model, and six samples of it."""
    if name in GROUPS and name != "channels in groups":
        bundle = load_bundle(resolve_model(name))
        return FloatModel(bundle.program, bundle.parameters), np.asarray(bundle.train.features[:6])
    return grouped(), np.random.default_rng(2).normal(size=(6, 9))


def scored(model: FloatModel) -> FloatModel:
    """The model that returns what it decides by."""
    program = model.program
    last = program.body[-1]
    if not isinstance(last, ir.ArgMax):
        return model
    kept = variable("kept", last.a.shape)
    body = (*program.body[:-1], ir.Relu(ir.whole(kept), HERE, last.a), ir.Negate(ir.whole(kept), HERE, last.a))
    scores = replace(
        program, variables=(*program.variables, kept), body=body, result=ir.whole(kept), result_kind=ir.ResultKind.REAL
    )
    return FloatModel(scores, model.parameters)


def outputs(model: FloatModel, features: FloatArray) -> FloatArray:
    return run_float(model.program, model.parameters, features).outputs


def zeroed(model: FloatModel, axes: tuple[tuple[str, int], ...], place: int) -> FloatModel:
    """The model whose weights at a place of some parts are zero."""
    parts, parameters = parts_of(model.program), {name: values.copy() for name, values in model.parameters.items()}
    for name, part in axes:
        if name in parameters:
            numbers = np.arange(parameters[name].size).reshape(parts[name])
            parameters[name].reshape(-1)[np.take(numbers, place, axis=part)] = 0.0
    return FloatModel(model.program, parameters)


@pytest.mark.parametrize("name", GROUPS)
def test_a_program_without_a_place_computes_what_the_whole_one_does_with_zeros_there(name: str) -> None:
    given, features = model_of(name)
    model = scored(given)
    groups = unit_groups(model.program)
    assert {one.name: one.size for one in groups} == GROUPS[name]
    for group in groups:
        for place in (0, group.size // 2, group.size - 1):
            kept = np.delete(np.arange(group.size), place)
            smaller = SmallerModel.whole(model).without(model.program, dict.fromkeys(group.axes, kept))
            wanted = outputs(zeroed(model, group.axes, place), features)
            np.testing.assert_allclose(outputs(smaller, features), wanted, rtol=1e-9, atol=1e-12)
            shapes = {v.name: v.shape for v in smaller.program.variables if v.role is ir.Role.PARAMETER}
            assert shapes == {parameter: np.shape(values) for parameter, values in smaller.parameters.items()}


@pytest.mark.parametrize("name", GROUPS)
def test_places_of_all_groups_are_left_out_one_after_the_other(name: str) -> None:
    model, features = model_of(name)
    whole, rng = scored(model), np.random.default_rng(3)
    smaller, wanted = SmallerModel.whole(whole), whole
    left = {one.name: list(range(one.size)) for one in unit_groups(whole.program)}
    for _ in range(4):
        for group in unit_groups(smaller.program, smaller.parts):
            place = int(rng.integers(group.size))
            smaller = smaller.without(
                smaller.program, dict.fromkeys(group.axes, np.delete(np.arange(group.size), place))
            )
            axes = next(one.axes for one in unit_groups(whole.program) if one.name == group.name)
            wanted = zeroed(wanted, axes, left[group.name].pop(place))
    np.testing.assert_allclose(outputs(smaller, features), outputs(wanted, features), rtol=1e-9, atol=1e-12)
    for (parameter, part), places in smaller.units.items():
        if part != LOOP and parameter in whole.parameters:
            one = taken(whole.parameters[parameter], parameter, parts_of(whole.program), {(parameter, part): places})
            assert one.size < whole.parameters[parameter].size


def test_what_is_read_in_rounds_that_are_not_all_alike_or_in_part_stays_whole() -> None:
    rows = [variable("X", (4, 1), ir.Role.INPUT), variable("W", (6, 4), ir.Role.PARAMETER), variable("scores", (1, 1))]
    rows.append(variable("h", (6, 1)))
    v = {one.name: ir.whole(one) for one in rows}
    product = ir.MatMul(v["h"], HERE, v["W"], v["X"])
    ways = {
        "every round": (0, 6, 1, 0),
        "every other place": (0, 3, 2, 0),
        "all but the first": (1, 5, 1, 0),
        "backwards": (0, 6, -1, 5),
    }
    found = {}
    for way, (start, count, factor, first) in ways.items():
        read = ir.View("h", (1, 1), (1, 1), ir.Affine(first, (("k", factor),)))
        body = (
            product,
            ir.Fill(v["scores"], HERE, 0.0),
            ir.Loop("k", start, count, (ir.Add(v["scores"], HERE, v["scores"], read),), HERE),
        )
        program = ir.Program(way, tuple(rows), body, v["scores"], ir.ResultKind.REAL)
        found[way] = [(one.name, one.size) for one in unit_groups(program)]
    assert found == {
        "every round": [("k", 6)],
        "every other place": [("k", 3)],
        "all but the first": [],
        "backwards": [],
    }


def test_a_channel_is_left_out_that_is_missed_least_and_the_others_make_up_for_it() -> None:
    rng = np.random.default_rng(4)
    rows = [variable("X", (16, 1), ir.Role.INPUT), variable("F", (1, 2, 2, 1, 4), ir.Role.PARAMETER)]
    rows += [variable("G", (1, 2, 2, 4, 3), ir.Role.PARAMETER), variable("B", (3,), ir.Role.PARAMETER)]
    sizes = {"a": (1, 4, 4, 4), "h": (1, 4, 4, 4), "c": (1, 2, 2, 3), "scores": (1, 2, 2, 3)}
    rows += [variable(name, shape) for name, shape in sizes.items()]
    v = {one.name: ir.whole(one) for one in rows}
    body = (
        ir.Conv2D(v["a"], HERE, ir.View("X", (1, 4, 4, 1), (16, 4, 1, 1)), v["F"], padding=(0, 1, 0, 1)),
        ir.Tanh(v["h"], HERE, v["a"]),
        ir.Conv2D(v["c"], HERE, v["h"], v["G"], stride=(2, 2)),
        ir.Add(v["scores"], HERE, v["c"], ir.View("B", (1, 2, 2, 3), (0, 0, 0, 1))),
    )
    program = ir.Program("convolutions", tuple(rows), body, v["scores"], ir.ResultKind.REAL)
    parameters = {one.name: rng.normal(size=one.shape) for one in rows if one.role is ir.Role.PARAMETER}
    model, features = FloatModel(program, parameters), rng.normal(size=(60, 16))
    (group,) = unit_groups(program)
    pruning, wanted = UnitPruning(model, features, np.ones(60)), outputs(model, features)
    hidden = []

    def observe(step: object, written: FloatArray, read: object) -> None:
        hidden.append(written.copy())

    run_float(program, parameters, features, observe, loop_steps(program))
    images = hidden[1].reshape(4, 4, 4, 60)
    least = []
    for unit in range(group.size):
        patches = [np.delete(images, unit, 2)[y : y + 2, x : x + 2].reshape(12, 60) for y in (0, 2) for x in (0, 2)]
        inputs = np.vstack([np.concatenate(patches, axis=1), np.ones(240)]).T
        sums = wanted.reshape(60, 4, 3).swapaxes(0, 1).reshape(240, 3)
        fitted = np.linalg.lstsq(inputs, sums, rcond=None)[0]
        least.append(float(np.square(inputs @ fitted - sums).sum()))
        off = float(
            np.square(outputs(pruning.without(SmallerModel.whole(model), group, unit), features) - wanted).sum()
        )
        assert least[-1] <= off <= 1.05 * least[-1]
    assert pruning.least_missed(SmallerModel.whole(model), group) == int(np.argmin(least))


@pytest.mark.parametrize("name", ["fastgrnn16-digits", "lenet-digits", "protonn-digits"])
def test_gradients_through_loops_windows_and_pools_are_those_of_differences(name: str) -> None:
    given, features = model_of(name)
    model, rng = scored(given), np.random.default_rng(5)
    program, row = model.program, len(list(ir.operations(model.program.body))) - 1
    factors = rng.normal(size=(program.result.size, 1))
    spread = np.broadcast_to(factors, (len(factors), len(features)))
    found = parameter_gradients(model, loop_steps(program), features, row, lambda scores: spread.copy())
    for parameter, values in model.parameters.items():
        for place in rng.choice(values.size, 3):
            sums = []
            for sign in (1, -1):
                moved = values.astype(np.float64).reshape(-1).copy()
                moved[place] += sign * 1e-6
                changed = {**model.parameters, parameter: moved.reshape(values.shape)}
                sums.append(-outputs(FloatModel(program, changed), features) @ factors)
            np.testing.assert_allclose(found[parameter][place], (sums[0] - sums[1])[:, 0] / 2e-6, atol=1e-5)


def test_parts_are_what_views_go_through() -> None:
    program = model_of("lenet-digits")[0].program
    parts = parts_of(program)
    assert (parts["FC"], parts["pool2"]) == ((2, 2, 12, 10), (2, 2, 12))
    assert all(int(np.prod(parts[one.name])) == one.size for one in program.variables)
    assert not any(name == "X" for axes, _ in SharedAxes(program).groups(sliced=False) for name, _ in axes)


@pytest.mark.parametrize("made", [grouped, in_two_groups, read_as_rows])
def test_weights_are_fitted_whatever_was_left_out_before(made: Callable[[], FloatModel]) -> None:
    """A product that is made less often than in the whole model, since rows were left out that it goes through, and a convolution
    with a single group left, are none of what the whole model has: they keep their weights."""
    whole = made()
    features = np.random.default_rng(4).normal(size=(20, whole.program.variable("X").size))
    pruning = UnitPruning(whole, features, np.ones(len(features)))
    for order in (1, -1):
        model = SmallerModel.whole(whole)
        while groups := [group for group in unit_groups(model.program, model.parts) if group.size > 1][::order]:
            group = groups[0]
            unit = pruning.least_missed(model, group) if pruning.is_summed(model, group) else 0
            model = pruning.without(model, group, unit)
            assert np.isfinite(outputs(model, features)).all()
        assert all(group.size == 1 for group in unit_groups(model.program, model.parts))
