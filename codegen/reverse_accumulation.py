"""How a float program's values hang on its parameters, sample by sample: reverse accumulation over the steps that it executes.

Functions of single elements are differentiated numerically, so a new one needs nothing here (their steps are small; the second derivative
of none is large). Of other operations sums, products, choices and maxima are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import LoopedSteps
from kilotune.codegen.straight_line import NOWHERE, Elements, OperationInstance
from kilotune.codegen.unit_pruning import FloatModel

NUMERIC_STEP = 1e-5
"""By how much arguments of functions are moved."""

Executed = tuple[OperationInstance, list[FloatArray]]
"""A step, and copies of what it has read."""

Seed = Callable[[FloatArray], FloatArray]
"""From what was read [elements, samples or 1], the factors [elements, samples] of the sum whose gradients are wanted."""

KNOWN = (ir.MatMul, ir.Conv2D, ir.MaxPool, ir.Binary, ir.Pointwise, ir.TableFunction, ir.Select, ir.Fill)


def differentiable(program: ir.Program) -> bool:
    """Whether all operations before a label are known here."""
    return all(isinstance(o, (*KNOWN, *ir.INTEGER_RESULTS)) for o in ir.operations(program.body))


def parameter_gradients(
    model: FloatModel, steps: LoopedSteps, features: FloatArray, row: int, seed: Seed
) -> dict[str, FloatArray]:
    """For every parameter the gradients [its elements, samples] of a sum of what the operation of number `row` reads when it is executed
    for the last time. `features`: [samples, features], few enough to be run at once; `seed`: the factors of that sum.

    ValueError for a program that is not `differentiable`, and where the operation is never executed.
    """
    return _gradients(model, steps, features, (row, seed), len(features), None)


class StoredValues(Protocol):
    """What variables hold of the values that a program computes for them, and how gradients pass through that."""

    def stored(self, step: OperationInstance, values: FloatArray) -> FloatArray:
        """What is stored of the `values` [.., samples or 1] that a step computes, of that shape. Asked once for every step, in order."""

    def passed_on(self, number: int, gradient: FloatArray) -> FloatArray:
        """The gradient [.., samples] by the values that step `number`, counted from 0, computes, from that by what is stored of them."""


def summed_gradients(
    model: FloatModel, steps: LoopedSteps, features: FloatArray, row: int, seed: Seed, rounding: StoredValues
) -> dict[str, FloatArray]:
    """`parameter_gradients`, summed over the samples [elements], of a program whose variables hold something else than what is computed."""
    found = _gradients(model, steps, features, (row, seed), 1, rounding)
    return {name: gradient[:, 0] for name, gradient in found.items()}


def _gradients(
    model: FloatModel,
    steps: LoopedSteps,
    features: FloatArray,
    wanted: tuple[int, Seed],
    columns: int,
    rounding: StoredValues | None,
) -> dict[str, FloatArray]:
    """`columns`: those that parameters' gradients have, one for each sample or one in which all are summed."""
    if not differentiable(model.program):
        raise ValueError(f"{model.program.name} has operations whose derivative is not known.")
    tape, (row, seed) = list[Executed](), wanted
    given = {None, *(v.name for v in model.program.variables if v.role is not ir.Role.TEMPORARY)}
    run_float(
        model.program,
        model.parameters,
        features,
        lambda step, _, read: tape.append((step, _kept(step, read, given))),
        steps,
        None if rounding is None else rounding.stored,
    )
    while tape and tape[-1][0].row != row:
        tape.pop()
    if not tape:
        raise ValueError(f"operation {row} of {model.program.name} is never executed.")
    gradients = {
        variable.name: np.zeros((variable.size, columns if variable.name in model.parameters else len(features)))
        for variable in model.program.variables
        if variable.role is not ir.Role.INPUT
    }
    last, read = tape.pop()
    _add(gradients, last, 0, seed(read[0]))
    for number, (step, values) in reversed(list(enumerate(tape))):
        written = gradients[step.operation.out.variable]
        place = _place(step)
        after = written[place].reshape(*step.out.shape, -1).copy()
        written[place] = 0.0  # what was there before is gone
        if rounding is not None:
            after = rounding.passed_on(number, after)
        if after.any():
            _pass_on(gradients, step, values, after)
    return {name: gradients[name] for name in model.parameters if name in gradients}


def _kept(step: OperationInstance, read: Sequence[FloatArray], given: Set[str | None]) -> list[FloatArray]:
    """What a step has read: as it is where it is an array of its own or of a variable that is never written, else copies."""
    return [
        values.copy() if (source.consecutive or source.grid is not None) and source.variable not in given else values
        for source, values in zip(step.sources, read, strict=True)
    ]


def _place(step: OperationInstance) -> slice | Elements:
    """Where a step writes."""
    first = int(step.out.flat[0])
    return slice(first, first + step.out.size) if step.consecutive else step.out.reshape(-1)


def _add(gradients: dict[str, FloatArray], step: OperationInstance, place: int, gradient: FloatArray) -> None:
    """To what a step reads as its operand number `place`."""
    source = step.sources[place]
    if source.variable not in gradients:
        return
    elements, found = source.elements.reshape(-1), gradients[source.variable]
    added = gradient.reshape(len(elements), -1)
    if found.shape[1] == 1:
        added = added.sum(axis=1, keepdims=True)
    if source.consecutive:
        found[int(elements[0]) : int(elements[0]) + len(elements)] += added
        return
    if elements.min() == NOWHERE:
        elements, added = elements[elements != NOWHERE], added[elements != NOWHERE]
    if source.distinct:
        found[elements] += added
    else:
        np.add.at(found, elements, added)


def _is_summed(gradients: Mapping[str, FloatArray], step: OperationInstance, place: int) -> bool:
    """Whether the gradient of an operand has one column for all samples."""
    variable = step.sources[place].variable
    return variable is not None and variable in gradients and gradients[variable].shape[1] == 1


def _by_first(after: FloatArray, b: FloatArray, summed: bool) -> FloatArray:
    """The gradient [P, Q, samples or 1] by the first factor of a product of [P, Q, .] and `b` [Q, R, .], from that of the product."""
    if summed:
        every = np.broadcast_to(b, (*b.shape[:-1], after.shape[-1]))
        return np.asarray(np.tensordot(after, every, ((1, 2), (1, 2))))[..., None]
    if b.shape[-1] == 1:
        return np.asarray(np.matmul(b[..., 0], after))
    return np.asarray(np.einsum("prs,qrs->pqs", after, b))


def _by_second(a: FloatArray, after: FloatArray, summed: bool) -> FloatArray:
    """The gradient [Q, R, samples or 1] by the second factor of a product of `a` [P, Q, .] and [Q, R, .], from that of the product."""
    if summed:
        every = np.broadcast_to(a, (*a.shape[:-1], after.shape[-1]))
        return np.asarray(np.tensordot(every, after, ((0, 2), (0, 2))))[..., None]
    if a.shape[-1] == 1:
        return np.asarray(np.tensordot(a[..., 0], after, (0, 0)))
    return np.asarray(np.einsum("pqs,prs->qrs", a, after))


def _pass_on(
    gradients: dict[str, FloatArray], step: OperationInstance, read: Sequence[FloatArray], after: FloatArray
) -> None:
    """The gradient of what a step writes goes to what it reads."""
    match step.operation:
        case ir.MatMul() | ir.Conv2D():
            outside = step.sources[0].elements == NOWHERE
            a = np.where(outside[..., None], 0.0, read[0]) if outside.any() else read[0]
            _add(gradients, step, 0, _by_first(after, read[1], _is_summed(gradients, step, 0)))
            _add(gradients, step, 1, _by_second(a, after, _is_summed(gradients, step, 1)))
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
