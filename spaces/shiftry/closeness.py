"""How far a smaller float model is off from the whole one, and weights that bring it closer.

A classifier is off by the errors of its margins, the leader's score less the rival's by the whole model, of which those near a boundary
count more. Gauss-Newton steps on these, damped as by Levenberg and Marquardt, change all weights
together. They are taken on some inputs and judged by others: what is learnt of the former alone does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, Int32Array, IntArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps, sample_blocks
from kilotune.codegen.reverse_accumulation import differentiable, parameter_gradients
from kilotune.codegen.straight_line import NOWHERE, OperationInstance
from kilotune.codegen.unit_pruning import FloatModel
from kilotune.evaluators.fixed_point.margins import deciding_step, float_contest

WIDEST = 0.1
"""The margin, as a share of the mean one, that is added to each: an input on a boundary counts as much as this."""

DAMPINGS = (1e-1, 1e-2, 1e-3)
"""What is added to the diagonal of a step's equations, in its means: all are tried."""

MOST_STEPS = 4

MOST_PRODUCTS = 2e10
"""Multiplications that one step's equations may take: some seconds. Larger models keep the weights that they have."""

MOST_GRADIENTS = 1 << 26
"""Numbers of all inputs' gradients together: half a gigabyte."""


ModelT = TypeVar("ModelT", bound=FloatModel)


class Closeness:
    """How far models are off from the whole one on some inputs."""

    def __init__(self, whole: FloatModel, inputs: FloatArray) -> None:
        self.inputs = inputs
        steps = loop_steps(whole.program)
        run, self._contest = float_contest(whole.program, whole.parameters, inputs, steps)
        self._outputs, deciding = run.outputs, deciding_step(whole.program, steps)
        self.weights = np.ones(len(inputs))
        if self._contest is not None and deciding is not None:
            self.weights = 1.0 / (WIDEST * max(float(self._contest.margins.mean()), 1e-30) + self._contest.margins)
            self._scored = deciding[1].sources[0].elements.reshape(-1)

    def of(self, model: FloatModel) -> tuple[float, float]:
        """The weighted mean square of the errors of margins, and the share of inputs that flip; of a numerical model the mean square error
        and its root."""
        scores, outputs = self._scores(model)
        if self._contest is None:
            square = float(np.square(outputs - self._outputs).mean())
            return square, math.sqrt(square)
        ahead = self._taken(scores, self._contest.leaders) - self._taken(scores, self._contest.rivals)
        errors = self.weights * np.square(ahead - self._contest.margins)
        return float(errors.mean()), float((outputs[:, 0] != self._outputs[:, 0]).mean())

    def _places(self, elements: Int32Array) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Where elements stand among the scores that are read, and which of them do."""
        order = np.argsort(self._scored, kind="stable")
        found = np.searchsorted(self._scored[order], np.maximum(elements, self._scored.min()))
        return order[np.minimum(found, len(order) - 1)], elements != NOWHERE

    def _taken(self, scores: FloatArray, elements: Int32Array) -> FloatArray:
        places, there = self._places(elements)
        return np.where(there, scores[places, np.arange(elements.size)], 0.0)

    def _scores(self, model: FloatModel) -> tuple[FloatArray, FloatArray]:
        """The scores [classes, inputs] that decide, and the outputs [inputs, results]."""
        steps, last = loop_steps(model.program), list[FloatArray]()
        row = None if self._contest is None else _deciding_row(model, steps)
        found, outputs = list[FloatArray](), list[FloatArray]()

        def observe(step: OperationInstance, _: FloatArray, read: Sequence[FloatArray]) -> None:
            if step.row == row:
                last[:] = [read[0]]

        for block in sample_blocks(steps.elements_at_once, len(self.inputs)):
            run = run_float(model.program, model.parameters, self.inputs[block], observe, steps)
            outputs.append(run.outputs)
            found += [np.broadcast_to(scores, (len(scores), len(run.outputs))).copy() for scores in last]
        return np.concatenate(found, axis=1) if found else np.zeros((0, 0)), np.concatenate(outputs)

    def errors_and_gradients(self, model: FloatModel) -> tuple[FloatArray, FloatArray]:
        """The weighted errors [inputs] of a classifier's margins and their gradients [weights, inputs], by all parameters, one after the
        other in the order of their names."""
        assert self._contest is not None
        contest, steps = self._contest, loop_steps(model.program)
        places = [self._places(elements) for elements in (contest.leaders, contest.rivals)]
        roots, row = np.sqrt(self.weights), _deciding_row(model, steps)

        def of_block(block: slice) -> FloatArray:
            def seed(scores: FloatArray) -> FloatArray:
                factors = np.zeros((len(scores), len(self.inputs[block])))
                for sign, (place, there) in zip((1.0, -1.0), places, strict=True):
                    of_samples = np.flatnonzero(there[block])
                    np.add.at(factors, (place[block][of_samples], of_samples), sign)
                return factors

            found = parameter_gradients(model, steps, self.inputs[block], row, seed)
            return np.concatenate([found[name] * _free(model, name) for name in sorted(found)])

        taped = steps.elements_touched  # a copy of all that is read stays until it is gone back through
        gradients = np.concatenate([of_block(one) for one in sample_blocks(taped, len(self.inputs))], axis=1)
        scores, _ = self._scores(model)
        ahead = self._taken(scores, contest.leaders) - self._taken(scores, contest.rivals)
        return roots * (ahead - contest.margins), gradients * roots

    def affordable(self, model: FloatModel) -> bool:
        """Whether steps can be taken, and in little time."""
        weights = sum(int(np.size(values)) for values in model.parameters.values())
        products = weights * weights * len(self.inputs)
        small = products <= MOST_PRODUCTS and weights * len(self.inputs) <= MOST_GRADIENTS
        return self._contest is not None and small and differentiable(model.program)


def _free(model: FloatModel, name: str) -> FloatArray:
    """1 for each element [elements, 1] of a parameter that may change: a parameter that is stored without its zeros keeps them."""
    values = np.asarray(model.parameters[name], dtype=np.float64).reshape(-1, 1)
    return (values != 0.0).astype(np.float64) if model.program.variable(name).sparse else np.ones_like(values)


def _deciding_row(model: FloatModel, steps: LoopedSteps) -> int:
    """The number of the operation that decides about the class."""
    deciding = deciding_step(model.program, steps)
    assert deciding is not None
    return deciding[1].row


def brought_closer(model: ModelT, learnt: Closeness, judged: Closeness, most_steps: int = MOST_STEPS) -> ModelT:
    """The model with weights that make it agree more, as far as the inputs that it is judged by show it; the very same where it cannot be
    told how, or that takes too long. Both are closeness to the same whole model."""
    best = judged.of(model)[0]
    for _ in range(most_steps if learnt.affordable(model) else 0):
        errors, gradients = learnt.errors_and_gradients(model)
        squares, slope = gradients @ gradients.T, gradients @ errors
        mean = float(np.diag(squares).mean())
        if not (mean > 0.0 and math.isfinite(mean)):
            return model
        damped = [squares + damping * mean * np.eye(len(squares)) for damping in DAMPINGS]
        moved = [_moved(model, -np.asarray(np.linalg.solve(one, slope), dtype=np.float64)) for one in damped]
        found = [judged.of(one)[0] for one in moved]
        least = int(np.argmin(found))
        if not found[least] < best:
            return model
        model, best = moved[least], found[least]
    return model


def _moved(model: ModelT, step: FloatArray) -> ModelT:
    """The model with all parameters moved, one after the other in the order of their names."""
    parameters, start = dict(model.parameters), 0
    for name in sorted(parameters):
        size = int(np.size(parameters[name]))
        values = np.asarray(parameters[name], dtype=np.float64)
        parameters[name] = values + step[start : start + size].reshape(values.shape)
        start += size
    return replace(model, parameters=parameters)
