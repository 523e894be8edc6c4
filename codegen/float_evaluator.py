"""Runs a program over the Reals (float64) on many samples at once: the reference that fixed-point programs approximate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.straight_line import NOWHERE, OperationInstance, Source, elements_of, sample_blocks, unroll

Observer = Callable[[OperationInstance, FloatArray, Sequence[FloatArray]], None]
"""Called after every step with the values written [.., samples] and the values read."""


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
    steps: Sequence[OperationInstance] | None = None,
) -> FloatRun:
    """Run the program on `features` [samples, features] (one row of no features when it has no input), in the blocks of
    `sample_blocks`, so that what it needs of memory does not grow with the samples. `observe` hears of every step of every block.

    `steps`: the unrolled program, where the caller has it already.
    """
    samples = features.shape[0]
    steps = unroll(program) if steps is None else steps
    outputs = np.empty((samples, program.result.size))
    for block in sample_blocks(program, steps, samples):
        outputs[block] = _run_block(program, steps, parameters, features[block], observe)
    return FloatRun(outputs)


def _run_block(
    program: ir.Program,
    steps: Sequence[OperationInstance],
    parameters: Mapping[str, FloatArray],
    features: FloatArray,
    observe: Observer | None,
) -> FloatArray:
    """The results [samples, elements of the result]."""
    samples = features.shape[0]
    storage = initial_storage(program, parameters, features)
    for step in steps:
        read = [_values(source, storage) for source in step.sources]
        with np.errstate(over="ignore", invalid="ignore"):  # the profiler says where values are not finite
            result = _compute(step, read)
        storage[step.operation.out.variable][step.out] = result
        if observe is not None:
            observe(step, result, read)
    outputs = storage[program.result.variable][elements_of(program.result, {}).reshape(-1)]
    return np.ascontiguousarray(np.broadcast_to(outputs, (outputs.shape[0], samples)).T)


def initial_storage(
    program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray
) -> dict[str, FloatArray]:
    """Arrays [elements, samples] by variable; parameters have one column that broadcasts."""
    samples = features.shape[0]
    storage: dict[str, FloatArray] = {}
    for variable in program.variables:
        if variable.role is ir.Role.PARAMETER:
            storage[variable.name] = np.asarray(parameters[variable.name], dtype=np.float64).reshape(-1, 1)
        elif variable.role is ir.Role.INPUT:
            storage[variable.name] = np.ascontiguousarray(features.T, dtype=np.float64)
        else:
            storage[variable.name] = np.zeros((variable.size, samples))
    return storage


def _values(source: Source, storage: Mapping[str, FloatArray]) -> FloatArray:
    if source.variable is None:
        return np.full((1, 1), source.literal)
    return storage[source.variable][source.elements]


def _compute(step: OperationInstance, read: list[FloatArray]) -> FloatArray:
    a = read[0] if read else np.zeros((1, 1))
    match step.operation:
        case ir.Fill(value=value):
            return np.full((step.out.size, 1), value)
        case ir.Pointwise() | ir.TableFunction():
            return step.operation.real(a)
        case ir.Add() | ir.Subtract() | ir.Multiply():
            return step.operation.real(a, read[1])
        case ir.MatMul() | ir.Conv2D():
            return _dot(np.where((step.sources[0].elements == NOWHERE)[..., None], 0.0, a), read[1])
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
    if b.shape[2] == 1 and a.shape[2] > 1:
        return np.asarray(np.einsum("pqs,qr->prs", a, b[..., 0], optimize=True))
    if a.shape[2] == 1 and b.shape[2] > 1:
        return np.asarray(np.einsum("pq,qrs->prs", a[..., 0], b, optimize=True))
    return np.asarray(np.einsum("pqs,qrs->prs", a, b))
