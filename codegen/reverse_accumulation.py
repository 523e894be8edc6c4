"""How a float program's values hang on its parameters, sample by sample: reverse accumulation over the steps that it executes.

Functions of single elements are differentiated numerically, so a new one needs nothing here (their steps are small; the second derivative
of none is large). Of other operations sums, products, choices and maxima are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import LoopedSteps
from kilotune.codegen.straight_line import NOWHERE, OperationInstance
from kilotune.codegen.unit_pruning import FloatModel

NUMERIC_STEP = 1e-5
"""By how much arguments of functions are moved."""

Executed = tuple[OperationInstance, list[FloatArray]]
"""A step, and copies of what it has read."""

KNOWN = (ir.MatMul, ir.Conv2D, ir.MaxPool, ir.Binary, ir.Pointwise, ir.TableFunction, ir.Select, ir.Fill)


def differentiable(program: ir.Program) -> bool:
    """Whether all operations before a label are known here."""
    return all(isinstance(o, (*KNOWN, *ir.INTEGER_RESULTS)) for o in ir.operations(program.body))


def parameter_gradients(
    model: FloatModel, steps: LoopedSteps, features: FloatArray, row: int, seed: Callable[[FloatArray], FloatArray]
) -> dict[str, FloatArray]:
    """For every parameter the gradients [its elements, samples] of a sum of what the operation of number `row` reads when it is executed
    for the last time. `features`: [samples, features], few enough to be run at once.

    `seed`: the factors [elements read, samples] of that sum, from what was read [elements read, samples or 1]. ValueError for a program
    that is not `differentiable`, and where the operation is never executed.
    """
    if not differentiable(model.program):
        raise ValueError(f"{model.program.name} has operations whose derivative is not known.")
    tape = list[Executed]()
    run_float(
        model.program,
        model.parameters,
        features,
        lambda step, _, read: tape.append((step, [values.copy() for values in read])),
        steps,
    )
    while tape and tape[-1][0].row != row:
        tape.pop()
    if not tape:
        raise ValueError(f"operation {row} of {model.program.name} is never executed.")
    wanted = [variable for variable in model.program.variables if variable.role is not ir.Role.INPUT]
    gradients = {variable.name: np.zeros((variable.size, len(features))) for variable in wanted}
    last, read = tape.pop()
    _add(gradients, last, 0, seed(read[0]))
    for step, values in reversed(tape):
        _pass_on(gradients, step, values)
    return {name: gradients[name] for name in model.parameters if name in gradients}


def _add(gradients: dict[str, FloatArray], step: OperationInstance, place: int, gradient: FloatArray) -> None:
    """To what a step reads as its operand number `place`."""
    source = step.sources[place]
    if source.variable in gradients:
        elements = source.elements.reshape(-1)
        added, found = gradient.reshape(len(elements), -1), gradients[source.variable]
        if elements.min() == NOWHERE:
            elements, added = elements[elements != NOWHERE], added[elements != NOWHERE]
        if len(np.unique(elements)) == len(elements):
            found[elements] += added
        else:
            np.add.at(found, elements, added)


def _pass_on(gradients: dict[str, FloatArray], step: OperationInstance, read: Sequence[FloatArray]) -> None:
    """The gradient of what a step writes goes to what it reads."""
    written = gradients[step.operation.out.variable]
    after = written[step.out]
    written[step.out] = 0.0  # what was there before is gone
    if not after.any():
        return
    match step.operation:
        case ir.MatMul() | ir.Conv2D():
            a, b = (np.broadcast_to(values, (*values.shape[:-1], after.shape[-1])) for values in read)
            a = np.where((step.sources[0].elements == NOWHERE)[..., None], 0.0, a)
            _add(gradients, step, 0, np.einsum("prs,qrs->pqs", after, b))
            _add(gradients, step, 1, np.einsum("pqs,prs->qrs", a, after))
        case ir.Add():
            _add(gradients, step, 0, after)
            _add(gradients, step, 1, after)
        case ir.Subtract():
            _add(gradients, step, 0, after)
            _add(gradients, step, 1, -after)
        case ir.Multiply():
            _add(gradients, step, 0, after * read[1])
            _add(gradients, step, 1, after * read[0])
        case ir.Select(strict=strict):
            chosen = read[0] > 0 if strict else read[0] >= 0
            _add(gradients, step, 1, np.where(chosen, after, 0.0))
            _add(gradients, step, 2, np.where(chosen, 0.0, after))
        case ir.MaxPool():
            inside = np.where((step.sources[0].elements == NOWHERE)[..., None], -np.inf, read[0])
            first = inside.argmax(axis=1)[:, None] == np.arange(inside.shape[1])[:, None]
            _add(gradients, step, 0, np.where(first, after[:, None], 0.0))
        case ir.Pointwise() | ir.TableFunction() as operation:
            above, below = operation.real(read[0] + NUMERIC_STEP), operation.real(read[0] - NUMERIC_STEP)
            _add(gradients, step, 0, after * ((above - below) / (2 * NUMERIC_STEP)))
        case _:
            return
