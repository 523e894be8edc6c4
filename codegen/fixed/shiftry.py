"""Shiftry's lowering: a bitwidth and a scale for every variable (Figure 5, Libraries 6-9, Section 5.4).

The rules keep the natural scale of a result (the sum of the operands' scales for a product, the smaller one for a
sum) where it is not above the scale asked for, since scaling up would add no precision; a variable's effective scale
is therefore the smaller of the two. Storage that is written in more than one place (the hidden state of a recurrence,
the sum of a loop) must keep one scale, the one asked for, and is scaled up where a writer's natural scale is lower.

Beyond the paper, variables may have 32 bits. No product and no sum is wider: of a factor of 32 bits as many of the upper ones count as
the other factor leaves, and a sum of 32 bits has the scale of its finer operand, since there is room for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array, IntArray
from kilotune.codegen.fixed.arithmetic import MAX_SHIFT, Accumulator, Rounding, exponent, quantise_number
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.exponential import SHIFTRY_INPUT_SCALE, Exponential, shiftry_exponential
from kilotune.codegen.fixed.known_rows import KnownRows, VariableFormats, packed_formats, reached_formats
from kilotune.codegen.fixed.table import Column, FixedBatch, constant_columns, unencoded


@dataclass(frozen=True)
class ShiftryLowering:
    """Compiles batches of bitwidth and scale assignments of one program.

    `largest_exponents`: by row of each Exp, the largest argument that the profile saw (0 where all are negative).
    """

    program: ir.Program
    largest_exponents: Mapping[int, float]
    rounding: Rounding = Rounding.TOWARD_ZERO
    accumulator: Accumulator = Accumulator.DOUBLE

    @cached_property
    def _formats_open(self) -> bool:
        return not ir.is_quantised(self.program)

    @cached_property
    def index(self) -> dict[str, int]:
        """Columns of the variables."""
        return {v.name: i for i, v in enumerate(self.program.variables)}

    @cached_property
    def operations(self) -> tuple[ir.Operation, ...]:
        """All operations, in the order of their rows."""
        return tuple(ir.operations(self.program.body))

    @cached_property
    def pinned(self) -> frozenset[str]:
        """Variables that are written in more than one place."""
        writers = Counter(operation.out.variable for operation in self.operations)
        return frozenset(name for name, count in writers.items() if count > 1)

    @cached_property
    def read_once(self) -> frozenset[str]:
        """Parameters that are read in one place."""
        operands = (operand for operation in self.operations for operand in operation.operands)
        readers = Counter(operand.variable for operand in operands if isinstance(operand, ir.View))
        parameters = (v.name for v in self.program.variables if v.role is ir.Role.PARAMETER)
        return frozenset(name for name in parameters if readers[name] == 1)

    @cached_property
    def functions(self) -> tuple[Exponential, ...]:
        """The exponentials that operations may compute with, whatever the widths of their arguments."""
        largest = (
            self.largest_exponent(row) for row, o in enumerate(self.operations) if isinstance(o, ir.TableFunction)
        )
        return tuple(dict.fromkeys(shiftry_exponential(width, one) for one in largest for width in SHIFTRY_INPUT_SCALE))

    def largest_exponent(self, row: int) -> float:
        """The largest argument of an operation that computes an exponential; 0 where none is positive."""
        return self.largest_exponents.get(row, 0.0) if isinstance(self.operations[row], ir.Exp) else 0.0

    @cached_property
    def _known_rows(self) -> KnownRows:
        views = [[v for v in (*o.operands, o.out) if isinstance(v, ir.View)] for o in self.operations]
        touched = [list(dict.fromkeys(self.index[view.variable] for view in of_one)) for of_one in views]
        return KnownRows(len(self.index), len(Column), touched, self.lower_operation)

    def lower_operation(self, row: int, formats: VariableFormats, sum_bits: IntArray) -> tuple[Int32Array, IntArray]:
        """The rows [N, columns] of one operation, and the scales [N, variables] after it; `sum_bits` [N] as in `lower`."""
        return _OneOperation(self, row, formats, sum_bits).run()

    def lower(
        self,
        bits: npt.ArrayLike,
        scales: npt.ArrayLike,
        encoded: Int32Array | None = None,
        encodings: tuple[ParameterEncoding, ...] = (),
        sum_bits: IntArray | None = None,
    ) -> FixedBatch:
        """Lower N candidates: `bits` (8, 16 or 32) and wanted `scales` [N, variables] in the order of `program.variables`.

        `sum_bits` [N, operations]: the width of the sums of single matrix products and convolutions, 16 or 32, and 0 for the one that
        `accumulator` says; of other operations nothing. `encoded` and `encodings` as in `FixedBatch`: they are stored, and nothing else
        depends on them. ValueError for one whose integers do not fit the width of its parameter, for one bit of a sparse matrix, and for
        a quantised program.
        """
        widths, wanted = np.array(bits, dtype=np.int64), np.array(scales, dtype=np.int64)
        formats = packed_formats(VariableFormats(widths, wanted, wanted)).tolist()
        return self.lower_formats(formats, encoded, encodings, sum_bits)

    def lower_formats(
        self,
        formats: list[list[int]],
        encoded: Int32Array | None = None,
        encodings: tuple[ParameterEncoding, ...] = (),
        sum_bits: IntArray | None = None,
    ) -> FixedBatch:
        """As `lower`, of candidates' formats [N, variables], numbers as of `packed_formats`, which are changed in place."""
        if not self._formats_open:
            ir.check_formats_open(self.program)
        rows, numbers = self._known_rows.lowered(formats, sum_bits)
        bits, scales = reached_formats(numbers)
        batch = FixedBatch(self.program, self.rounding, bits, scales, rows, self.functions, unencoded(bits.shape))
        if encoded is None or not encodings:
            return batch
        needed = np.array([encoding.integer_bits for encoding in encodings])[np.maximum(encoded, 0)]
        if (needed > batch.bits).any(where=encoded >= 0):
            raise ValueError("an encoding's integers need more bits than its parameter is computed with")
        binary = np.array([encoding.width == 1 for encoding in encodings])[np.maximum(encoded, 0)] & (encoded >= 0)
        if binary[:, [variable.sparse for variable in self.program.variables]].any():
            raise ValueError("a sparse matrix has zeros, and codes of one bit have none")
        return replace(batch, encoded=encoded, encodings=encodings)


class _OneOperation:
    """An operation of several candidates while it is lowered. Columns of `bits` and `scales` are variables; `scales` become effective."""

    def __init__(self, rules: ShiftryLowering, row: int, formats: VariableFormats, sum_bits: IntArray) -> None:
        self.rules, self.row, self.sum_bits = rules, row, sum_bits
        self.bits, self.wanted = formats.bits, formats.wanted
        self.scales = formats.scales.copy()
        self.index, self.operation = rules.index, rules.operations[row]
        self.pinned, self.read_once = rules.pinned, rules.read_once
        self.columns = np.zeros((len(formats.bits), len(Column)), dtype=np.int64)

    def run(self) -> tuple[Int32Array, IntArray]:
        self._set(Column.BITS, self._bits_of(self.operation.out.variable))
        self._set(Column.HALVINGS, -1)
        self._lower(self.operation)
        shifts = self.columns[:, Column.SHIFT_A : Column.SHIFT_OUT + 1]
        np.maximum(np.minimum(shifts, MAX_SHIFT, out=shifts), -MAX_SHIFT, out=shifts)  # a third of the time of np.clip
        return self.columns.astype(np.int32), self.scales

    def _lower(self, operation: ir.Operation) -> None:
        out = operation.out.variable
        if isinstance(operation, ir.RealElements):
            self._lower_elements(out, operation)
            return
        match operation:
            case ir.MatMul(a=a, b=b) | ir.Conv2D(a=a, b=b):
                self._make_room(out, a, b)
                self._product(out, a, b)
            case ir.MaxPool(a=a):
                self._move(out, a)
            case ir.NormaliseL2():
                self._normalise(operation)
            case ir.ArgMax():
                self.columns[:, Column.BITS] = 16
            case ir.QuantisedElements() | ir.QuantisedSoftmax():
                raise AssertionError("a quantised program has no formats to decide")
            case _:
                assert_never(operation)

    def _lower_elements(self, out: str, operation: ir.RealElements) -> None:
        match operation:
            case ir.Add(a=a, b=b) | ir.Subtract(a=a, b=b) | ir.Select(a=a, b=b):
                self._sum(out, a, b)
            case ir.Multiply(a=a, b=b):
                self._product(out, a, b)
            case ir.Pointwise(a=a):
                self._move(out, a)
                bits, scale = self._operand(a, a, out)
                for column, values in constant_columns(operation.constants(bits, scale)):
                    self._set(column, values)
            case ir.TableFunction(a=a):
                self._function(out, a, operation.doubling)
            case ir.Fill(value=value):
                wanted = self.scales[:, self.index[out]]
                if out not in self.pinned and value != 0.0:
                    self._settle(out, self._literal_scale(value, self._bits_of(out)))
                self.columns[:, Column.CONSTANT_A] = _quantise_each(value, self._bits_of(out), wanted)
            case ir.Sign():
                self.columns[:, Column.BITS] = 16
            case _:
                assert_never(operation)

    @cached_property
    def _has_wide(self) -> bool:
        """Whether any variable of a candidate has more than 16 bits."""
        return int(self.bits.max(initial=0)) > 16

    def _bits_of(self, name: str) -> IntArray:
        return self.bits[:, self.index[name]]

    def _literal_scale(self, value: float, bits: IntArray) -> IntArray:
        return bits - 1 - exponent(abs(value))

    def _operand(self, operand: ir.Operand, other: ir.Operand, out: str) -> tuple[IntArray, IntArray]:
        """(bits, scale) of an operand; a literal takes the bits of the operand that it meets, or else of the result."""
        if isinstance(operand, ir.View):
            column = self.index[operand.variable]
            return self.bits[:, column], self.scales[:, column]
        bits = self._bits_of(other.variable if isinstance(other, ir.View) else out)
        return bits, self._literal_scale(operand.value, bits)

    def _settle(self, name: str, natural: IntArray) -> IntArray:
        """The effective scale of a result whose natural scale is `natural`; recorded for its readers."""
        column = self.index[name]
        if name not in self.pinned:
            self.scales[:, column] = np.minimum(self.scales[:, column], natural)
        return self.scales[:, column]

    def _set(self, column: Column, values: IntArray | int) -> None:
        self.columns[:, column] = values

    def _sum(self, out: str, a: ir.Operand, b: ir.Operand) -> None:
        """Both operands are scaled before the addition, in the widest of the three widths."""
        bits_a, scale_a = self._operand(a, b, out)
        bits_b, scale_b = self._operand(b, a, out)
        bits = np.maximum(np.maximum(bits_a, bits_b), self._bits_of(out))
        least = np.minimum(scale_a, scale_b)
        if self._has_wide:
            wide = self._bits_of(out) > 16
            least = np.where(wide, np.minimum(self._room_above(a, bits), self._room_above(b, bits)), least)
        common = np.minimum(least, self.scales[:, self.index[out]])
        scale = self._settle(out, common)
        self._set(Column.ACC_BITS, bits)
        self._set(Column.SHIFT_OUT, common - scale)
        for operand, operand_scale, shift, constant in (
            (a, scale_a, Column.SHIFT_A, Column.CONSTANT_A),
            (b, scale_b, Column.SHIFT_B, Column.CONSTANT_B),
        ):
            if isinstance(operand, ir.Literal):
                self._set(constant, _quantise_each(operand.value, bits, common))
            else:
                self._set(shift, operand_scale - common)

    def _make_room(self, out: str, a: ir.View, b: ir.View) -> None:
        """Keep the sum of a dot product within the accumulator whenever the result, at its scale, fits its own width.

        A sum modulo 2**ACC_BITS is right when its final value fits, whatever happens on the way. A parameter that only
        this operation reads gives up the bits in excess before it is stored, which costs nothing at run time; where
        there is none, each product is shifted. Shiftry's examples never need it; its public tool halves partial sums.
        """
        bits_a, scale_a = self._factor(a, b, out, Column.SHIFT_A)
        bits_b, scale_b = self._factor(b, a, out, Column.SHIFT_B)
        room = self.scales[:, self.index[out]] + self._sum_bits(bits_a, bits_b, out) - self._bits_of(out)
        excess = np.maximum(scale_a + scale_b - room, 0)
        for operand in (b, a):
            if operand.variable in self.read_once:
                self.scales[:, self.index[operand.variable]] -= excess
                return
        self._set(Column.SHIFT_TERM, np.minimum(excess, MAX_SHIFT))

    def _digits(self, operand: ir.View) -> IntArray:
        """Bits that the integers of a variable do take: fewer than its own where its effective scale is below the one asked for."""
        column = self.index[operand.variable]
        lowered = np.maximum(self.wanted[:, column] - self.scales[:, column], 0)
        return np.asarray(np.maximum(self.bits[:, column] - lowered, 1))

    def _room_above(self, operand: ir.Operand, bits: IntArray) -> IntArray:
        """The highest scale at which an operand surely fits so many bits."""
        if isinstance(operand, ir.Literal):
            return self._literal_scale(operand.value, bits)
        return self.scales[:, self.index[operand.variable]] + bits - self._digits(operand)

    def _factor(self, operand: ir.Operand, other: ir.Operand, out: str, shift: Column) -> tuple[IntArray, IntArray]:
        """(bits, scale) of what of an operand is multiplied. A product has 32 bits, so an operand of 32 keeps as many of its own, the
        upper ones, as the other one leaves, at least 16."""
        bits, scale = self._operand(operand, other, out)
        if not self._has_wide:
            return bits, scale
        others, _ = self._operand(other, operand, out)
        digits = self._digits(operand) if isinstance(operand, ir.View) else bits
        lost = np.where(bits > 16, np.maximum(digits + np.minimum(others, 16) - 32, 0), 0)
        self._set(shift, lost)
        return bits - lost, scale - lost

    def _product_bits(self, bits_a: IntArray, bits_b: IntArray, out: str) -> IntArray:
        double: IntArray = np.minimum(np.maximum(2 * np.maximum(bits_a, bits_b), self._bits_of(out)), 32)
        return np.maximum(double, 32) if self.rules.accumulator is Accumulator.WIDE else double

    def _sum_bits(self, bits_a: IntArray, bits_b: IntArray, out: str) -> IntArray:
        usual = self._product_bits(bits_a, bits_b, out)
        if self.rules.accumulator is Accumulator.NARROW:
            usual = np.full_like(usual, 16)
        return np.where(self.sum_bits > 0, self.sum_bits, usual)

    def _product(self, out: str, a: ir.Operand, b: ir.Operand) -> None:
        bits_a, scale_a = self._factor(a, b, out, Column.SHIFT_A)
        bits_b, scale_b = self._factor(b, a, out, Column.SHIFT_B)
        natural = scale_a + scale_b - self.columns[:, Column.SHIFT_TERM]
        summed = isinstance(self.operation, ir.MatMul | ir.Conv2D)
        accumulated = self._sum_bits(bits_a, bits_b, out) if summed else self._product_bits(bits_a, bits_b, out)
        self._set(Column.ACC_BITS, accumulated)
        self._set(Column.SHIFT_OUT, natural - self._settle(out, natural))
        for operand, bits, scale, constant in (
            (a, bits_a, scale_a, Column.CONSTANT_A),
            (b, bits_b, scale_b, Column.CONSTANT_B),
        ):
            if isinstance(operand, ir.Literal):
                self._set(constant, _quantise_each(operand.value, bits, scale))

    def _move(self, out: str, a: ir.View) -> None:
        """An element that keeps its scale."""
        bits, natural = self._operand(a, a, out)
        natural = natural.copy()
        self._set(Column.ACC_BITS, np.maximum(bits, self._bits_of(out)))
        self._set(Column.SHIFT_OUT, natural - self._settle(out, natural))

    def _function(self, out: str, a: ir.View, doubling: int) -> None:
        """The argument's bitwidth chooses the table, and the table fixes both scales (Section 5.4)."""
        bits, scale = self._operand(a, a, out)
        natural = np.zeros_like(scale)
        input_scale = np.zeros_like(scale)
        for width in SHIFTRY_INPUT_SCALE:
            table = shiftry_exponential(width, self.rules.largest_exponent(self.row))
            chosen = np.minimum(bits, max(SHIFTRY_INPUT_SCALE)) == width
            natural[chosen] = table.scale
            input_scale[chosen] = table.input_scale
            self.columns[chosen, Column.FUNCTION] = self.rules.functions.index(table)
        # beyond 15 places every non-zero argument is clamped to an end of the table anyway
        self._set(Column.SHIFT_A, np.maximum(scale - input_scale - doubling, -15))
        self._set(Column.SHIFT_OUT, natural - self._settle(out, natural))

    def _normalise(self, operation: ir.NormaliseL2) -> None:
        """The sum of squares of a row must fit 31 bits; the quotient is at most 1."""
        a, out = operation.a, operation.out.variable
        bits, _ = self._operand(a, a, out)
        self._set(Column.SHIFT_A, np.maximum(bits - 1 - (31 - exponent(float(operation.length))) // 2, 0))
        natural = np.minimum(bits, 16) - 2
        self._set(Column.SHIFT_B, natural)
        self._set(Column.SHIFT_OUT, natural - self._settle(out, natural))


def _quantise_each(value: float, bits: IntArray, scales: IntArray) -> IntArray:
    """`value` quantised for every candidate's own width and scale."""
    formats = list(zip(bits.tolist(), scales.tolist(), strict=True))
    found = {one: quantise_number(value, *one) for one in set(formats)}
    return np.array([found[one] for one in formats], dtype=bits.dtype)
