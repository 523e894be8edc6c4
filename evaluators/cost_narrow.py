"""Which sums of 32 bits the emitted code takes in 16, estimated for whole batches.

`codegen.emit.ranges` proves it for one candidate from its quantised weights, which takes as long as running the candidate.
Here the weights are the real ones times a power of two, and an operand is as large as its width or the function that
wrote it allows: the same rule but for the rounding of weights, and for intervals that come through several operations.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.emit.ranges import NARROW_BITS
from kilotune.codegen.fixed.arithmetic import FloatArray
from kilotune.codegen.fixed.table import Column, FixedBatch, Int32Array
from kilotune.codegen.straight_line import elements_of

_WIDE_BITS = 32


class NarrowSums:
    """The sums of one program."""

    def __init__(self, program: ir.Program, parameters: Mapping[str, FloatArray]) -> None:
        self._columns = {v.name: i for i, v in enumerate(program.variables)}
        self._constants = {v.name for v in program.variables if v.role is ir.Role.PARAMETER}
        self._parameters = parameters
        operations = tuple(ir.operations(program.body))
        writers: dict[str, list[ir.Operation]] = {}
        for operation in operations:
            writers.setdefault(operation.out.variable, []).append(operation)
        self._fractions = {
            name for name, found in writers.items() if len(found) == 1 and isinstance(found[0], ir.Sigmoid | ir.Tanh)
        }
        self._sums = [(row, o) for row, o in enumerate(operations) if isinstance(o, ir.MatMul | ir.Conv2D)]
        self._weights = {row: self._largest_sum(o) for row, o in self._sums}

    def apply(self, batch: FixedBatch, rows: Int32Array) -> None:
        """Narrow the accumulators in `rows` [candidates, operations, columns], as they are emitted (`emit.preshift`)."""
        for row, operation in self._sums:
            wide = rows[:, row, Column.ACC_BITS] == _WIDE_BITS
            plain = rows[:, row, Column.HALVINGS] <= 0
            for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM):
                plain &= rows[:, row, column] == 0
            some = wide & plain
            if some.any():
                some &= self._largest(batch, rows, row, operation) < 1 << (NARROW_BITS - 1)
                rows[some, row, Column.ACC_BITS] = NARROW_BITS

    def _largest(
        self, batch: FixedBatch, rows: Int32Array, row: int, operation: ir.MatMul | ir.Conv2D
    ) -> npt.NDArray[np.float64]:
        """What a sum may grow to [candidates]."""
        a, b = operation.a, operation.b
        weights = self._weights[row]
        if weights is None:
            length = a.shape[-1] if isinstance(operation, ir.MatMul) else ir.count_elements(b.shape[1:4])
            return np.asarray(length * self._magnitude(batch, a.variable) * self._magnitude(batch, b.variable))
        total, of_a = weights
        constant, met = (a, b) if of_a else (b, a)
        column = Column.SHIFT_A if of_a else Column.SHIFT_B
        stored = batch.rows[:, row, column] - rows[:, row, column]
        scale = batch.scales[:, self._columns[constant.variable]] - stored
        return np.asarray(total * np.exp2(scale.astype(np.float64)) * self._magnitude(batch, met.variable))

    def _magnitude(self, batch: FixedBatch, name: str) -> npt.NDArray[np.float64]:
        number = self._columns[name]
        most = np.exp2(batch.bits[:, number] - 1.0)
        if name in self._fractions:
            return np.asarray(np.minimum(most, np.exp2(batch.scales[:, number].astype(np.float64))))
        return np.asarray(most)

    def _largest_sum(self, operation: ir.MatMul | ir.Conv2D) -> tuple[float, bool] | None:
        """The largest sum of magnitudes of weights that meet in one sum, and whether they are operand a; None without weights."""
        a, b = operation.a, operation.b
        if isinstance(operation, ir.MatMul) and self._is_constant(a):
            return float(np.abs(self._values(a)).sum(axis=1).max()), True
        if self._is_constant(b):
            axes = (0,) if isinstance(operation, ir.MatMul) else (1, 2, 3)
            return float(np.abs(self._values(b)).sum(axis=axes).max()), False
        return None

    def _is_constant(self, view: ir.View) -> bool:
        return view.variable in self._constants and not view.offset.terms

    def _values(self, view: ir.View) -> FloatArray:
        return np.asarray(self._parameters[view.variable]).reshape(-1)[elements_of(view, {})].reshape(view.shape)
