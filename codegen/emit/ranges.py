"""What integers can become: intervals that hold for every input, and the sums that they show to fit 16 bits.

Weights are known when the C is written, so a sum of products is bounded by its weights and by the interval of what they
meet. A sum modulo 2**32 whose final value lies in 16 bits is the same modulo 2**16, whatever happens on the way, and an 8-bit
processor adds at half the cost. Intervals come from widths, from tables of functions and from the operations between;
storage that is written in several places, or in parts, may hold anything of its width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar, assert_never

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.context import OperationRow
from kilotune.codegen.emit.intervals import Interval, Intervals
from kilotune.codegen.emit.pointwise import constants_of
from kilotune.codegen.emit.schedule import in_order, scales_terms
from kilotune.codegen.fixed.arithmetic import scale_down
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.straight_line import elements_of

NARROW_BITS = 16

NumberT = TypeVar("NumberT", bound=np.generic)


def intervals(batch: FixedBatch, parameters: Mapping[str, FloatArray]) -> dict[str, Interval]:
    """The stored integers of every variable of the only candidate."""
    return _Analysis(batch, parameters).run()[0]


def narrow_sums(
    batch: FixedBatch, parameters: Mapping[str, FloatArray], shifts: Mapping[str, int] = MappingProxyType({})
) -> frozenset[int]:
    """Rows of MatMul and Conv2D whose sums of 32 bits fit NARROW_BITS for every input.

    `shifts`: by how many bits parameters are stored divided (`preshift`).
    """
    return _Analysis(batch, parameters, shifts).run()[1]


def largest_sums(batch: FixedBatch, parameters: Mapping[str, FloatArray]) -> dict[int, int]:
    """By row of a quantised program: how large in magnitude a sum of products can be, with its bias."""
    analysis, found = _Analysis(batch, parameters), {}
    analysis.run()
    for number, operation in enumerate(ir.operations(batch.program.body)):
        if isinstance(operation, ir.Product) and operation.completion is not None:
            total = analysis.interval_of_sum(operation)
            biases = operation.completion.biases if isinstance(operation.completion, ir.Requantisation) else (0,)
            found[number] = max(abs(total.low), abs(total.high)) + max(map(abs, biases))
    return found


def known_weights(
    operation: ir.Product,
    is_known: Callable[[ir.View], bool],
    values: Callable[[ir.View], npt.NDArray[NumberT]],
) -> tuple[npt.NDArray[NumberT], Column] | None:
    """The weights [sums, taps] of a sum of products whose one operand is known, and the column of that operand's shift.

    None where neither is.
    """
    if isinstance(operation, ir.MatMul) and is_known(operation.a):
        return values(operation.a), Column.SHIFT_A
    if is_known(operation.b):
        return operation.weights_of_sums(values(operation.b)), Column.SHIFT_B
    return None


class _Analysis:
    def __init__(
        self, batch: FixedBatch, parameters: Mapping[str, FloatArray], shifts: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.batch, self.program = batch, batch.program
        self.held: dict[str, Interval] = {}
        self.whole: dict[str, IntArray] = {}
        self.bits = {v.name: int(b) for v, b in zip(self.program.variables, batch.bits[0], strict=True)}
        for column, variable in enumerate(self.program.variables):
            if variable.role is ir.Role.PARAMETER:
                values = batch.integers(0, column, parameters[variable.name]).reshape(-1)
                values = scale_down(values, shifts.get(variable.name, 0), batch.rounding)
                self.whole[variable.name] = values
                self.held[variable.name] = Interval(int(values.min()), int(values.max()))
        self.writers = Counter(operation.out.variable for operation in ir.operations(self.program.body))

    def run(self) -> tuple[dict[str, Interval], frozenset[int]]:
        """Intervals by variable, and rows of narrow sums."""
        narrow = set()
        for number, operation in enumerate(ir.operations(self.program.body)):
            row = OperationRow(number, self.batch.rows[0, number])
            out = operation.out
            if isinstance(operation, ir.Product) and self._plain(row):
                total = self.interval_of_sum(operation)
                if total.fits(NARROW_BITS) and row[Column.ACC_BITS] == 32:
                    narrow.add(number)
            alone = self.writers[out.variable] == 1 and out.size == self.program.variable(out.variable).size
            if alone and operation.out.variable not in ir.label_variables(self.program):
                found = self._result(operation, row)
                if found is not None and found.fits(row[Column.BITS]):
                    self.held[out.variable] = found
        everything = {v.name: self._of(v.name) for v in self.program.variables}
        return everything, frozenset(narrow)

    def _of(self, name: str) -> Interval:
        return self.held.get(name, Interval.of_width(self.bits[name]))

    def _plain(self, row: OperationRow) -> bool:
        """Whether the row sums whole products modulo a power of two."""
        shifts = [row[column] for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)]
        return bool(in_order(row[Column.HALVINGS]) & ~scales_terms(*shifts))

    def _result(self, operation: ir.Operation, row: OperationRow) -> Interval | None:
        """What the operation writes before it wraps; None where nothing is known."""
        found: Interval | None
        match operation:
            case ir.MaxPool(a=a):
                found = self._of(a.variable)
            case ir.Pointwise(a=a):
                intervals = Intervals(self.batch.rounding, row[Column.ACC_BITS])
                found = operation.integer(intervals, self._of(a.variable), constants_of(row))
            case ir.TableFunction():
                found = self._function(operation, row)
            case (
                ir.MatMul(completion=ir.Requantisation() | ir.Averaging() as c)
                | ir.Conv2D(completion=ir.Requantisation() | ir.Averaging() as c)
            ):
                return Interval(c.least, c.most)
            case ir.QuantisedElements() | ir.QuantisedSoftmax():
                return None
            case ir.MatMul() | ir.Conv2D():
                found = self.interval_of_sum(operation) if self._plain(row) else None
                found = found if found is not None and found.fits(row[Column.ACC_BITS]) else None
            case ir.Fill() | ir.Add() | ir.Subtract() | ir.Multiply() | ir.Select() | ir.NormaliseL2():
                found = None
            case ir.ArgMax() | ir.Sign():
                found = None
            case _:
                assert_never(operation)
        return None if found is None else found.down(row[Column.SHIFT_OUT], self.batch.rounding)

    def _function(self, operation: ir.TableFunction, row: OperationRow) -> Interval | None:
        table = self.batch.functions[row[Column.FUNCTION]]
        limits = operation.limits(table.scale)
        if limits is not None:
            return Interval(*limits)
        largest = [max(map(abs, array)) for array in table.stored_arrays(self.batch.rounding)]
        if len(largest) == 1:
            return Interval(-largest[0], largest[0])
        product = Interval(-largest[0] * largest[1], largest[0] * largest[1])
        return product.down(table.product_shift, self.batch.rounding) if product.fits(table.product_bits) else None

    def interval_of_sum(self, operation: ir.Product) -> Interval:
        """The interval of a whole sum: by its weights where one operand is a parameter, read whole, by magnitudes otherwise."""
        known = known_weights(operation, self._constant, self._elements)
        if known is not None:
            weights, column = known
            met = operation.b if column is Column.SHIFT_A else operation.a
            outside = operation.outside if isinstance(operation, ir.Conv2D) else 0
            return self._weighted(weights, self._of(met.variable), outside)
        a, b, length = operation.a, operation.b, operation.taps
        left, right = self._of(a.variable), self._of(b.variable)
        ends = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
        return Interval(length * min(*ends, 0), length * max(*ends, 0))

    def _constant(self, view: ir.View) -> bool:
        return view.variable in self.whole and not view.offset.terms

    def _elements(self, view: ir.View) -> IntArray:
        return self.whole[view.variable][elements_of(view, {})].reshape(view.shape)

    def _weighted(self, weights: IntArray, met: Interval, outside: int) -> Interval:
        """The interval of sums of rows of weights times anything in `met`; a padded place counts as `outside`."""
        low, high = min(met.low, outside), max(met.high, outside)
        highest = np.where(weights > 0, weights * high, weights * low).sum(axis=1)
        lowest = np.where(weights > 0, weights * low, weights * high).sum(axis=1)
        return Interval(int(lowest.min()), int(highest.max()))
