"""Gradients of float programs, summed over samples, and passed through what variables hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps, unrolled
from kilotune.codegen.reverse_accumulation import differentiable, parameter_gradients, summed_gradients
from kilotune.codegen.straight_line import OperationInstance
from kilotune.codegen.unit_pruning import FloatModel
from kilotune.evaluators.fixed_point.margins import deciding_step
from kilotune.experiments.models.catalogue import resolve_model
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.effort import effort

MODELS = ["fastgrnn16-digits", "lenet-digits", "protonn-digits", "bonsai-digits", "gru16-vowels"]


class Unchanged:
    """Variables hold what is computed."""

    def stored(self, step: OperationInstance, values: FloatArray) -> FloatArray:
        return values

    def passed_on(self, number: int, gradient: FloatArray) -> FloatArray:
        return gradient


class Bent(Unchanged):
    """Variables hold `1.2 v + 0.3 sin v` of what is computed, but for labels."""

    def __init__(self) -> None:
        self.values = list[FloatArray]()

    def stored(self, step: OperationInstance, values: FloatArray) -> FloatArray:
        self.values.append(values.copy())
        return np.asarray(1.2 * values + 0.3 * np.sin(values))

    def passed_on(self, number: int, gradient: FloatArray) -> FloatArray:
        return gradient * (1.2 + 0.3 * np.cos(self.values[number]))


def model_of(name: str) -> tuple[FloatModel, FloatArray, LoopedSteps, int]:
    bundle = load_bundle(resolve_model(name))
    assert bundle.train is not None
    steps = loop_steps(bundle.program)
    deciding = deciding_step(bundle.program, steps)
    assert deciding is not None
    return FloatModel(bundle.program, bundle.parameters), bundle.train.features[:6], steps, deciding[1].row


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_summed_over_samples(name: str) -> None:
    model, features, steps, row = model_of(name)
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(100, len(features)))

    def seed(scores: FloatArray) -> FloatArray:
        return factors[: len(scores)].copy()

    each = parameter_gradients(model, steps, features, row, seed)
    for found in (summed_gradients(model, way, features, row, seed, Unchanged()) for way in (steps, unrolled(steps))):
        assert found.keys() == each.keys()
        for parameter, gradients in each.items():
            np.testing.assert_allclose(found[parameter], gradients.sum(axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["fastgrnn16-digits", "lenet-digits"])
def test_gradients_pass_through_what_variables_hold(name: str) -> None:
    """Beside differences of the scores of the program whose variables hold something else."""
    model, features, steps, row = model_of(name)
    factors = np.random.default_rng(1).normal(size=(10, len(features)))
    found = summed_gradients(model, steps, features, row, lambda scores: factors.copy(), Bent())

    def loss(parameters: dict[str, FloatArray]) -> float:
        read = list[FloatArray]()
        run_float(
            model.program,
            parameters,
            features,
            lambda step, _, values: read.append(values[0].copy()) if step.row == row else None,
            steps,
            Bent().stored,
        )
        return float((read[-1] * factors).sum())

    rng = np.random.default_rng(2)
    for parameter, values in model.parameters.items():
        for place in rng.choice(values.size, 3):
            sums = []
            for sign in (1, -1):
                moved = values.astype(np.float64).reshape(-1).copy()
                moved[place] += sign * 1e-6
                sums.append(loss({**model.parameters, parameter: moved.reshape(values.shape)}))
            expected = (sums[0] - sums[1]) / 2e-6
            np.testing.assert_allclose(found[parameter][place], expected, rtol=1e-4, atol=1e-3)


def test_unrolled_steps_are_those_that_loops_execute() -> None:
    steps = loop_steps(load_bundle(resolve_model("fastgrnn16-digits")).program)
    for one, other in zip(steps, unrolled(steps), strict=True):
        assert one.row == other.row
        np.testing.assert_array_equal(one.out, other.out)
        for source, same in zip(one.sources, other.sources, strict=True):
            np.testing.assert_array_equal(source.elements, same.elements)


@given(random_models(classifies=True))
@settings(deadline=None, max_examples=effort(60, 400))
def test_gradients_of_any_program_are_those_of_differences(model: RandomModel) -> None:
    """Of every operation whose derivative is known, padded, strided, in loops and in place. Beside kinks there is no derivative, and
    two differences say so."""
    steps = unrolled(loop_steps(model.program))
    deciding = deciding_step(model.program, steps)
    if not differentiable(model.program) or deciding is None:
        return
    row, samples = deciding[1].row, model.features[:4] * np.array([[1.0], [1.0], [0.5], [0.25]])
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(deciding[1].sources[0].elements.size, len(samples)))

    def loss(parameters: dict[str, FloatArray]) -> float:
        read = list[FloatArray]()
        run_float(
            model.program,
            parameters,
            samples,
            lambda step, _, values: read.append(values[0].copy()) if step.row == row else None,
            steps,
            Bent().stored,
        )
        return float((read[-1] * factors).sum())

    given_parameters = {name: values.astype(np.float64) for name, values in model.parameters.items()}
    if not abs(loss(given_parameters)) < 1e6:
        return
    found = summed_gradients(
        FloatModel(model.program, given_parameters), steps, samples, row, lambda _: factors.copy(), Bent()
    )
    for name, values in given_parameters.items():
        for place in rng.choice(values.size, min(3, values.size), replace=False):
            slopes = []
            for by in (1e-6, 5e-7):
                moved = [values.reshape(-1).copy() for _ in range(2)]
                moved[0][place] += by
                moved[1][place] -= by
                ends = [loss({**given_parameters, name: one.reshape(values.shape)}) for one in moved]
                slopes.append((ends[0] - ends[1]) / (2 * by))
            size = max(1.0, abs(slopes[0]))
            if abs(slopes[0] - slopes[1]) < 1e-3 * size:
                assert abs(found[name][place] - slopes[0]) < 2e-3 * size
