"""Terms of a batch while they are counted: feature numbers by candidate, beside how often each is executed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import Int32Array, IntArray
from kilotune.codegen.emit.storage import LABEL_BITS
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.cost_features import (
    FREE,
    FUNCTIONS,
    ROUNDINGS,
    Terms,
    kind_position,
    length_position,
    number,
    packed_position,
    width_position,
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CountedOperand:
    """`column` of the variable in a batch's bits; -1 for a literal. `place`: position on the axis of places."""

    column: int
    place: int


@dataclass(frozen=True)
class Access:
    """How often an element is read or written, and whether by a walking pointer, which is set `pointers` times."""

    times: float
    walks: bool
    pointers: float = 0.0

    @property
    def reached(self) -> int:
        """Position on its axis."""
        return 0 if self.walks else 1


class Collector:
    """Terms while they are counted. `rows` [candidates, operations, columns]: those of the batch as they are emitted."""

    def __init__(self, batch: FixedBatch, rows: Int32Array, labels: list[int]) -> None:
        self._count = len(batch)
        self._rows = rows
        self._bits = batch.bits.astype(np.int64)
        self._bits[:, labels] = LABEL_BITS
        self._stored = batch.stored_bits
        self._packed = np.isin(self._stored, list(LAYOUTS)) & (batch.encoded >= 0)
        self._bits = np.where((batch.encoded >= 0) & (self._stored <= 8), 8, self._bits)  # codes are read, not integers
        self._encoded, self._encodings = batch.encoded, batch.encodings
        tables = [number for number, encoding in enumerate(batch.encodings) if encoding.codebook]
        self._by_table = np.isin(batch.encoded, tables)
        self._rounding = ROUNDINGS.index(batch.rounding.value)
        functions = batch.functions
        self._function_bits = np.array([f.bits for f in functions] or [16], dtype=np.int64)
        self._function_scales = np.array([f.scale for f in functions] or [14], dtype=np.int64)
        self._function_tables = np.array([1 if f.fine else 0 for f in functions] or [0], dtype=np.int64)
        self._function_divides = ~np.array(batch.by_half_tanh or [False])
        self._numbers: list[IntArray] = []
        self._counts: list[float] = []
        self._mask: Mask | None = None
        self._some = True
        self._registers: frozenset[int] = frozenset()
        self._framed = True

    def __len__(self) -> int:
        return self._count

    def collected(self) -> Terms:
        """Everything so far."""
        columns = [np.broadcast_to(numbers, (self._count,)) for numbers in self._numbers]
        return Terms(np.stack(columns, axis=1), np.array(self._counts))

    @property
    def term_count(self) -> int:
        """How many terms there are so far."""
        return len(self._counts)

    def add(self, count: float, numbers: IntArray) -> None:
        if not count or not self._some:
            return
        self._numbers.append(numbers if self._mask is None else np.where(self._mask, numbers, FREE))
        self._counts.append(count)

    @contextmanager
    def only(self, which: Mask) -> Iterator[None]:
        """What is added inside counts for candidates where `which` holds; the others get the feature that costs nothing."""
        before, some = self._mask, self._some
        both = which if before is None else which & before
        self._mask, self._some = (None if both.all() else both), bool(both.any())
        yield
        self._mask, self._some = before, some

    @contextmanager
    def chained(self, registers: frozenset[int], first: bool) -> Iterator[None]:
        """What is added inside is an operation of a chain: variables in `registers` are neither read nor written in RAM, and the loops are
        those of the `first` operation."""
        self._registers, self._framed = registers, first
        yield
        self._registers, self._framed = frozenset(), True

    def column(self, row: int, column: Column) -> IntArray:
        return np.asarray(self._rows[:, row, column], dtype=np.int64)

    def bits(self, operand: CountedOperand, row: int, place: int) -> IntArray:
        """Width of an operand; a literal has the least that holds it."""
        if operand.column >= 0:
            return self._bits[:, operand.column]
        value = self.column(row, Column.CONSTANT_A if place == 0 else Column.CONSTANT_B)
        magnitude = np.where(value < 0, -value - 1, value)
        return np.where(magnitude < 1 << 7, 8, np.where(magnitude < 1 << 15, 16, 32))

    def factors(self, row: int, a: CountedOperand, b: CountedOperand) -> tuple[IntArray, IntArray]:
        """Positions of both factors' widths, the wider first; what is multiplied up has the accumulator's."""
        accumulator = self.column(row, Column.ACC_BITS)
        widths = []
        for place, (operand, shift) in enumerate(((a, Column.SHIFT_A), (b, Column.SHIFT_B))):
            own = self.bits(operand, row, place)
            up = (self.column(row, shift) < 0) & (operand.column >= 0)
            widths.append(width_position(np.where(up, accumulator, np.minimum(own, accumulator))))
        return np.maximum(*widths), np.minimum(*widths)

    def function_bits(self, row: int) -> IntArray:
        return np.maximum(self._function_bits[self.column(row, Column.FUNCTION)], 16)

    def load(self, operand: CountedOperand, access: Access, grouped: bool = False) -> None:
        """`grouped`: packed codes are taken apart by whole groups, which is counted elsewhere."""
        if operand.column in self._registers:
            return
        self.add(access.pointers, number("pointer", operand.place))
        self.add(
            access.times, number("load", operand.place, width_position(self._bits[:, operand.column]), access.reached)
        )
        if operand.column >= 0 and not grouped:
            self.unpack(access.times, operand, "single")

    def unpack(self, count: float, operand: CountedOperand, how: str, widths: Collection[int] = tuple(LAYOUTS)) -> None:
        """Packed codes of some widths: `single` ones, those of a `group`, those that a `walk` meets, or a `run` of these that begins."""
        width = self._stored[:, operand.column]
        chosen = self._packed[:, operand.column] & np.isin(width, list(widths))
        if not chosen.any():
            return
        place = ("single", "group", "walk", "run").index(how)
        self.add(count, np.where(chosen, number("unpack", packed_position(width), place), FREE))
        looked_up = chosen & self._by_table[:, operand.column]
        if how != "run" and looked_up.any():
            self.add(count, np.where(looked_up, number("lookup"), FREE))

    def is_packed(self, operand: CountedOperand) -> Mask:
        """Where an operand is stored in packed codes."""
        return np.asarray(self._packed[:, operand.column])

    def multiplied(self, count: float, row: int, operand: CountedOperand) -> None:
        """Sums that are multiplied at their end, since the rows of an operand have shifts."""
        if operand.column < 0 or not (self._encoded[:, operand.column] >= 0).any():
            return
        by_encoding = [0 if e.rows is None else round(float(np.mean(e.rows.shifts))) for e in self._encodings] or [0]
        shifts = np.array(by_encoding)[np.maximum(self._encoded[:, operand.column], 0)]
        shifts = np.where(self._encoded[:, operand.column] >= 0, shifts, 0)
        self.down(count, self.column(row, Column.ACC_BITS), -shifts, self.column(row, Column.ACC_BITS))

    def store(self, variable: int, access: Access) -> None:
        if variable in self._registers:
            return
        self.add(access.pointers, number("pointer", 1))
        self.add(access.times, number("store", width_position(self._bits[:, variable]), access.reached))

    def down(self, count: float, width: IntArray, shift: IntArray, result: IntArray) -> None:
        """A division by 2**shift of numbers of that width; shifts below 0 multiply at the width of the result."""
        if not shift.any():
            return
        amount = np.minimum(np.abs(shift), 31)
        wide = np.where(amount >= width, 32, width)
        divides = number("down", self._rounding, width_position(wide), amount, width_position(np.minimum(wide, result)))
        multiplies = number("up", width_position(result), amount)
        self.add(count, np.where(shift > 0, divides, np.where(shift < 0, multiplies, FREE)))

    def shifted(
        self, count: float, operand: CountedOperand, shift: IntArray, wide: IntArray, *, of_sum: bool = False
    ) -> None:
        """An operand scaled down at its own width, for a sum modulo 2**`wide` to that; or up at the width `wide`."""
        width = self._bits[:, operand.column]
        self.down(count, width, shift, np.where(shift < 0, wide, np.minimum(width, wide) if of_sum else width))

    def function(self, count: float, row: int, kind: str) -> None:
        """Exp; Sigmoid and Tanh divide besides, a bit of the quotient a step, where the table is that of e**-t and not their own."""
        chosen = self.column(row, Column.FUNCTION)
        tables, bits = self._function_tables[chosen], self._function_bits[chosen]
        self.add(count, number("function", FUNCTIONS.index(kind), width_position(bits), tables))
        if kind != "Exp":
            scale = np.clip(self._function_scales[chosen], 0, 31)
            with self.only(self._function_divides[chosen]):
                self.add(count, number("fraction", np.where(scale <= 6, 0, 1), scale))

    def scan(self, count: float, kind: str, operand: CountedOperand) -> None:
        self.add(count, number("scan", kind_position(kind), width_position(self._bits[:, operand.column])))
        self.load(operand, Access(count, False))

    def frame(self, kind: str, times: float, elements: float, inner_loops: float, longest: int) -> None:
        """The loops around an operation."""
        if not self._framed:
            return
        self.add(times, number("start", kind_position(kind)))
        self.add(elements, number("element", kind_position(kind), length_position(longest)))
        self.add(inner_loops, number("nest", kind_position(kind)))
