"""SeeDot's lowering: one bitwidth B and one maxscale P for the whole program (Figure 3, Algorithms 1 and 2).

Every scale but those of parameters and inputs follows from P. Two things that the paper leaves open are settled here:
storage that is written in more than one place (the hidden state of a recurrence) keeps the scale of its profiled
extreme, and sigmoid and tanh use the tables of Shiftry Section 5.4.1 (SeeDot's core language has only exp).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import MAX_SHIFT, Accumulator, Rounding, exponent, get_scale, quantise_number
from kilotune.codegen.fixed.exponential import Exponential, mul_scale, seedot_exponential, shiftry_exponential
from kilotune.codegen.fixed.table import Column, FixedBatch, constant_columns, unencoded


@dataclass(frozen=True)
class SeeDotParameters:
    """The five parameters of Section 5.3.2 but for (m, M), which `exponent_ranges` of the lowering holds."""

    bits: int
    maxscale: int
    table_index_bits: int = 6


@dataclass(frozen=True)
class SeeDotLowering:
    """Compiles a program under SeeDot parameters.

    `magnitudes`: largest absolute value by variable, of the parameters, the input, and (for storage that several
    operations write) the float profile.
    """

    program: ir.Program
    magnitudes: Mapping[str, float]
    rounding: Rounding = Rounding.TOWARD_ZERO
    accumulator: Accumulator = Accumulator.DOUBLE

    def lower(self, choice: SeeDotParameters, exponent_ranges: Mapping[int, tuple[float, float]]) -> FixedBatch:
        """Lower one candidate; `exponent_ranges` holds (m, M) as reals by row of each Exp. ValueError for a quantised program."""
        ir.check_formats_open(self.program)
        return _SeeDotCandidate(self, choice, exponent_ranges).run()


def add_scale(scale: int, maxscale: int) -> tuple[int, int]:
    """Algorithm 1, AddScale: (scale of the sum, shift of both operands)."""
    return (scale, 0) if scale - 1 <= maxscale else (scale - 1, 1)


def tree_sum_scale(scale: int, count: int, maxscale: int) -> tuple[int, int]:
    """Algorithm 1, TreeSumScale: (scale of the sum of `count` terms, halvings)."""
    halvings = (count - 1).bit_length()
    if scale - halvings <= maxscale:
        halvings = max(halvings - (maxscale - (scale - halvings)), 0)
    return scale - halvings, halvings


class _SeeDotCandidate:
    """One candidate while it is lowered."""

    def __init__(
        self, rules: SeeDotLowering, choice: SeeDotParameters, exponent_ranges: Mapping[int, tuple[float, float]]
    ) -> None:
        self.rules = rules
        self.choice = choice
        self.exponent_ranges = exponent_ranges
        self.operations = tuple(ir.operations(rules.program.body))
        self.trip_counts = [times for _, times in ir.executions(rules.program.body)]
        self.rows = np.zeros((len(self.operations), len(Column)), dtype=np.int64)
        self.functions: list[Exponential] = []
        writers = Counter(operation.out.variable for operation in self.operations)
        self.scales: dict[str, int] = {}
        self.pinned: set[str] = set()
        for variable in rules.program.variables:
            if variable.role is not ir.Role.TEMPORARY:
                self.scales[variable.name] = get_scale(rules.magnitudes[variable.name], choice.bits)
            elif writers[variable.name] > 1 and variable.name not in self._sums:
                self.scales[variable.name] = get_scale(rules.magnitudes[variable.name], choice.bits)
                self.pinned.add(variable.name)

    def run(self) -> FixedBatch:
        bits = self.choice.bits
        for row, operation in enumerate(self.operations):
            self.rows[row, Column.BITS] = bits
            self.rows[row, Column.ACC_BITS] = bits
            self.rows[row, Column.HALVINGS] = -1
            self._lower(row, operation)
        self.rows[:, Column.SHIFT_A : Column.SHIFT_OUT + 1] = np.clip(
            self.rows[:, Column.SHIFT_A : Column.SHIFT_OUT + 1], -MAX_SHIFT, MAX_SHIFT
        )
        names = [v.name for v in self.rules.program.variables]
        return FixedBatch(
            self.rules.program,
            self.rules.rounding,
            np.full((1, len(names)), bits, dtype=np.int32),
            np.array([[self.scales.get(name, 0) for name in names]], dtype=np.int32),
            self.rows[None].astype(np.int32),
            tuple(self.functions),
            unencoded((1, len(names))),
        )

    @cached_property
    def _sums(self) -> set[str]:
        """Variables that are only filled with zero and then added to: the sums `$` of loops."""
        writers: dict[str, list[ir.Operation]] = {}
        for operation in self.operations:
            writers.setdefault(operation.out.variable, []).append(operation)
        return {
            name
            for name, written in writers.items()
            if len(written) == 2
            and isinstance(written[0], ir.Fill)
            and written[0].value == 0.0
            and isinstance(written[1], ir.Add)
            and written[1].a == written[1].out
        }

    def _lower(self, row: int, operation: ir.Operation) -> None:
        out = operation.out.variable
        if isinstance(operation, ir.RealElements):
            self._lower_elements(row, out, operation)
            return
        match operation:
            case ir.MatMul(a=a, b=b):
                self._dot(row, out, a, b, operation.taps, operation.sparse)
            case ir.Conv2D(a=a, b=b):
                self._dot(row, out, a, b, operation.taps, False)
            case ir.MaxPool(a=a):
                self._settle(row, out, self._scale(a))
            case ir.NormaliseL2():
                length = exponent(float(operation.length))
                self._set(row, Column.SHIFT_A, max(self.choice.bits - 1 - (31 - length) // 2, 0))
                scale = min(self.choice.bits, 16) - 2
                self._set(row, Column.SHIFT_B, scale)
                self._settle(row, out, scale)
            case ir.ArgMax():
                self._set(row, Column.BITS, 16)
            case ir.QuantisedElements() | ir.QuantisedSoftmax():
                raise AssertionError("a quantised program has no formats to decide")
            case _:
                assert_never(operation)

    def _lower_elements(self, row: int, out: str, operation: ir.RealElements) -> None:
        match operation:
            case ir.Add(b=b) if out in self._sums:
                scale, halvings = tree_sum_scale(self._scale(b), self.trip_counts[row], self.choice.maxscale)
                self.scales[out] = scale
                self._set(row, Column.SHIFT_B, halvings)
                self._constant(row, Column.CONSTANT_B, b, scale)
            case ir.Add(a=a, b=b) | ir.Subtract(a=a, b=b):
                self._sum(row, out, a, b, add_scale(min(self._scale(a), self._scale(b)), self.choice.maxscale))
            case ir.Select(a=a, b=b):
                self._sum(row, out, a, b, (min(self._scale(a), self._scale(b)), 0))
            case ir.Multiply(a=a, b=b):
                self._settle(row, out, self._product(row, a, b))
            case ir.Pointwise(a=a):
                for column, value in constant_columns(operation.constants(self.choice.bits, self._scale(a))):
                    self._set(row, column, int(value))
                self._settle(row, out, self._scale(a))
            case ir.TableFunction():
                self._look_up(row, out, operation)
            case ir.Fill(value=value):
                self._fill(row, out, value)
            case ir.Sign():
                self._set(row, Column.BITS, 16)
            case _:
                assert_never(operation)

    def _sum(self, row: int, out: str, a: ir.Operand, b: ir.Operand, result: tuple[int, int]) -> None:
        """Both operands at the smaller of their scales; `result`: scale of the result, and by how much more both are divided."""
        smaller = min(self._scale(a), self._scale(b))
        scale, shift = result
        self._set(row, Column.SHIFT_A, self._scale(a) - smaller + shift)
        self._set(row, Column.SHIFT_B, self._scale(b) - smaller + shift)
        self._constant(row, Column.CONSTANT_A, a, scale)
        self._constant(row, Column.CONSTANT_B, b, scale)
        self._settle(row, out, scale)

    def _fill(self, row: int, out: str, value: float) -> None:
        if out not in self.pinned and out not in self._sums:
            self._settle(row, out, self._literal_scale(value))
        self._set(row, Column.CONSTANT_A, quantise_number(value, self.choice.bits, self.scales.get(out, 0)))

    def _look_up(self, row: int, out: str, operation: ir.TableFunction) -> None:
        scale = self._scale(operation.a)
        if isinstance(operation, ir.Exp):
            low, high = self.exponent_ranges[row]
            table = seedot_exponential(
                self.choice.bits, self.choice.maxscale, scale, low, high, self.choice.table_index_bits
            )
            self._function(row, out, table, 0)
        else:
            table = shiftry_exponential(min(self.choice.bits, 16))
            self._function(row, out, table, scale - table.input_scale - operation.doubling)

    def _set(self, row: int, column: Column, value: int) -> None:
        self.rows[row, column] = value

    def _literal_scale(self, value: float) -> int:
        return get_scale(abs(value), self.choice.bits)

    def _scale(self, operand: ir.Operand) -> int:
        if isinstance(operand, ir.Literal):
            return self._literal_scale(operand.value)
        return self.scales[operand.variable]

    def _constant(self, row: int, column: Column, operand: ir.Operand, scale: int) -> None:
        if isinstance(operand, ir.Literal):
            self._set(row, column, quantise_number(operand.value, self.choice.bits, scale))

    def _settle(self, row: int, out: str, natural: int) -> None:
        if out in self.pinned:
            self._set(row, Column.SHIFT_OUT, natural - self.scales[out])
        else:
            self.scales[out] = natural

    def _product(self, row: int, a: ir.Operand, b: ir.Operand) -> int:
        """Rule for the product's scale; literals are quantised already shifted down."""
        scale_a, scale_b = self._scale(a), self._scale(b)
        scale, shift_a, shift_b = mul_scale(scale_a, scale_b, self.choice.bits, self.choice.maxscale)
        self._set(row, Column.SHIFT_A, shift_a)
        self._set(row, Column.SHIFT_B, shift_b)
        self._constant(row, Column.CONSTANT_A, a, scale_a - shift_a)
        self._constant(row, Column.CONSTANT_B, b, scale_b - shift_b)
        return scale

    def _dot(self, row: int, out: str, a: ir.View, b: ir.View, length: int, sparse: bool) -> None:
        scale, halvings = tree_sum_scale(self._product(row, a, b), length, self.choice.maxscale)
        self._set(row, Column.SHIFT_TERM if sparse else Column.HALVINGS, halvings)
        wide = {Accumulator.NARROW: 16, Accumulator.WIDE: 32}.get(self.rules.accumulator, 0)
        if wide > self.choice.bits:
            # the whole product is kept and then divided at once (the paper's footnote 3): no operand loses bits
            shifts = [Column.SHIFT_A, Column.SHIFT_B]
            self._set(row, Column.SHIFT_TERM, int(self.rows[row, Column.SHIFT_TERM] + self.rows[row, shifts].sum()))
            self.rows[row, shifts] = 0
            self._set(row, Column.ACC_BITS, wide)
        self._settle(row, out, scale)

    def _function(self, row: int, out: str, table: Exponential, shift: int) -> None:
        if table not in self.functions:
            self.functions.append(table)
        self._set(row, Column.FUNCTION, self.functions.index(table))
        self._set(row, Column.SHIFT_A, max(shift, -15))
        self._settle(row, out, table.scale)
