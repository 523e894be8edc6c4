"""What integers can become: intervals that hold for every input, and the sums that they show to fit 16 bits.

Weights are known when the C is written, so a sum of products is bounded by its weights and by the interval of what they
meet. A sum modulo 2**32 whose final value lies in 16 bits is the same modulo 2**16, whatever happens on the way, and an 8-bit
processor adds at half the cost. Intervals come from widths, from tables of functions and from the operations between;
storage that is written in several places, or in parts, may hold anything of its width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Row
from kilotune.codegen.fixed.arithmetic import FloatArray, IntArray, Rounding, quantise, scale_down
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.straight_line import elements_of

NARROW_BITS = 16


@dataclass(frozen=True)
class Interval:
    """All integers from low to high."""

    low: int
    high: int

    @staticmethod
    def of_width(bits: int) -> Interval:
        """Everything that so many bits hold."""
        return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def fits(self, bits: int) -> bool:
        """Whether it lies in so many bits."""
        whole = Interval.of_width(bits)
        return whole.low <= self.low and self.high <= whole.high

    def down(self, shift: int, rounding: Rounding) -> Interval:
        """The interval of `x / 2**shift`, which no rounding makes fall; a negative shift multiplies."""
        ends = scale_down(np.array([self.low, self.high], dtype=np.int64), shift, rounding)
        return Interval(int(ends[0]), int(ends[1]))


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


class _Analysis:
    def __init__(
        self, batch: FixedBatch, parameters: Mapping[str, FloatArray], shifts: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.batch, self.program = batch, batch.program
        self.held: dict[str, Interval] = {}
        self.whole: dict[str, IntArray] = {}
        self.bits = {v.name: int(b) for v, b in zip(self.program.variables, batch.bits[0], strict=True)}
        for variable, scale in zip(self.program.variables, batch.scales[0], strict=True):
            if variable.role is ir.Role.PARAMETER:
                values = quantise(parameters[variable.name], self.bits[variable.name], int(scale)).reshape(-1)
                values = scale_down(values, shifts.get(variable.name, 0), batch.rounding)
                self.whole[variable.name] = values
                self.held[variable.name] = Interval(int(values.min()), int(values.max()))
        self.writers = Counter(operation.out.variable for operation in ir.operations(self.program.body))

    def run(self) -> tuple[dict[str, Interval], frozenset[int]]:
        """Intervals by variable, and rows of narrow sums."""
        narrow = set()
        for number, operation in enumerate(ir.operations(self.program.body)):
            row = Row(number, self.batch.rows[0, number])
            out = operation.out
            if isinstance(operation, ir.MatMul | ir.Conv2D) and self._plain(row):
                total = self._sum(operation)
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

    def _plain(self, row: Row) -> bool:
        """Whether the row sums whole products modulo a power of two."""
        shifts = (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)
        return row[Column.HALVINGS] <= 0 and not any(row[column] for column in shifts)

    def _result(self, operation: ir.Operation, row: Row) -> Interval | None:
        """What the operation writes before it wraps; None where nothing is known."""
        rounding, shift = self.batch.rounding, row[Column.SHIFT_OUT]
        match operation:
            case ir.Copy(a=a) | ir.MaxPool(a=a):
                found = self._of(a.variable)
            case ir.Relu(a=a):
                held = self._of(a.variable)
                found = Interval(max(held.low, 0), max(held.high, 0))
            case ir.Exp() | ir.Sigmoid() | ir.Tanh():
                known = self._function(operation, row)
                if known is None:
                    return None
                found = known
            case ir.MatMul() | ir.Conv2D() if self._plain(row):
                found = self._sum(operation)
                if not found.fits(row[Column.ACC_BITS]):
                    return None
            case _:
                return None
        return found.down(shift, rounding)

    def _function(self, operation: ir.Operation, row: Row) -> Interval | None:
        table = self.batch.functions[row[Column.FUNCTION]]
        if not isinstance(operation, ir.Exp):
            one = 1 << table.scale
            return Interval(0 if isinstance(operation, ir.Sigmoid) else -one, one)
        largest = [max(map(abs, array)) for array in table.stored_arrays(self.batch.rounding)]
        if len(largest) == 1:
            return Interval(-largest[0], largest[0])
        product = Interval(-largest[0] * largest[1], largest[0] * largest[1])
        return product.down(table.product_shift, self.batch.rounding) if product.fits(table.product_bits) else None

    def _sum(self, operation: ir.MatMul | ir.Conv2D) -> Interval:
        """The interval of a whole sum: by its weights where one operand is a parameter, read whole, by magnitudes otherwise."""
        a, b = operation.a, operation.b
        length = a.shape[-1] if isinstance(operation, ir.MatMul) else ir.count_elements(b.shape[1:4])
        if isinstance(operation, ir.MatMul) and self._constant(a):
            return self._weighted(self._elements(a), self._of(b.variable))
        if self._constant(b):
            weights = self._elements(b)
            columns = weights.T if isinstance(operation, ir.MatMul) else np.moveaxis(weights, 4, 1)
            return self._weighted(columns.reshape(-1, length), self._of(a.variable))
        left, right = self._of(a.variable), self._of(b.variable)
        ends = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
        return Interval(length * min(*ends, 0), length * max(*ends, 0))

    def _constant(self, view: ir.View) -> bool:
        return view.variable in self.whole and not view.offset.terms

    def _elements(self, view: ir.View) -> IntArray:
        return self.whole[view.variable][elements_of(view, {})].reshape(view.shape)

    def _weighted(self, weights: IntArray, met: Interval) -> Interval:
        """The interval of sums of rows of weights times anything in `met`; a padded place counts as 0."""
        low, high = min(met.low, 0), max(met.high, 0)
        highest = np.where(weights > 0, weights * high, weights * low).sum(axis=1)
        lowest = np.where(weights > 0, weights * low, weights * high).sum(axis=1)
        return Interval(int(lowest.min()), int(highest.max()))
