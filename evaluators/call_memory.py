"""RAM that products take besides their variables where inner loops are written for speed, counted for whole batches.

What lies under windows of a convolution is copied (`codegen.emit.copied_windows`), and sums that calls for all rows do not divide
themselves wait for it (`codegen.emit.blocks`).
"""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.blocks import lies_in_one_run
from kilotune.codegen.emit.row_layout import channels_lie_beside, filters_lie_beside, rows_of_matrices
from kilotune.codegen.emit.schedule import Convolution, DenseProduct, in_order, schedule_product
from kilotune.codegen.emit.shape import CodeShape
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.emit.unrolled import divisor
from kilotune.codegen.fixed.table import Column
from kilotune.evaluators.cost_collector import Collector
from kilotune.evaluators.cost_rows import takes_rows, writes_results
from kilotune.evaluators.cost_variables import CountedVariables

_WORD_BYTES = 4


class CallMemory:
    """The scratch arrays of one program's products. `storage`: of 16 bits, since only places in it are asked for."""

    def __init__(self, variables: CountedVariables, storage: VariableStorage, shape: CodeShape) -> None:
        self._variables, self._storage, self._shape = variables, storage, shape

    def scratch_bytes(self, c: Collector, row: int, operation: ir.Operation) -> IntArray:
        """Bytes that an operation takes besides, at most, by candidate."""
        schedule = schedule_product(operation, self._storage) if isinstance(operation, ir.MatMul | ir.Conv2D) else None
        if isinstance(operation, ir.MatMul) and isinstance(schedule, DenseProduct) and schedule.beside:
            return self._of_matrices(c, row, operation)
        if isinstance(operation, ir.Conv2D) and isinstance(schedule, Convolution):
            return self._of_windows(c, row, operation, schedule)
        return np.zeros(len(c), dtype=np.int64)

    def _of_matrices(self, c: Collector, row: int, operation: ir.MatMul) -> IntArray:
        """Sums of all rows, where they are not written one beside the other."""
        number = rows_of_matrices(self._storage, operation)
        if number is None:
            return np.zeros(len(c), dtype=np.int64)
        taken = takes_rows(
            c, row, self._shape, (self._variables.operand(operation.a), self._variables.operand(operation.b))
        )
        written = writes_results(c, row, operation, taken) & (operation.out.strides[number] == 1)
        return np.asarray((taken & ~written) * (_WORD_BYTES * operation.out.shape[number]), dtype=np.int64)

    def _of_windows(self, c: Collector, row: int, operation: ir.Conv2D, schedule: Convolution) -> IntArray:
        """Windows, but for those that are one run of the image, and sums of all filters at one place or two."""
        image, weights = self._variables.operand(operation.a), self._variables.operand(operation.b)
        bits, called = c.bits(image, row, 0), takes_rows(c, row, self._shape, (image, weights))
        filters, beside = operation.b.shape[4], schedule.beside and filters_lie_beside(self._storage, operation)
        places = min(self._shape.places, operation.out.shape[2])
        in_the_image = lies_in_one_run(operation, schedule) and places == 1
        by_rows = called & bool(beside)
        found = by_rows * (0 if in_the_image else _whole_words(places * operation.taps * bits))
        waiting = by_rows & ~writes_results(c, row, operation, by_rows)
        found = found + waiting * (_WORD_BYTES * places * filters)
        short = bool(beside and self._shape.unroll and not divisor(self._shape.unroll, operation.b.shape[3]))
        stepped = in_order(c.column(row, Column.HALVINGS)) & ~by_rows & ~c.is_packed(weights) & short
        if not lies_in_one_run(operation, schedule):
            found = np.where(stepped, _whole_words(operation.taps * bits), found)
        padded = any(axis.checks for axis in schedule.axes)
        alone = called & ~by_rows & (padded and channels_lie_beside(self._storage, operation))
        return np.asarray(
            np.where(alone, _whole_words(operation.taps * operation.groups * bits), found), dtype=np.int64
        )


def _whole_words(bits: IntArray) -> IntArray:
    """Bytes of the words that hold so many bits."""
    return np.asarray(-(-bits // (8 * _WORD_BYTES)) * _WORD_BYTES, dtype=np.int64)
