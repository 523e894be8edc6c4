"""The definition of what a fixed-point program computes, as NumPy: slow, portable, and what the other executions are held to.

Storage is int64 [elements, samples]; every value is the exact integer that the program holds.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array, IntArray
from kilotune.codegen.fixed.arithmetic import Rounding, quantise_features, scale_down, wrap
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.ir import Constants
from kilotune.codegen.ir.numbers import Constant
from kilotune.codegen.looped_steps import LoopedSteps, loop_steps, sample_blocks
from kilotune.codegen.straight_line import NOWHERE, OperationInstance, Source, elements_of
from kilotune.evaluators.fixed_point.margins import NO_SUMS, Contest, MarginSums


def run_reference(
    batch: FixedBatch,
    parameters: Mapping[str, np.ndarray],
    features: np.ndarray,
    steps: LoopedSteps | None = None,
) -> IntArray:
    """Outputs [candidates, samples, elements of the result] on float `features` [samples, features].

    Parameters and features are quantised here, at each candidate's widths and scales.
    """
    steps = loop_steps(batch.program) if steps is None else steps
    return _run_batch(batch, parameters, features, steps, None)[0]


def run_reference_contest(
    batch: FixedBatch,
    parameters: Mapping[str, np.ndarray],
    features: np.ndarray,
    steps: LoopedSteps,
    contest: Contest,
) -> tuple[IntArray, list[MarginSums]]:
    """Outputs as `run_reference`, and the contest's sums of each candidate."""
    return _run_batch(batch, parameters, features, steps, contest)


def _run_batch(
    batch: FixedBatch,
    parameters: Mapping[str, np.ndarray],
    features: np.ndarray,
    steps: LoopedSteps,
    contest: Contest | None,
) -> tuple[IntArray, list[MarginSums]]:
    """In blocks of samples, so that intermediate values fit."""
    samples = len(features)
    outputs = np.empty((len(batch), samples, batch.program.result.size), dtype=np.int64)
    sums = [NO_SUMS] * len(batch)
    for index in range(len(batch)):
        for block in sample_blocks(steps.elements_in_all, samples):
            outputs[index, block], added = _run_one(batch, index, steps, parameters, features, contest, block)
            sums[index] = MarginSums(*map(operator.add, sums[index], added))
    return outputs, sums


def _run_one(
    batch: FixedBatch,
    index: int,
    steps: LoopedSteps,
    parameters: Mapping[str, np.ndarray],
    features: np.ndarray,
    contest: Contest | None,
    block: slice,
) -> tuple[IntArray, MarginSums]:
    """Outputs and sums of a candidate on some of the samples; zeros for sums where there is no contest."""
    machine = _machine(batch, index, parameters, features[block])
    sums = NO_SUMS
    for number, step in enumerate(steps):
        machine.execute(step, batch.rows[index, step.row])
        if contest is not None and number == contest.step:
            sums = contest.sums(machine.storage[contest.variable], block)
    view = batch.program.result
    result = machine.storage[view.variable][elements_of(view, {}).reshape(-1)]
    samples = len(features[block])
    return np.ascontiguousarray(np.broadcast_to(result, (result.shape[0], samples)).T), sums


def executions(
    batch: FixedBatch, parameters: Mapping[str, np.ndarray], features: np.ndarray
) -> Iterator[tuple[OperationInstance, IntArray]]:
    """Every step of the only candidate of `batch` in order, with the integers that it wrote: `step.out.shape` + [samples]."""
    machine = _machine(batch, 0, parameters, features)
    for step in loop_steps(batch.program):
        machine.execute(step, batch.rows[0, step.row])
        written = machine.storage[step.operation.out.variable][step.out]
        yield step, np.broadcast_to(written, (*written.shape[:-1], features.shape[0])).copy()


def _machine(batch: FixedBatch, index: int, parameters: Mapping[str, np.ndarray], features: np.ndarray) -> _Machine:
    """A candidate's storage before the first step."""
    samples = features.shape[0]
    storage: dict[str, IntArray] = {}
    for column, variable in enumerate(batch.program.variables):
        bits, scale = int(batch.bits[index, column]), int(batch.scales[index, column])
        if variable.role is ir.Role.PARAMETER:
            storage[variable.name] = batch.integers(index, column, parameters[variable.name]).reshape(-1, 1)
        elif variable.role is ir.Role.INPUT:
            storage[variable.name] = quantise_features(features, bits, scale).T
        else:
            storage[variable.name] = np.zeros((variable.size, samples), dtype=np.int64)
    return _Machine(batch, storage)


class _Machine:
    """One candidate's storage and how each operation changes it (see `codegen.fixed.table` for the semantics)."""

    def __init__(self, batch: FixedBatch, storage: dict[str, IntArray]) -> None:
        self.storage = storage
        self.rounding = batch.rounding
        self.functions = batch.functions

    def execute(self, step: OperationInstance, row: Int32Array) -> None:
        out = self._result(step, row)
        if not isinstance(step.operation, ir.INTEGER_RESULTS):
            out = wrap(self._down(out, int(row[Column.SHIFT_OUT])), int(row[Column.BITS]))
        self.storage[step.operation.out.variable][step.out] = out

    def _down(self, values: IntArray, shift: int) -> IntArray:
        return scale_down(values, shift, self.rounding)

    def _read(self, source: Source, row: Int32Array, shift: Column, constant: Column) -> IntArray:
        if source.variable is None:
            return np.full((1, 1), int(row[constant]), dtype=np.int64)
        return self._down(self.storage[source.variable][source.elements], int(row[shift]))

    def _result(self, step: OperationInstance, row: Int32Array) -> IntArray:
        operation, sources = step.operation, step.sources
        if isinstance(operation, ir.Elementwise):
            return self._elements(operation, step, row)
        a = self._read(sources[0], row, Column.SHIFT_A, Column.CONSTANT_A)
        match operation:
            case ir.MatMul() | ir.Conv2D():
                b = self._read(sources[1], row, Column.SHIFT_B, Column.CONSTANT_B)
                outside = operation.outside if isinstance(operation, ir.Conv2D) else 0
                a = np.where((sources[0].elements == NOWHERE)[..., None], outside, a)
                sums = self._dot(a, b, row)
                return sums if operation.completion is None else operation.completion.integer(sums)
            case ir.MaxPool():
                nowhere = (sources[0].elements == NOWHERE)[..., None]
                return np.asarray(np.where(nowhere, np.iinfo(np.int64).min, a).max(axis=1))
            case ir.QuantisedSoftmax():
                return operation.integer(a)
            case ir.NormaliseL2():
                return _normalise(a, int(row[Column.SHIFT_B]))
            case ir.ArgMax():
                return np.asarray(a.argmax(axis=0)[None, :], dtype=np.int64)
            case _:
                assert_never(operation)

    def _elements(self, operation: ir.Elementwise, step: OperationInstance, row: Int32Array) -> IntArray:
        sources, accumulator = step.sources, int(row[Column.ACC_BITS])
        match operation:
            case ir.Fill():
                return np.full((step.out.size, 1), int(row[Column.CONSTANT_A]), dtype=np.int64)
            case ir.Select():
                condition = self.storage[sources[0].variable or ""][sources[0].elements]
                chosen = condition > 0 if operation.strict else condition >= 0
                return np.where(chosen, *self._pair(sources[1:], row))
            case ir.Add() | ir.Subtract() | ir.Multiply():
                return wrap(operation.of_integers(*self._pair(sources, row)), accumulator)
            case ir.Pointwise():
                constants = Constants(
                    int(row[Column.CONSTANT_A]), int(row[Column.CONSTANT_B]), int(row[Column.SHIFT_B])
                )
                a = self._read(sources[0], row, Column.SHIFT_A, Column.CONSTANT_A)
                return operation.integer(Arrays(self.rounding, accumulator), a, constants)
            case ir.TableFunction():
                a = self._read(sources[0], row, Column.SHIFT_A, Column.CONSTANT_A)
                return evaluate_function(operation, a, self.functions[int(row[Column.FUNCTION])], self.rounding)
            case ir.QuantisedElements():
                columns = ((Column.SHIFT_A, Column.CONSTANT_A), (Column.SHIFT_B, Column.CONSTANT_B))
                return operation.integer(*(self._read(s, row, *c) for s, c in zip(sources, columns, strict=False)))
            case ir.Sign():
                a = self._read(sources[0], row, Column.SHIFT_A, Column.CONSTANT_A)
                return np.asarray(a > 0, dtype=np.int64)
            case _:
                assert_never(operation)

    def _pair(self, sources: Sequence[Source], row: Int32Array) -> tuple[IntArray, IntArray]:
        """Both operands, divided as the row says."""
        first = self._read(sources[0], row, Column.SHIFT_A, Column.CONSTANT_A)
        return first, self._read(sources[1], row, Column.SHIFT_B, Column.CONSTANT_B)

    def _dot(self, a: IntArray, b: IntArray, row: Int32Array) -> IntArray:
        """[P, Q, S] x [Q, R, S] -> [P, R, S]."""
        accumulator, halvings = int(row[Column.ACC_BITS]), int(row[Column.HALVINGS])
        term_shift = int(row[Column.SHIFT_TERM])
        samples = max(a.shape[2], b.shape[2])
        if halvings < 0 and not term_shift and b.shape[2] == 1 and _sums_fit_floats(a, b):
            return wrap(np.matmul(b[..., 0].T.astype(np.float64), a.astype(np.float64)).astype(np.int64), accumulator)
        total = np.zeros((a.shape[0], b.shape[1], samples), dtype=np.int64)
        for p in range(a.shape[0]):
            terms = self._down(wrap(a[p][:, None, :] * b, accumulator), term_shift)
            summed = (
                wrap(terms.sum(axis=0), accumulator) if halvings < 0 else self._tree_sum(terms, halvings, accumulator)
            )
            total[p] = summed
        return total

    def _tree_sum(self, terms: IntArray, halvings: int, accumulator: int) -> IntArray:
        """SeeDot Algorithm 2, TreeSum, over axis 0: the first `halvings` levels halve both addends."""
        level = 0
        while terms.shape[0] > 1:
            halved = self._down(terms, 1 if level < halvings else 0)
            even = halved.shape[0] // 2 * 2
            pairs = wrap(halved[0:even:2] + halved[1:even:2], accumulator)
            terms = np.concatenate([pairs, halved[even:]])
            level += 1
        return np.asarray(terms[0])


def _sums_fit_floats(a: IntArray, b: IntArray) -> bool:
    """Whether sums of products [P, Q, S] x [Q, R, S] are exact as floats of 64 bits, for which there is a fast product."""
    largest = [int(np.abs(values).max(initial=0)) for values in (a, b)]
    return largest[0] * largest[1] * int(a.shape[1]) < 1 << 53


def evaluate_function(operation: ir.TableFunction, x: IntArray, table: Exponential, rounding: Rounding) -> IntArray:
    """Exp, Sigmoid or Tanh of the scaled argument (Shiftry Section 5.4.1, Libraries 8 and 9), at `table.scale`.

    For Tanh the caller has already doubled x.
    """
    return operation.integer(x, lambda argument: table(argument, rounding), table.scale)


@dataclass(frozen=True)
class Arrays:
    """Pointwise operators on exact integers in NumPy: `codegen.ir.numbers` over arrays, which defines what they compute."""

    rounding: Rounding
    accumulator_bits: int

    def negative(self, a: IntArray) -> IntArray:
        return wrap(-a, self.accumulator_bits)

    def positive(self, a: IntArray) -> IntArray:
        return np.maximum(a, 0)

    def clip(self, a: IntArray, limit: Constant) -> IntArray:
        return np.clip(a, 0, limit)

    def plus(self, a: IntArray, constant: Constant) -> IntArray:
        return np.asarray(a + constant)

    def scaled(self, a: IntArray, constant: Constant) -> IntArray:
        return np.asarray(a * constant)

    def times(self, a: IntArray, b: IntArray) -> IntArray:
        return np.asarray(a * b)

    def down(self, a: IntArray, shift: Constant) -> IntArray:
        return scale_down(a, int(shift), self.rounding)

    def narrow(self, a: IntArray, like: IntArray) -> IntArray:
        return a

    def where_negative(self, a: IntArray, then: IntArray, otherwise: IntArray) -> IntArray:
        return np.where(a < 0, then, otherwise)


def _normalise(a: IntArray, scale: int) -> IntArray:
    """Rows [n, last, S] divided by their integer norms."""
    squares = (a * a).sum(axis=1, keepdims=True)
    norm = np.floor(np.sqrt(squares.astype(np.float64))).astype(np.int64)
    quotient = (np.abs(a) << scale) // np.maximum(norm, 1)
    return np.asarray(np.where(norm > 0, np.sign(a) * quotient, 0))
