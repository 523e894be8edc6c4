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
from kilotune.codegen.arrays import FloatArray, Int32Array
from kilotune.codegen.emit.ranges import NARROW_BITS, known_weights
from kilotune.codegen.emit.schedule import in_order, scales_terms
from kilotune.codegen.fixed.table import Column, FixedBatch
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
            name
            for name, found in writers.items()
            if len(found) == 1 and isinstance(found[0], ir.TableFunction) and found[0].limits(0) is not None
        }
        self._sums = [(row, o) for row, o in enumerate(operations) if isinstance(o, ir.Product)]
        self._known = {row: self._largest_sum(o) for row, o in self._sums}

    def apply(self, batch: FixedBatch, rows: Int32Array) -> None:
        """Narrow the accumulators in `rows` [candidates, operations, columns], as they are emitted (`emit.preshift`)."""
        for row, operation in self._sums:
            wide = rows[:, row, Column.ACC_BITS] == _WIDE_BITS
            shifts = [rows[:, row, column] for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)]
            plain = in_order(rows[:, row, Column.HALVINGS]) & ~scales_terms(*shifts)
            some = wide & plain
            if some.any():
                some &= self._largest(batch, rows, row, operation) < 1 << (NARROW_BITS - 1)
                rows[some, row, Column.ACC_BITS] = NARROW_BITS

    def _largest(self, batch: FixedBatch, rows: Int32Array, row: int, operation: ir.Product) -> npt.NDArray[np.float64]:
        """What a sum may grow to [candidates]."""
        a, b = operation.a, operation.b
        known = self._known[row]
        if known is None:
            return np.asarray(operation.taps * self._magnitude(batch, a.variable) * self._magnitude(batch, b.variable))
        total, column = known
        constant, met = (a, b) if column is Column.SHIFT_A else (b, a)
        stored = batch.rows[:, row, column] - rows[:, row, column]
        scale = batch.scales[:, self._columns[constant.variable]] - stored
        return np.asarray(total * np.exp2(scale.astype(np.float64)) * self._magnitude(batch, met.variable))

    def _magnitude(self, batch: FixedBatch, name: str) -> npt.NDArray[np.float64]:
        number = self._columns[name]
        most = np.exp2(batch.bits[:, number] - 1.0)
        if name in self._fractions:
            return np.asarray(np.minimum(most, np.exp2(batch.scales[:, number].astype(np.float64))))
        return np.asarray(most)

    def _largest_sum(self, operation: ir.Product) -> tuple[float, Column] | None:
        """The largest sum of magnitudes of weights that meet in one sum, and the column of their shift; None without weights."""
        known = known_weights(operation, self._is_constant, self._values)
        return None if known is None else (float(np.abs(known[0]).sum(axis=1).max()), known[1])

    def _is_constant(self, view: ir.View) -> bool:
        return view.variable in self._constants and not view.offset.terms

    def _values(self, view: ir.View) -> FloatArray:
        return np.asarray(self._parameters[view.variable]).reshape(-1)[elements_of(view, {})].reshape(view.shape)
