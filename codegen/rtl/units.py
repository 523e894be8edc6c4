"""The units of the hardware, as plain data: what each one computes, how many cycles every part of it takes, and when it is done.

Hardware (`hardware/`) and schedule (`timeline.py`) are both made from these, so that cycles are known exactly without a simulation.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from kilotune.codegen import ir
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.rtl.design import HardwareDesign
from kilotune.codegen.rtl.nests import StepNest
from kilotune.codegen.rtl.processing import ElementStep

ROOT_STEPS = 16
"""Bits of an integer square root of 32 bits."""

ROOT_BITS = ROOT_STEPS + 1
"""Bits of a stored root, with its sign."""


class UnitKind(enum.Enum):
    """How a unit makes results out of steps."""

    ELEMENTS = "elements"  # a result a step
    SUM = "sum"  # the terms of some steps summed
    LARGEST = "largest"
    FIRST_LARGEST = "first largest"  # its number
    NORM = "norm"  # the root of a sum of squares
    QUOTIENT = "quotient"  # an element divided by a norm


class UnitPart(enum.Enum):
    """The parts of a unit's arithmetic, in order."""

    READ = "read"  # from the step's address to the element
    OPERANDS = "operands"  # shifted down
    TABLE = "table"
    PRODUCT = "product"
    TERMS = "terms"  # a product shifted down, those of several lanes added
    TREE = "tree"  # the levels of a sum that halve
    GATHER = "gather"  # the sum, the largest
    DIVIDE = "divide"
    SCALE = "scale"  # the result shifted down


Cycles = Mapping[UnitPart, int]
"""How many cycles each part takes."""


@dataclass(frozen=True)
class NestUnit:
    """A unit that walks a nest. `cycles` of its parts; a step every `interval` cycles; `serial`: the results of its lanes are written one
    after the other, while the next ones are computed."""

    name: str
    row: int
    operation: ir.Operation
    kind: UnitKind
    nest: StepNest
    cycles: Cycles
    interval: int = 1
    serial: bool = False

    @property
    def latency(self) -> int:
        """Cycles from a step to the writing of its result, the first one where they are serial."""
        return sum(self.cycles.values()) + self.serial

    @property
    def duration(self) -> int:
        """Cycles from the start to the cycle of the last writing."""
        last = self.nest.lanes - 1 if self.serial else 0
        return 1 + (self.nest.steps - 1) * self.interval + self.latency + last

    @cached_property
    def reads(self) -> frozenset[str]:
        """Variables that it reads."""
        return frozenset(reach.variable for reach in self.nest.reads if reach is not None)

    @cached_property
    def writes(self) -> frozenset[str]:
        """The variable that it writes."""
        return frozenset({self.nest.write.variable})


@dataclass(frozen=True)
class SparseUnit:
    """Processing elements of one multiply-accumulate a cycle: `steps` of each; then a row of the result a cycle, summed over them.

    `operation` is a product of a sparse parameter and a vector. `cycles` up to the accumulators, `closing` from them to the result.
    """

    name: str
    row: int
    operation: ir.MatMul
    steps: tuple[tuple[ElementStep, ...], ...]
    cycles: Cycles
    closing: int

    @property
    def busy(self) -> int:
        """How long the busiest element works."""
        return max(1, *(len(steps) for steps in self.steps))

    @property
    def rows(self) -> int:
        """Elements of the result."""
        return self.operation.out.shape[0]

    @property
    def duration(self) -> int:
        """Cycles from the start to the cycle of the last writing."""
        return 1 + self.busy + sum(self.cycles.values()) + self.rows - 1 + self.closing

    @cached_property
    def reads(self) -> frozenset[str]:
        """Variables that it reads."""
        return frozenset({self.operation.b.variable})

    @cached_property
    def writes(self) -> frozenset[str]:
        """The variable that it writes."""
        return frozenset({self.operation.out.variable})


Unit = NestUnit | SparseUnit


@dataclass(frozen=True)
class Repeat:
    """`body` for each value start, ..., start + count - 1 of a loop's index."""

    index: str
    start: int
    count: int
    body: tuple[Item, ...]

    @cached_property
    def reads(self) -> frozenset[str]:
        """Variables that its body reads."""
        return frozenset().union(*(item.reads for item in self.body))

    @cached_property
    def writes(self) -> frozenset[str]:
        """Variables that its body writes."""
        return frozenset().union(*(item.writes for item in self.body))


Item = Unit | Repeat


def quotient_bits(scale: int) -> int:
    """Bits of a quotient that is at most 2**scale."""
    return scale + 1


def division_cycles(scale: int) -> int:
    """How long a division takes whose quotient is at most 2**scale: a bit a cycle, and one to begin."""
    return quotient_bits(scale) + 1


def halving_levels(halvings: int, nest: StepNest) -> int:
    """The levels of a sum's tree that halve; what they leave is added in order."""
    return min(max(halvings, 0), (nest.terms - 1).bit_length())


def unit_cycles(
    kind: UnitKind, operation: ir.Operation, batch: FixedBatch, row: int, nest: StepNest, design: HardwareDesign
) -> Cycles:
    """The cycles of each part of a unit of the only candidate of `batch`. Where nothing is pipelined, parts without a memory, a sum or a
    division follow one another in a cycle."""
    register, columns = int(design.pipelined), batch.rows[0, row]
    cycles = {UnitPart.READ: 1, UnitPart.OPERANDS: register, UnitPart.SCALE: 1}
    match kind:
        case UnitKind.ELEMENTS if isinstance(operation, ir.TableFunction):
            table = batch.functions[int(columns[Column.FUNCTION])]
            cycles |= _table_cycles(operation, table, register)
        case UnitKind.ELEMENTS:
            multiplied = isinstance(operation, ir.Multiply)
            cycles[UnitPart.PRODUCT] = product_cycles(design, row) if multiplied else register
        case UnitKind.QUOTIENT:
            cycles[UnitPart.DIVIDE] = division_cycles(int(columns[Column.SHIFT_B]))
        case UnitKind.NORM:
            cycles |= {
                UnitPart.PRODUCT: register,
                UnitPart.GATHER: 1,
                UnitPart.DIVIDE: ROOT_STEPS + 1,
                UnitPart.SCALE: 0,
            }
        case UnitKind.SUM:
            levels = halving_levels(int(columns[Column.HALVINGS]), nest)
            cycles |= {
                UnitPart.PRODUCT: product_cycles(design, row),
                UnitPart.TERMS: register,
                UnitPart.TREE: levels,
                UnitPart.GATHER: 1,
            }
        case UnitKind.LARGEST | UnitKind.FIRST_LARGEST:
            cycles[UnitPart.GATHER] = 1
    return MappingProxyType({part: cycles[part] for part in UnitPart if part in cycles})


def _table_cycles(operation: ir.TableFunction, table: Exponential, register: int) -> dict[UnitPart, int]:
    # the argument is shifted, measured and clamped; a block memory is slow to answer, and a wide product slow to be shifted: each has a
    # register of its own
    cycles = {UnitPart.OPERANDS: 3 * register, UnitPart.TABLE: 1 + register, UnitPart.PRODUCT: 2 * register}
    if not isinstance(operation, ir.Exp):
        cycles[UnitPart.DIVIDE] = division_cycles(table.scale)
    return cycles


def unit_interval(cycles: Cycles, kind: UnitKind) -> int:
    """Cycles from a step to the next: a division takes no other one before it is done."""
    return max(1, cycles.get(UnitPart.DIVIDE, 1)) if kind is not UnitKind.NORM else 1


def product_cycles(design: HardwareDesign, row: int) -> int:
    """How long an operation's multiplications take: those of look-up tables are slow, and have a register in the middle."""
    return int(design.pipelined) * (2 if row in design.soft else 1)


def sparse_cycles(design: HardwareDesign, row: int) -> Cycles:
    """The cycles of each part of a processing element: its list and then the vector's element are read."""
    register = int(design.pipelined)
    product = product_cycles(design, row)
    return MappingProxyType(
        {UnitPart.READ: 2, UnitPart.OPERANDS: register, UnitPart.PRODUCT: product, UnitPart.TERMS: register}
    )


def closing_cycles(elements: int) -> int:
    """From the accumulators of so many elements to a result: a level of their sum a cycle, and one to scale it."""
    return (elements - 1).bit_length() + 1
