"""What the emission of one operation needs to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kilotune.codegen import ir
from kilotune.codegen.arrays import Int32Array
from kilotune.codegen.emit.fusion import OperationChain
from kilotune.codegen.emit.iteration import Iteration
from kilotune.codegen.emit.operators import CExpression, Operators
from kilotune.codegen.emit.row_results import RowCall
from kilotune.codegen.emit.shape import CodeShape
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.emit.streaming import FrameStream
from kilotune.codegen.emit.writer import Writer
from kilotune.codegen.fixed.table import Column


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


@dataclass(frozen=True)
class OperationRow:
    """The integers of one operation, by name (see `codegen.fixed.table`)."""

    number: int
    integers: Int32Array

    def __getitem__(self, column: Column) -> int:
        return int(self.integers[column])


@dataclass(frozen=True)
class Narrowing:
    """A sum modulo 2**`sum_bits` is divided by 2**`shift`, and what is left of it modulo 2**`bits` is stored."""

    sum_bits: int
    shift: int
    bits: int


@dataclass(frozen=True)
class RowPointer:
    """A pointer of C to a row of a matrix in flash, behind which the next one lies; `length` of a row, in what it points at."""

    name: str
    length: int


class SumOfProducts(Protocol):
    """The sum of products that becomes one element of a result."""

    @property
    def numbered(self) -> bool:
        """Whether the number of a term matters, as in a tree. Where it does not, `grown` can be a loop of its own."""

    @property
    def plain(self) -> bool:
        """Whether it is a sum of whole products of integers, modulo a power of two up to 2**32."""

    @property
    def kind(self) -> str:
        """C type of the variable `sum`."""

    @property
    def key(self) -> str:
        """Part of a C name; the same for sums that `grown` the same."""

    def grown(self, a: CExpression, b: CExpression) -> str:
        """The expression of the sum with the product of a and b added."""

    @property
    def modular(self) -> frozenset[int]:
        """Numbers of the operands by whose common factors the sum may be multiplied as a whole, and not each product."""

    def scaled_up(self, amount: str) -> None:
        """Multiply the sum by 2**amount."""

    def start(self) -> None:
        """Declare it, as 0."""

    def add(self, a: CExpression, b: CExpression, number: str, condition: str = "") -> None:
        """Add the product of a and b as term `number`; it counts as 0 where the condition does not hold."""

    def store(self, target: str, bits: int) -> None:
        """Write the result to an lvalue of that width."""

    @property
    def narrowing(self) -> Narrowing | None:
        """How `store` makes the result; None where it is made in another way."""


class Arithmetic(Protocol):
    """What numbers are: the integers of a fixed-point program, or floats. Loops and addresses do not depend on it."""

    def literal(self, operation: ir.Operation, item: ir.Literal, place: int, row: OperationRow) -> CExpression:
        """The constant that stands for operand `place` of the operation."""

    def element(
        self, context: Context, operation: ir.Elementwise, row: OperationRow, values: Sequence[CExpression]
    ) -> CExpression:
        """One element of an elementwise operation, of those of its operands."""

    def rescale(self, context: Context, value: CExpression, row: OperationRow) -> CExpression:
        """An element that is moved as it is (MaxPool), in the format of the result."""

    def sum(self, context: Context, operation: ir.Product, row: OperationRow) -> SumOfProducts:
        """The sum that becomes one element of a product."""

    def completing(
        self, context: Context, operation: ir.Product, row: OperationRow
    ) -> Callable[[str, str], None] | None:
        """What writes an element of a quantised program from `sum`, given the number of its channel and an lvalue; None elsewhere."""

    def normalise(self, context: Context, operation: ir.NormaliseL2, row: OperationRow) -> None:
        """Emit the whole operation."""

    def softmax(self, context: Context, operation: ir.QuantisedSoftmax) -> None:
        """Emit the whole operation."""

    def least(self, bits: int) -> str:
        """The constant that no stored number of that width lies below."""


@dataclass
class Context:
    """The program while its C is written. `scratches` collects, by row, what operations ask for; `stream`: how the input arrives,
    where it is not there as a whole; `chains`: operations that run in one nest, by the first row; `row_calls`: products that are calls for
    all rows; `row_pointers`: operands of products that pointers walk over, row by row; `offsets` [bytes] of temporaries in RAM;
    `backward`: rows of convolutions that begin with the last place of their window."""

    storage: VariableStorage
    operators: Operators
    arithmetic: Arithmetic
    rows: Int32Array
    writer: Writer
    scratches: dict[int, Scratch] = field(default_factory=dict)
    stream: FrameStream | None = None
    shape: CodeShape = field(default_factory=CodeShape)
    chains: Mapping[int, OperationChain] = field(default_factory=dict)
    row_calls: Sequence[RowCall] = ()
    row_pointers: Mapping[ir.View, RowPointer] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    backward: frozenset[int] = frozenset()

    def scratch(self, row: int, bits: int, count: int) -> str:
        """The C name of a scratch array of the operation."""
        self.scratches[row] = Scratch(row, bits, count)
        return f"kt_scratch{row}"


def visit(context: Context, view: ir.View, counters: Sequence[str], strides: Sequence[int]) -> CExpression:
    """The element of a view at loop counters, each of which moves by its stride."""
    return context.storage.element(view, list(zip(counters, strides, strict=True)))


def counters_of(loops: Iteration) -> list[tuple[str, int]]:
    """Counter names and trip counts of a loop nest."""
    return [(f"i{axis}", extent) for axis, extent in enumerate(loops.extents)]
