"""Runs a program over the Reals (float64) on many samples at once: the reference that fixed-point programs approximate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.looped_steps import LoopedSteps, executed, sample_blocks
from kilotune.codegen.parallel_loops import float_steps
from kilotune.codegen.straight_line import NOWHERE, Elements, GridAxes, OperationInstance, Source, elements_of

Observer = Callable[[OperationInstance, FloatArray, Sequence[FloatArray]], None]
"""Called for every step with the values that it writes [.., samples] and those that it has read, which are views to be copied by
whoever keeps them. Element numbers of a step may be those of copies
(`codegen.parallel_loops`): modulo a variable's size they are what they are in the program."""

Storing = Callable[[OperationInstance, FloatArray], FloatArray]
"""What is stored of the values [.., samples or 1] that a step computes, in an array of the same shape."""


@dataclass(frozen=True)
class FloatRun:
    """Results [samples, elements of the result]: labels as whole numbers, or the real outputs."""

    outputs: FloatArray

    @property
    def labels(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The class of every sample, for programs that return one."""
        return self.outputs[:, 0].astype(np.int64)


def run_float(
    program: ir.Program,
    parameters: Mapping[str, FloatArray],
    features: FloatArray,
    observe: Observer | None = None,
    steps: LoopedSteps | None = None,
    stored: Storing | None = None,
) -> FloatRun:
    """Run the program on `features` [samples, features] (one row of no features when it has no input), in the blocks of
    `sample_blocks`, so that what it needs of memory does not grow with the samples. `observe` hears of every step of every block.

    `steps`: what `float_steps` gives, where the caller has it already. `stored`: what a variable holds of what is computed for it, such as
    the nearest number of a format; all of it by default.
    """
    samples = features.shape[0]
    steps = float_steps(program) if steps is None else steps
    outputs = np.empty((samples, program.result.size))
    for block in sample_blocks(steps.elements_at_once, samples):
        outputs[block] = _run_block(program, steps, parameters, features[block], observe, stored)
    return FloatRun(outputs)


def _run_block(
    program: ir.Program,
    steps: LoopedSteps,
    parameters: Mapping[str, FloatArray],
    features: FloatArray,
    observe: Observer | None,
    stored: Storing | None,
) -> FloatArray:
    """The results [samples, elements of the result]."""
    samples = features.shape[0]
    storage = initial_storage(program, parameters, features)
    with np.errstate(over="ignore", invalid="ignore"):  # the profiler says where values are not finite
        for part, (first, last) in zip(steps.body, steps.temporaries, strict=True):
            storage |= {name: np.zeros((steps.size(name), samples)) for name in first}
            for step in executed((part,), {}):
                read = [_values(source, storage) for source in step.sources]
                result = _compute(step, read)
                if stored is not None:
                    result = stored(step, result)
                if observe is not None:  # before values that were read may be overwritten
                    observe(step, result, read)
                _write(step, storage[step.operation.out.variable], result)
            for name in last:
                del storage[name]
    if program.result.variable not in storage:  # nothing writes it
        storage[program.result.variable] = np.zeros((program.variable(program.result.variable).size, samples))
    outputs = storage[program.result.variable][elements_of(program.result, {}).reshape(-1)]
    return np.ascontiguousarray(np.broadcast_to(outputs, (outputs.shape[0], samples)).T)


def initial_storage(
    program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray
) -> dict[str, FloatArray]:
    """Arrays [elements, samples] of what is given; parameters have one column that broadcasts."""
    storage: dict[str, FloatArray] = {}
    for variable in program.variables:
        if variable.role is ir.Role.PARAMETER:
            storage[variable.name] = np.asarray(parameters[variable.name], dtype=np.float64).reshape(-1, 1)
        elif variable.role is ir.Role.INPUT:
            storage[variable.name] = np.ascontiguousarray(features.T, dtype=np.float64)
    return storage


def _values(source: Source, storage: Mapping[str, FloatArray]) -> FloatArray:
    if source.variable is None:
        return np.full((1, 1), source.literal)
    values = storage[source.variable]
    if source.consecutive:
        start = int(source.elements.flat[0])
        return values[start : start + source.elements.size].reshape(*source.elements.shape, -1)
    if source.grid is not None:
        return _in_grid(values, source.elements, source.grid).reshape(*source.elements.shape, -1)
    return values.take(source.elements, axis=0)


def _write(step: OperationInstance, values: FloatArray, result: FloatArray) -> None:
    if step.grid is not None and result.shape[:-1] == step.out.shape:
        target = _in_grid(values, step.out, step.grid)
        target[...] = result.reshape(*target.shape[:-1], -1)
        return
    if not step.consecutive:
        values[step.out] = result
        return
    start = int(step.out.flat[0])
    values[start : start + step.out.size].reshape(*step.out.shape, -1)[...] = result


def _in_grid(values: FloatArray, elements: Elements, grid: GridAxes) -> FloatArray:
    """A view of the values [elements, samples] that lie in a grid: [*counts of the grid, samples]."""
    first, (along, across) = values[int(elements.flat[0]) :], values.strides
    shape = (*(count for count, _ in grid), values.shape[1])
    return np.lib.stride_tricks.as_strided(first, shape, (*(step * along for _, step in grid), across))


def _compute(step: OperationInstance, read: list[FloatArray]) -> FloatArray:
    a = read[0] if read else np.zeros((1, 1))
    match step.operation:
        case ir.Fill(value=value):
            return np.full((step.out.size, 1), value)
        case ir.Pointwise() | ir.TableFunction() | ir.QuantisedElements() | ir.QuantisedSoftmax():
            return step.operation.real(*read)
        case ir.Add() | ir.Subtract() | ir.Multiply():
            return step.operation.real(a, read[1])
        case ir.MatMul() | ir.Conv2D():
            padded = step.sources[0].elements == NOWHERE
            outside = float(step.operation.outside) if isinstance(step.operation, ir.Conv2D) else 0.0
            sums = _dot(np.where(padded[..., None], outside, a) if padded.any() else a, read[1])
            completion = step.operation.completion
            return sums if completion is None else completion.real(sums)
        case ir.MaxPool():
            outside = (step.sources[0].elements == NOWHERE)[..., None]
            return np.asarray(np.where(outside, -np.inf, a).max(axis=1))
        case ir.NormaliseL2():
            norm = np.sqrt((a * a).sum(axis=1, keepdims=True))
            return np.asarray(a / np.where(norm > 0, norm, 1.0))
        case ir.Select(strict=strict):
            return np.where(a > 0 if strict else a >= 0, read[1], read[2])
        case ir.ArgMax():
            return np.asarray(a.argmax(axis=0)[None, :], dtype=np.float64)
        case ir.Sign():
            return np.asarray(a > 0, dtype=np.float64)
        case _:
            assert_never(step.operation)


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    """[P, Q, S] x [Q, R, S] -> [P, R, S]; an operand with one sample (a parameter) broadcasts."""
    if b.shape[2] == 1:
        return np.asarray(np.matmul(b[..., 0].T, a))
    if a.shape[2] == 1:
        rows, products = a[..., 0], b.reshape(b.shape[0], -1)
        return np.asarray(rows @ products).reshape(rows.shape[0], *b.shape[1:])
    return np.asarray(np.einsum("pqs,qrs->prs", a, b))
