"""The ways between registers in a unit: what a signal goes through in one cycle, as counts that a fitted table turns into nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.rtl.banks import visited_banks
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.codegen.rtl.units import NestUnit, SparseUnit, Unit, UnitKind, UnitPart, halving_levels
from kilotune.evaluators.fpga.boards import FAMILIES
from kilotune.evaluators.fpga.mapping import CELL_WORDS, MAPPINGS, product_parts, ram_parts, rom_parts
from kilotune.evaluators.fpga.parts import address_bits
from kilotune.evaluators.fpga.sparse_parts import element_list
from kilotune.evaluators.fpga.unit_parts import multiplied_widths, operand_widths, others_reach, parameter_blocks


@dataclass(frozen=True)
class Path:
    """`ways`: 1, from register to register. `levels` of choices; `chains` of carries and the `carried` bits of all of them; whether it
    begins at a block memory; multipliers of the board in a row, and `folds`: the levels of a multiplication made of look-up tables."""

    ways: float = 1
    levels: float = 0
    chains: float = 0
    carried: float = 0
    block_rams: float = 0
    multipliers: float = 0
    folds: float = 0

    def __add__(self, other: Path) -> Path:
        """One after the other, without a register between them."""
        return Path(1, *(a + b for a, b in zip(self.numbers[1:], other.numbers[1:], strict=True)))

    @property
    def numbers(self) -> tuple[float, ...]:
        """In the order of the fields."""
        return (self.ways, self.levels, self.chains, self.carried, self.block_rams, self.multipliers, self.folds)


PATH = tuple(field.name for field in fields(Path))
"""The names, in the order of `Path.numbers`."""


def unit_paths(unit: Unit, plan: HardwarePlan, family: str) -> tuple[Path, ...]:
    """All ways of a unit that may be the longest, through the memories that it reaches too."""
    if isinstance(unit, SparseUnit):
        return tuple(_sparse_paths(unit, plan, family))
    return tuple(_NestPaths(unit, plan, family).all())


def _in_a_row(paths: Sequence[Path]) -> Path:
    total = Path()
    for path in paths:
        total += path
    return total


def _carry(bits: int) -> Path:
    return Path(chains=1, carried=bits)


def _levels(inputs: float) -> Path:
    return Path(levels=math.log2(max(1.0, inputs)))


def _slower(a: Path, b: Path) -> Path:
    """Whichever is likely to take longer, before the table of a family is asked."""
    return max(a, b, key=lambda path: sum(path.numbers) + 4 * path.block_rams)


def _rounded(bits: int, shift: int, rounding: Rounding) -> Path:
    return _carry(bits) if shift > 0 and rounding is not Rounding.FLOOR else Path()


def _multiplied(a_bits: int, b_bits: int, result_bits: int, soft: bool, family: str, registered: bool = False) -> Path:
    """From operands to a product. `registered`: from registers to a register, which some families' multipliers have inside; a product of
    look-up tables has one in its middle, too."""
    parts = product_parts(a_bits, b_bits, result_bits, soft, family)
    if not parts.multipliers:
        return Path(
            folds=math.log2(max(2, min(a_bits, b_bits))) / (2 if registered and soft else 1), carried=result_bits
        )
    if registered and parts.multipliers == 1 and FAMILIES[family].registers_move:
        return Path()
    further = Path(chains=math.log2(parts.multipliers), carried=result_bits) if parts.multipliers > 1 else Path()
    return Path(multipliers=1) + further


def _answer(name: str, plan: HardwarePlan, family: str) -> tuple[Path, Path]:
    """From an address to a register or into a block, and from there on."""
    (size, bits), banks = plan.memories[name], plan.banks[name]
    depth = -(-size // banks)
    if depth <= 1:
        return Path(), Path()
    if ram_parts(depth, bits, 1, family).block_rams:
        return Path(), Path(block_rams=1, levels=1)
    return _distributed(depth, family), Path()


def _distributed(words: int, family: str) -> Path:
    """Through a memory of look-up tables, or through the choice among registers where there is none."""
    return _levels(words) if MAPPINGS[family].cell_cost is None else Path(levels=1) + _levels(words / CELL_WORDS)


class _NestPaths:
    """The ways of a unit that walks a nest."""

    def __init__(self, unit: NestUnit, plan: HardwarePlan, family: str) -> None:
        self.unit, self.plan, self.family = unit, plan, family
        self.row, self.rounding = plan.batch.rows[0, unit.row], plan.batch.rounding
        self.accumulator = max(1, int(self.row[Column.ACC_BITS]))
        self.widths = operand_widths(unit, plan, family)
        self.stored = plan.memories[unit.nest.write.variable][1]
        self.pipelined = plan.design.pipelined

    def all(self) -> Iterator[Path]:
        moving = sum(extent > 1 for extent in self.unit.nest.extents)
        yield Path(levels=moving) + _carry(8)
        yield from self._asked()
        stages = self._stages()
        if self.pipelined:
            yield from stages
        else:
            yield _in_a_row((*stages, self._kept()))
        yield from self._closing()

    def _kept(self) -> Path:
        """What follows the arithmetic where no register is between: the sum, the rounding of the result, the table."""
        match self.unit.kind:
            case UnitKind.SUM:
                return _carry(self.accumulator)
            case UnitKind.NORM:
                return _carry(33)
            case UnitKind.ELEMENTS if isinstance(self.unit.operation, ir.TableFunction):
                return self._entries()
            case UnitKind.ELEMENTS:
                return _rounded(max(self.widths, default=1), int(self.row[Column.SHIFT_OUT]), self.rounding)
            case _:
                return Path()

    def _asked(self) -> Iterator[Path]:
        for reach in self.unit.nest.reads:
            if reach is None or reach.variable in self.plan.constants:
                continue
            into, _ = _answer(reach.variable, self.plan, self.family)
            visited = visited_banks(reach, self.unit.nest, self.plan.loops, self.plan.banks[reach.variable])
            asking = sum(len(banks) for banks in visited) / max(1, len(frozenset().union(*visited)))
            shared = others_reach(reach.variable, self.unit, self.plan, write=False)
            scattered = any(len(banks) > 1 for banks in visited)
            added = _carry(8) + Path(levels=1) if scattered else Path()
            yield added + _levels(asking * (1 + shared)) + into

    def _read(self) -> Path:
        """From a memory's answer to the operand, the slowest one."""
        slowest = Path()
        for number, reach in enumerate(self.unit.nest.reads):
            if reach is None:
                continue
            if reach.variable in self.plan.constants:
                if parameter_blocks(self.unit, reach, self.plan, self.family):
                    slowest = _slower(slowest, Path(block_rams=1))
                continue
            _, path = _answer(reach.variable, self.plan, self.family)
            visited = visited_banks(reach, self.unit.nest, self.plan.loops, self.plan.banks[reach.variable])
            path += _levels(max(len(banks) for banks in visited))
            if number == 0 and self.unit.nest.inside:
                path += Path(levels=1)
            shift = int(self.row[Column.SHIFT_A if number == 0 else Column.SHIFT_B])
            path += _rounded(self.plan.memories[reach.variable][1], shift, self.rounding)
            slowest = _slower(slowest, path)
        return slowest

    def _stages(self) -> Sequence[Path]:
        unit, widths = self.unit, self.widths
        read = self._read()
        product = min(sum(widths[:2]), self.accumulator)
        soft = unit.row in self.plan.design.soft
        match unit.kind:
            case UnitKind.SUM:
                term = _rounded(product, int(self.row[Column.SHIFT_TERM]), self.rounding)
                if unit.nest.gathers_lanes:
                    levels = math.log2(unit.nest.lanes)
                    term += Path(chains=levels, carried=self.accumulator)
                return read, self._product(soft), term
            case UnitKind.NORM:
                return read, _multiplied(widths[0], widths[0], 33, False, self.family, self.pipelined)
            case UnitKind.FIRST_LARGEST:  # compared with the largest one, then counted, and kept
                return read, _carry(widths[0]) + _carry(address_bits(unit.nest.steps + 1)) + Path(levels=2)
            case UnitKind.LARGEST | UnitKind.QUOTIENT:
                return read, _carry(widths[0]) + Path(levels=1)
            case UnitKind.ELEMENTS:
                return read, self._element(soft)

    def _element(self, soft: bool) -> Path:
        operation, widths = self.unit.operation, self.widths
        if isinstance(operation, ir.TableFunction):
            table = self.plan.batch.functions[int(self.row[Column.FUNCTION])]
            bits = address_bits(table.limit + 1)
            return _carry(bits) + Path(levels=1)
        if isinstance(operation, ir.Multiply):
            return self._product(soft)
        wide = max(widths, default=1)
        return Path(levels=1) if isinstance(operation, ir.Select | ir.Relu | ir.Copy | ir.Fill) else _carry(wide)

    def _product(self, soft: bool) -> Path:
        widths = multiplied_widths(self.unit, self.plan, self.family)
        return _multiplied(*widths, soft, self.family, self.pipelined)

    def _closing(self) -> Iterator[Path]:
        """From the sum, the quotient, the looked-up value to the memory of the result."""
        unit, shift = self.unit, int(self.row[Column.SHIFT_OUT])
        if unit.kind is UnitKind.SUM:
            yield _carry(self.accumulator) + Path(levels=1)
            if halving_levels(int(self.row[Column.HALVINGS]), unit.nest):
                yield _rounded(self.accumulator, 1, self.rounding) + _carry(self.accumulator) + Path(levels=1)
        if unit.kind is UnitKind.NORM:
            yield _carry(32) + _carry(32) + Path(levels=1)
        if UnitPart.DIVIDE in unit.cycles and unit.kind is not UnitKind.NORM:
            yield _carry(max(self.widths)) + _carry(max(self.widths)) + Path(levels=1)
        if isinstance(unit.operation, ir.TableFunction):
            yield from self._looked_up()
        elif unit.kind is UnitKind.SUM:
            yield _rounded(self.accumulator, shift, self.rounding)
        visited = visited_banks(unit.nest.write, unit.nest, self.plan.loops, self.plan.banks[unit.nest.write.variable])
        asking = sum(len(banks) for banks in visited) / max(1, len(frozenset().union(*visited)))
        yield _levels(asking * (1 + others_reach(unit.nest.write.variable, unit, self.plan, write=True)))

    def _entries(self) -> Path:
        """From a place in a table to its entry."""
        table = self.plan.batch.functions[int(self.row[Column.FUNCTION])]
        return Path() if self._in_block(table) else _levels(len(table.coarse) / 8)

    def _in_block(self, table: Exponential) -> bool:
        return bool(rom_parts(len(table.coarse), table.bits, self.family, smooth=True).block_rams)

    def _looked_up(self) -> Iterator[Path]:
        table = self.plan.batch.functions[int(self.row[Column.FUNCTION])]
        blocks = Path(block_rams=1) if self._in_block(table) else Path()
        rounded = _rounded(table.product_bits, table.product_shift, self.rounding)
        product = _multiplied(table.bits, table.bits, table.product_bits, False, self.family) if table.fine else Path()
        if self.pipelined:
            yield from (self._entries(), blocks, product, rounded)
        else:
            yield blocks + product + rounded


def _sparse_paths(unit: SparseUnit, plan: HardwarePlan, family: str) -> Iterator[Path]:
    row, rounding = plan.batch.rows[0, unit.row], plan.batch.rounding
    accumulator, vector = int(row[Column.ACC_BITS]), unit.operation.b.variable
    into, out = _answer(vector, plan, family)
    banks, stored = plan.banks[vector], plan.memories[vector][1]
    values = [abs(step.value) for steps in unit.steps for step in steps] or [0]
    width = 1 + max(values).bit_length()
    product = min(width + stored, accumulator)
    lists = (rom_parts(unit.busy, element_list(unit, number)[2], family) for number in range(len(unit.steps)))
    yield into + _levels(banks) + Path(block_rams=1 if any(each.block_rams for each in lists) else 0)
    read = out + _levels(banks) + _rounded(stored, int(row[Column.SHIFT_B]), rounding)
    multiplied = _multiplied(width, stored, product, unit.row in plan.design.soft, family, plan.design.pipelined)
    term = _rounded(product, int(row[Column.SHIFT_TERM]), rounding)
    if plan.design.pipelined:
        yield from (read, multiplied, term)
    kept = _distributed(unit.rows, family) + Path(levels=2) + _carry(accumulator)
    yield kept if plan.design.pipelined else read + multiplied + term + kept
    yield _distributed(unit.rows, family) + _carry(accumulator)
    yield _rounded(accumulator, int(row[Column.SHIFT_OUT]), rounding)
