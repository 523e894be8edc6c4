"""From a lowered program and what is decided of its hardware to units, memories and the exact number of cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.arithmetic import scale_down
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.rtl.banks import MOST_BANKS, free_of_conflicts, least_banks
from kilotune.codegen.rtl.design import SEQUENTIAL, HardwareDesign
from kilotune.codegen.rtl.nests import Reach, StepNest, make_nest, row_extents, row_nests
from kilotune.codegen.rtl.processing import element_steps
from kilotune.codegen.rtl.timeline import Timeline, port_counts, schedule
from kilotune.codegen.rtl.units import (
    ROOT_BITS,
    Item,
    NestUnit,
    Repeat,
    SparseUnit,
    Unit,
    UnitKind,
    closing_cycles,
    sparse_cycles,
    unit_cycles,
    unit_interval,
)


@dataclass(frozen=True)
class HardwarePlan:
    """All that the hardware of one candidate is made from.

    `constants`: the integers of every parameter, flat. `memories`: (elements, bits) of every variable that is written; `banks` and
    `ports` of each. `loops`: (start, count) by index.
    """

    batch: FixedBatch
    design: HardwareDesign
    constants: Mapping[str, IntArray]
    items: tuple[Item, ...]
    memories: Mapping[str, tuple[int, int]]
    banks: Mapping[str, int]
    ports: Mapping[str, int]
    loops: Mapping[str, tuple[int, int]]

    @cached_property
    def timeline(self) -> Timeline:
        """When each unit starts."""
        return schedule(self.items, self.ports)

    @property
    def input_beats(self) -> int:
        """Cycles that a sample's features take; a program without input waits for one beat of nothing."""
        read = self.batch.program.input
        return 1 if read is None else read.size

    @property
    def cycles(self) -> int:
        """From the first feature, when none is late, to the cycle in which the result is there."""
        return self.input_beats + self.timeline.cycles + 1

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Every unit, in program order."""
        return tuple(_units(self.items))


def make_plan(
    batch: FixedBatch, parameters: Mapping[str, FloatArray], design: HardwareDesign = SEQUENTIAL
) -> HardwarePlan:
    """Plan the hardware of the only candidate of `batch`. ValueError, a sentence, for a design that cannot be built, and for
    a quantised program."""
    program = batch.program
    ir.check_formats_open(program)
    constants = {
        v.name: batch.integers(0, i, parameters[v.name]).reshape(-1)
        for i, v in enumerate(program.variables)
        if v.role is ir.Role.PARAMETER
    }
    lowering = _Lowering(batch, constants, design)
    items = lowering.body(program.body)
    memories = _memories(batch) | lowering.scratch
    banks = _banks(items, memories)
    items = tuple(settled(item, banks) for item in items)
    ports = port_counts(items, design.ports, frozenset(constants))
    loops = {loop.index: (loop.start, loop.count) for loop in _repeats(items)}
    return HardwarePlan(batch, design, constants, items, memories, banks, {n: ports.get(n, 1) for n in memories}, loops)


def decidable(program: ir.Program, batch: FixedBatch) -> dict[int, tuple[int, ...]]:
    """The unroll factors that each operation may have, by its number in program order: the divisors of its loop, at most MOST_BANKS."""
    result = {}
    for row, operation in enumerate(ir.operations(program.body)):
        if isinstance(operation, ir.NormaliseL2):
            places = operation.length
        else:
            places = make_nest(operation, int(batch.rows[0, row, Column.HALVINGS])).places
        result[row] = tuple(n for n in range(1, min(places, MOST_BANKS) + 1) if places % n == 0)
    return result


def takes_multipliers(operation: ir.Operation) -> bool:
    """Whether it is decided what the operation's multiplications are made of; those of tables and norms take the board's multipliers."""
    return isinstance(operation, ir.MatMul | ir.Conv2D | ir.Multiply)


def takes_elements(operation: ir.Operation, program: ir.Program) -> bool:
    """Whether processing elements can do the operation: the whole of a sparse parameter times a vector that is computed or given."""
    if not isinstance(operation, ir.MatMul) or not operation.sparse or operation.b.shape[1] != 1:
        return False
    matrix, vector = program.variable(operation.a.variable), program.variable(operation.b.variable)
    weights = matrix.role is ir.Role.PARAMETER and operation.a == ir.whole(matrix)
    return weights and vector.role is not ir.Role.PARAMETER


@dataclass
class _Lowering:
    """Operations to units. `scratch`: (elements, bits) of variables that only the hardware has."""

    batch: FixedBatch
    constants: Mapping[str, IntArray]
    design: HardwareDesign

    def __post_init__(self) -> None:
        self.rows = {id(o): row for row, o in enumerate(ir.operations(self.batch.program.body))}
        self.scratch: dict[str, tuple[int, int]] = {}

    def body(self, statements: Sequence[ir.Statement]) -> tuple[Item, ...]:
        items: list[Item] = []
        for statement in statements:
            if isinstance(statement, ir.Loop):
                items.append(Repeat(statement.index, statement.start, statement.count, self.body(statement.body)))
            elif isinstance(statement, ir.Periodic):
                raise ValueError(f"{statement.location}: hardware takes whole samples, not frames one by one")
            else:
                items.append(self._operation(statement))
        return tuple(items)

    def _operation(self, operation: ir.Operation) -> Item:
        row = self.rows[id(operation)]
        if isinstance(operation, ir.NormaliseL2):
            return self._normalise(operation, row)
        if row in self.design.shares:
            return self._sparse(operation, row)
        kind = UnitKind.ELEMENTS
        if isinstance(operation, ir.MatMul | ir.Conv2D):
            kind = UnitKind.SUM
        elif isinstance(operation, ir.MaxPool | ir.ArgMax):
            kind = UnitKind.LARGEST if isinstance(operation, ir.MaxPool) else UnitKind.FIRST_LARGEST
        halvings = int(self.batch.rows[0, row, Column.HALVINGS])
        nest = make_nest(operation, halvings).split(self.design.lanes.get(row, 1))
        return self._unit(operation, row, kind, nest)

    def _unit(self, operation: ir.Operation, row: int, kind: UnitKind, nest: StepNest, suffix: str = "") -> NestUnit:
        cycles = unit_cycles(kind, operation, self.batch, row, nest, self.design)
        name = f"op{row}_{operation.content_kind}{suffix}"
        return NestUnit(name, row, operation, kind, nest, cycles, unit_interval(cycles, kind))

    def _normalise(self, operation: ir.NormaliseL2, row: int) -> Item:
        """A loop over the rows, of two units each."""
        scratch = f"norm of operation {row}"
        self.scratch[scratch] = (1, ROOT_BITS)
        extents = row_extents(operation)
        indices = [f"row {axis} of operation {row}" for axis in range(len(extents))]
        sums, quotients = row_nests(operation, indices, scratch)
        quotients = quotients.split(self.design.lanes.get(row, 1))
        body: tuple[Item, ...] = (
            self._unit(operation, row, UnitKind.NORM, sums, "_norm"),
            self._unit(operation, row, UnitKind.QUOTIENT, quotients, "_quotient"),
        )
        for index, extent in reversed(list(zip(indices, extents, strict=True))):
            body = (Repeat(index, 0, extent, body),)
        return body[0] if len(body) == 1 else Repeat(f"rows of operation {row}", 0, 1, body)

    def _sparse(self, operation: ir.Operation, row: int) -> SparseUnit:
        if not isinstance(operation, ir.MatMul) or not takes_elements(operation, self.batch.program):
            raise ValueError(f"operation {row} at {operation.location} is no sparse parameter times a vector")
        shares = self.design.shares[row]
        stored = self.constants[operation.a.variable].reshape(operation.a.shape)
        values = scale_down(stored, int(self.batch.rows[0, row, Column.SHIFT_A]), self.batch.rounding)
        steps = tuple(element_steps(values, columns) for columns in shares.columns)
        name = f"op{row}_{operation.content_kind}"
        return SparseUnit(name, row, operation, steps, sparse_cycles(self.design, row), closing_cycles(shares.elements))


def _memories(batch: FixedBatch) -> dict[str, tuple[int, int]]:
    """(elements, bits) of the variables that the program writes, and of its input."""
    used, labels = ir.used_variables(batch.program), ir.label_variables(batch.program)
    sizes = {o.out.variable: o.operands[0] for o in ir.operations(batch.program.body) if isinstance(o, ir.ArgMax)}
    result = {}
    for i, variable in enumerate(batch.program.variables):
        if variable.role is ir.Role.PARAMETER or (variable.role is ir.Role.TEMPORARY and variable.name not in used):
            continue
        bits = int(batch.bits[0, i])
        if variable.name in labels:
            counted = sizes.get(variable.name)
            bits = (counted.size - 1).bit_length() + 1 if isinstance(counted, ir.View) else 2
        result[variable.name] = (variable.size, bits)
    return result


def _units(items: Sequence[Item]) -> Iterator[Unit]:
    for item in items:
        if isinstance(item, Repeat):
            yield from _units(item.body)
        else:
            yield item


def _repeats(items: Sequence[Item]) -> Iterator[Repeat]:
    for item in items:
        if isinstance(item, Repeat):
            yield item
            yield from _repeats(item.body)


def _writes_at_once(unit: NestUnit) -> bool:
    """Whether results of several lanes have to be written in one cycle."""
    nest = unit.nest
    return nest.lanes > 1 and not nest.gathers_lanes and (nest.gathered == 0 or nest.terms < nest.lanes)


def _banks(items: Sequence[Item], memories: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """The least banks with which no lanes meet."""
    accesses: dict[str, list[tuple[int, int]]] = {name: [] for name in memories}
    for unit in _units(items):
        if isinstance(unit, SparseUnit) or unit.nest.lanes == 1:
            continue
        reaches: list[Reach | None] = [*unit.nest.reads]
        if _writes_at_once(unit):
            reaches.append(unit.nest.write)
        for reach in reaches:
            if reach is not None and reach.variable in accesses:
                accesses[reach.variable].append((unit.nest.lanes, reach.lane_stride))
    result = {}
    for name, wanted in accesses.items():
        banks = least_banks(wanted)
        if banks is None:
            lanes = max(lanes for lanes, _ in wanted)
            raise ValueError(f"{MOST_BANKS} banks of {name} are not enough for {lanes} lanes")
        result[name] = banks
    return result


def settled(item: Item, banks: Mapping[str, int]) -> Item:
    """The item with the lanes of sums written one after the other where these banks do not take them at once."""
    if isinstance(item, Repeat):
        return replace(item, body=tuple(settled(part, banks) for part in item.body))
    if isinstance(item, SparseUnit) or item.nest.lanes == 1 or item.nest.gathers_lanes:
        return item
    write = item.nest.write
    return replace(item, serial=not free_of_conflicts(banks[write.variable], item.nest.lanes, write.lane_stride))
