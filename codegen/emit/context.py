"""What the emission of one operation needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kilotune.codegen import ir
from kilotune.codegen.emit.iteration import Iteration
from kilotune.codegen.emit.operators import Operators, Value, constant
from kilotune.codegen.emit.storage import Storage
from kilotune.codegen.emit.tables import Functions
from kilotune.codegen.emit.writer import Writer
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.table import Column, Int32Array


@dataclass(frozen=True)
class Scratch:
    """RAM that one operation needs for itself, as `count` integers of `bits` bits."""

    row: int
    bits: int
    count: int

    @property
    def name(self) -> str:
        """Its name in a placement; no variable's name starts with a space."""
        return f" scratch {self.row}"

    @property
    def size_bytes(self) -> int:
        """Bytes of RAM."""
        return self.bits // 8 * self.count


@dataclass
class Context:
    """The program while its C is written. `scratches` collects, by row, what operations ask for."""

    storage: Storage
    operators: Operators
    functions: Functions
    tables: Sequence[Exponential]
    rows: Int32Array
    writer: Writer
    scratches: dict[int, Scratch] = field(default_factory=dict)

    def scratch(self, row: int, bits: int, count: int) -> str:
        """The C name of a scratch array of the operation."""
        self.scratches[row] = Scratch(row, bits, count)
        return f"kt_scratch{row}"


@dataclass(frozen=True)
class Row:
    """The integers of one operation, by name (see `codegen.fixed.table`)."""

    number: int
    integers: Int32Array

    def __getitem__(self, column: Column) -> int:
        return int(self.integers[column])


def visit(context: Context, view: ir.View, counters: Sequence[str], strides: Sequence[int]) -> Value:
    """The element of a view at loop counters, each of which moves by its stride."""
    return context.storage.element(view, list(zip(counters, strides, strict=True)))


def operand(context: Context, item: ir.Operand, counters: Sequence[str], strides: Sequence[int], literal: int) -> Value:
    """An operand's element, or the integer of a literal."""
    if isinstance(item, ir.Literal):
        return constant(literal)
    return visit(context, item, counters, strides)


def counters_of(loops: Iteration) -> list[tuple[str, int]]:
    """Counter names and trip counts of a loop nest."""
    return [(f"i{axis}", extent) for axis, extent in enumerate(loops.extents)]
