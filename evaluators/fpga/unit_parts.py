"""The parts of a unit, of a memory and of the frame around them: counted from the plan, as `codegen/rtl/hardware` makes them."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Rounding, scale_down
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.rtl.banks import bank_depth, visited_banks
from kilotune.codegen.rtl.nests import Reach
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.codegen.rtl.units import ROOT_STEPS, NestUnit, SparseUnit, Unit, UnitKind, UnitPart, halving_levels
from kilotune.evaluators.fpga.mapping import product_parts, ram_parts, rom_parts
from kilotune.evaluators.fpga.parts import Parts, address_bits, down_parts, value_bits
from kilotune.evaluators.fpga.sparse_parts import SparseCount

ROOT_BITS = 2 * ROOT_STEPS


def unit_parts(unit: Unit, plan: HardwarePlan, family: str) -> Parts:
    """Counters, addresses, arithmetic and read-only memories of a unit."""
    if isinstance(unit, SparseUnit):
        return SparseCount(unit, plan, family).total()
    return _NestCount(unit, plan, family).total()


def operand_widths(unit: NestUnit, plan: HardwarePlan, family: str) -> tuple[int, ...]:
    """Bits of each operand where it is computed with."""
    count = _NestCount(unit, plan, family)
    return tuple(count.width(number, reach) for number, reach in enumerate(unit.nest.reads))


def multiplied_widths(unit: NestUnit, plan: HardwarePlan, family: str) -> tuple[int, int, int]:
    """Bits of both factors and of their product that a synthesiser multiplies: without the zeros that a factor shifted up ends with."""
    count = _NestCount(unit, plan, family)
    return count.multiplied(operand_widths(unit, plan, family))


def parameter_blocks(unit: NestUnit, reach: Reach, plan: HardwarePlan, family: str) -> int:
    """How many block memories hold the parameter that a unit reads there; none where it is made of look-up tables."""
    count = _NestCount(unit, plan, family)
    return int(count.parameter(reach, count.shift(unit.nest.reads.index(reach)))[1].block_rams)


def memory_parts(name: str, plan: HardwarePlan, family: str) -> Parts:
    """The banks of a variable, a copy for each port that reads it; those of one element are registers."""
    (size, bits), banks = plan.memories[name], plan.banks[name]
    read = any(name in unit.reads for unit in plan.units)
    ports = plan.ports[name] * read + (name == plan.batch.program.result.variable)
    total = Parts()
    for bank in range(banks):
        depth = bank_depth(size, banks, bank)
        total += Parts(registers=bits) if depth == 1 else ram_parts(depth, bits, ports, family) if depth else Parts()
    return total


def frame_parts(plan: HardwarePlan) -> Parts:
    """What takes features, gives results, counts loops and starts units."""
    program = plan.batch.program
    result_bits = address_bits(program.result.size)
    parts = Parts(controls=1, registers=2 * result_bits + 6, adders=2 * result_bits)
    if program.input is not None:
        bits = address_bits(program.input.size)
        parts += Parts(registers=bits, adders=bits)
    for start, count in plan.loops.values():
        bits = address_bits(start + count)
        parts += Parts(registers=bits + 1, adders=bits, choices=bits)
    return parts


def others_reach(name: str, unit: Unit, plan: HardwarePlan, write: bool) -> bool:
    """Whether another unit writes (reads) the variable too, so that somebody has to choose; features are written from outside."""
    if write and plan.batch.program.input is not None and name == plan.batch.program.input.name:
        return True
    sharers = (other for other in plan.units if other.name != unit.name)
    if write:
        return any(name in other.writes for other in sharers)
    return sum(name in other.reads for other in sharers) >= plan.ports.get(name, 1)


class _NestCount:
    """The parts of a unit that walks a nest, counted one kind after the other."""

    def __init__(self, unit: NestUnit, plan: HardwarePlan, family: str) -> None:
        self.unit, self.plan, self.family = unit, plan, family
        self.row, self.rounding = plan.batch.rows[0, unit.row], plan.batch.rounding
        self.accumulator = int(self.row[Column.ACC_BITS])
        self.soft = unit.row in plan.design.soft
        self.latency = sum(unit.cycles.values())

    def total(self) -> Parts:
        nest = self.unit.nest
        operands = [self.operand(number, reach) for number, reach in enumerate(nest.reads)]
        widths = [bits for bits, _ in operands]
        total = self._counters()
        for _, parts in operands:
            total += parts
        return total + self._arithmetic(widths) + self._write()

    def _counters(self) -> Parts:
        bits = sum(address_bits(extent) for extent in self.unit.nest.extents if extent > 1)
        if self.unit.interval > 1:
            bits += address_bits(self.unit.interval)
        # valid, last, there and final, as long as the way is
        return Parts(controls=1, registers=bits + 1 + 3 * self.latency, adders=bits)

    def _address(self, reach: Reach) -> tuple[int, Parts]:
        """Bits of a register that follows an access, and what moves it."""
        ends = [reach.offset.constant] if reach.offset.constant > 0 else [0]
        ends += [(e - 1) * s for e, s in zip(self.unit.nest.extents, reach.strides, strict=True) if s > 0]
        loops = [self.plan.loops[index] for index, _ in reach.offset.terms]
        ends += [(s + c - 1) * f for (s, c), (_, f) in zip(loops, reach.offset.terms, strict=True) if f > 0]
        bits = max(sum(ends), 1).bit_length()
        begun = Parts(adders=bits * len(reach.offset.terms))
        moving = [s for e, s in zip(self.unit.nest.extents, reach.strides, strict=True) if e > 1]
        if not any(moving):
            return bits, begun
        return bits, begun + Parts(registers=bits, adders=bits, choices=bits * min(2, len(moving)))

    def operand(self, number: int, reach: Reach | None) -> tuple[int, Parts]:
        """Bits of an operand where it is computed with, and what it takes to get it there."""
        unit, nest, plan = self.unit, self.unit.nest, self.plan
        shift = self.shift(number)
        if reach is None:
            return self.width(number, reach), Parts()
        if reach.variable in plan.constants:
            bits, parts = self.parameter(reach, shift)
        else:
            stored, bits = plan.memories[reach.variable][1], self.width(number, reach)
            parts = Parts()
            if reach not in nest.reads[:number]:
                parts = self._read(reach)
            parts += down_parts(stored, shift, self.rounding) * nest.lanes
        if number == 0:
            parts += self._padding(bits)
        if not isinstance(unit.operation, ir.TableFunction):
            parts += Parts(registers=bits * unit.cycles.get(UnitPart.OPERANDS, 0)) * nest.lanes
        return bits, parts

    def width(self, number: int, reach: Reach | None) -> int:
        """Bits of an operand where it is computed with."""
        if reach is None:
            literal = int(self.row[Column.CONSTANT_A if number == 0 else Column.CONSTANT_B])
            return value_bits(literal, literal)
        shift = self.shift(number)
        if reach.variable in self.plan.constants:
            return self._parameter_width(reach, shift)
        return max(1, self.plan.memories[reach.variable][1] - max(shift, 0)) + max(-shift, 0)

    def shift(self, number: int) -> int:
        """By how many bits an operand is shifted down before it is computed with; up, where it is negative."""
        operation = self.unit.operation
        if isinstance(operation, ir.Select):
            number -= 1
        if number < 0 or number > 1 or (self.unit.kind is UnitKind.QUOTIENT and number == 1):
            return 0
        if not isinstance(operation, ir.Select) and number >= len(operation.operands):
            return 0
        return int(self.row[Column.SHIFT_A if number == 0 else Column.SHIFT_B])

    def multiplied(self, widths: Sequence[int], kept: int | None = None) -> tuple[int, int, int]:
        """See `multiplied_widths`; of the product no more than `kept` bits."""
        zeros = [max(0, -self.shift(number)) for number in range(2)]
        a, b = (max(1, bits - low) for bits, low in zip(widths, zeros, strict=False))
        product = min(widths[0] + widths[1], self.accumulator if kept is None else kept)
        return a, b, max(1, product - sum(zeros))

    def _parameter_width(self, reach: Reach, shift: int) -> int:
        values = scale_down(self.plan.constants[reach.variable], shift, self.rounding)
        return value_bits(int(values.min()), int(values.max()))

    def parameter(self, reach: Reach, shift: int) -> tuple[int, Parts]:
        """Bits of a parameter shifted so, and the memory that it lies in with what walks it."""
        nest, bits = self.unit.nest, self._parameter_width(reach, shift)
        words = 1
        for extent, stride in zip(nest.extents, reach.strides, strict=True):
            words *= extent if stride else 1
        for index, factor in reach.offset.terms:
            words *= self.plan.loops[index][1] if factor else 1
        lanes = nest.lanes if reach.lane_stride else 1
        parts = rom_parts(words, bits * lanes, self.family)
        if words > 1:
            held = address_bits(words)
            parts += Parts(registers=held, adders=held, choices=held)
        return bits, parts

    def _read(self, reach: Reach) -> Parts:
        """Addresses of the lanes, what asks the banks, and what chooses among their answers."""
        nest, plan = self.unit.nest, self.plan
        bits, parts = self._address(reach)
        lanes = nest.lanes if reach.lane_stride else 1
        banks = plan.banks[reach.variable]
        depth_bits = max(0, bits - address_bits(banks)) if banks > 1 else bits
        visited = visited_banks(reach, nest, plan.loops, banks)[:lanes]
        parts += self._shifted(bits, visited) + self._asking(reach.variable, visited, depth_bits, write=False)
        stored = plan.memories[reach.variable][1]
        for banks_of_lane in visited:
            if len(banks_of_lane) > 1:
                parts += Parts(picks=stored * (len(banks_of_lane) - 1), registers=address_bits(banks))
        return parts

    def _shifted(self, bits: int, visited: Sequence[frozenset[int]]) -> Parts:
        """The addresses of the lanes beside the first; those that never leave their bank have the first one's."""
        return Parts(adders=bits * sum(len(banks) > 1 for banks in visited[1:]))

    def _asking(self, name: str, visited: Sequence[frozenset[int]], bits: int, write: bool) -> Parts:
        """AND-OR of what lanes say to banks; who is alone is just connected."""
        shared = others_reach(name, self.unit, self.plan, write)
        asks = sum(len(banks) for banks in visited)
        alone = 0 if shared else len(frozenset().union(*visited))
        selects = sum(len(banks) for banks in visited if len(banks) > 1)
        return Parts(requests=bits * max(0, asks - alone), choices=selects)

    def _padding(self, bits: int) -> Parts:
        total = Parts()
        for edge in self.unit.nest.inside:
            place = address_bits(2 * edge.extent) + 1
            total += Parts(registers=place, adders=3 * place)
        return total + Parts(choices=bits * self.unit.nest.lanes / 2) if self.unit.nest.inside else total

    def _arithmetic(self, widths: Sequence[int]) -> Parts:
        unit, lanes = self.unit, self.unit.nest.lanes
        bits = self.plan.memories[unit.nest.write.variable][1]
        result = Parts(registers=bits * unit.cycles[UnitPart.SCALE])
        match unit.kind:
            case UnitKind.SUM:
                return self._sums(widths, result)
            case UnitKind.NORM:
                square = product_parts(widths[0], widths[0], 33, False, self.family)
                root = Parts(registers=3 * ROOT_BITS + 5, adders=2 * ROOT_BITS + 5, choices=3 * ROOT_BITS)
                return square + root + Parts(registers=33 + 2 * widths[0], adders=33, choices=17)
            case UnitKind.QUOTIENT:
                return self._quotients(widths, result)
            case UnitKind.LARGEST:
                kept = Parts(registers=widths[0], adders=widths[0], choices=widths[0])
                return (result + kept + self._scaled(widths[0])) * lanes
            case UnitKind.FIRST_LARGEST:
                counted = address_bits(unit.nest.steps + 1)
                return Parts(registers=widths[0] + 2 * counted + bits, adders=widths[0] + counted, choices=counted)
            case UnitKind.ELEMENTS:
                return self._element(widths) * lanes

    def _sums(self, widths: Sequence[int], result: Parts) -> Parts:
        """Products, terms, their sum, and the result scaled."""
        unit, nest = self.unit, self.unit.nest
        shift, kept = int(self.row[Column.SHIFT_TERM]), self.used_bits()
        product = min(widths[0] + widths[1], kept + max(0, shift), self.accumulator)
        accumulator = kept
        term = min(kept, max(1, product - shift))
        lane = product_parts(*self.multiplied(widths, product), self.soft, self.family)
        if self.rounding is Rounding.FLOOR:
            product = term
        lane += Parts(registers=product * unit.cycles[UnitPart.PRODUCT]) + down_parts(product, shift, self.rounding)
        terms, lanes = Parts(registers=term * unit.cycles.get(UnitPart.TERMS, 0)), nest.lanes
        shared = Parts()
        if nest.gathers_lanes:
            shared, lanes = Parts(adders=(lanes - 1) * min(accumulator, term + 2)), 1
        levels = halving_levels(int(self.row[Column.HALVINGS]), nest)
        rounded = down_parts(accumulator, 1, self.rounding)
        level = Parts(registers=2 * accumulator + 3, adders=accumulator, choices=accumulator / 2) + rounded + rounded
        sums = Parts(registers=accumulator + 1, adders=accumulator, choices=accumulator / 2)
        sums += terms + level * levels + result + self._scaled(accumulator)
        return lane * nest.lanes + shared + sums * lanes

    def used_bits(self) -> int:
        """Bits of an accumulator that the result needs; rounding toward zero needs its sign."""
        shift = int(self.row[Column.SHIFT_OUT])
        if shift > 0 and self.rounding is Rounding.TOWARD_ZERO:
            return self.accumulator
        stored = self.plan.memories[self.unit.nest.write.variable][1]
        return max(1, min(self.accumulator, stored + shift))

    def _scaled(self, bits: int) -> Parts:
        return down_parts(bits, int(self.row[Column.SHIFT_OUT]), self.rounding)

    def _element(self, widths: Sequence[int]) -> Parts:
        """One lane of an operation whose results are computed each from its operands."""
        operation, registers = self.unit.operation, self.unit.cycles.get(UnitPart.PRODUCT, 0)
        wide = max(widths, default=1)
        stored = self.plan.memories[self.unit.nest.write.variable][1]
        match operation:
            case ir.TableFunction():
                table = self.plan.batch.functions[int(self.row[Column.FUNCTION])]
                result = min(stored, table.scale + 2 - int(self.row[Column.SHIFT_OUT]))
                return self._table(widths[0]) + self._scaled(table.scale + 1) + Parts(registers=max(1, result))
            case ir.Multiply():
                product = min(widths[0] + widths[1], self.accumulator)
                made, wide = product_parts(*self.multiplied(widths), self.soft, self.family), product
            case ir.Add() | ir.Subtract():
                made, wide = Parts(adders=wide + 1), min(wide + 1, self.accumulator)
            case ir.Fill() | ir.Copy():
                made = Parts()
            case _:
                made = Parts(choices=wide, adders=0 if isinstance(operation, ir.Select | ir.Relu) else wide)
        needed = max(1, min(stored, wide - int(self.row[Column.SHIFT_OUT])))
        return made + Parts(registers=wide * registers + needed) + self._scaled(wide)

    def _table(self, bits: int) -> Parts:
        """An exponential from its tables, and the division that a sigmoid or a tangent ends with."""
        table = self.plan.batch.functions[int(self.row[Column.FUNCTION])]
        cycles = self.unit.cycles
        place, third = address_bits(table.limit + 1), cycles[UnitPart.OPERANDS] // 3
        total = Parts(adders=bits + 1 + place, choices=place, registers=third * (2 * bits + place))
        arrays = table.shifted_arrays(self.rounding)
        reachable = arrays[0][: (table.limit >> table.coarse_shift) + 1]
        widths = []
        for entries in (reachable, arrays[1]) if table.fine else (reachable,):
            width = value_bits(min(entries), max(entries))
            widths.append(width)
            total += rom_parts(len(entries), width, self.family, smooth=True) + Parts(
                registers=width * (cycles[UnitPart.TABLE] - 1)
            )
        if table.fine:
            product = min(sum(widths), table.product_bits)
            total += product_parts(widths[0], widths[1], product, False, self.family)
            total += down_parts(product, table.product_shift, self.rounding)
            total += Parts(registers=product * cycles[UnitPart.PRODUCT])
        if UnitPart.DIVIDE in cycles:
            total += self._division(table.scale + 2, table.scale, table.scale)
        return total

    def _quotients(self, widths: Sequence[int], result: Parts) -> Parts:
        """Divisions by one norm, which their lanes have in common as well as what counts their steps."""
        scale = int(self.row[Column.SHIFT_B])
        lane = result + self._division(widths[1], scale, widths[0])
        counter = address_bits(scale + 2)
        shared = Parts(registers=widths[1] + counter, adders=counter)
        return lane * self.unit.nest.lanes + shared * (1 - self.unit.nest.lanes)

    def _division(self, divisor: int, scale: int, numerator: int) -> Parts:
        """A quotient bit by bit, its sign before and after."""
        rest, digits = max(divisor, numerator) + 1, scale + 1
        counter = address_bits(digits + 1)
        return Parts(
            registers=divisor + rest + digits + counter + 2,
            adders=2 * rest + digits + counter + numerator,
            choices=rest + digits,
        )

    def _write(self) -> Parts:
        unit, nest, plan = self.unit, self.unit.nest, self.plan
        reach, stored = nest.write, plan.memories[nest.write.variable][1]
        bits, parts = self._address(reach)
        if any(stride for extent, stride in zip(nest.extents, reach.strides, strict=True) if extent > 1):
            parts += Parts(registers=bits * self.latency)
        banks = plan.banks[reach.variable]
        depth_bits = max(0, bits - address_bits(banks)) if banks > 1 else bits
        visited = visited_banks(reach, nest, plan.loops, banks)
        if unit.serial:
            queued = nest.lanes * stored
            parts += Parts(registers=queued + bits, choices=queued, adders=bits)
            return parts + self._asking(reach.variable, [frozenset().union(*visited)], depth_bits + stored, write=True)
        lanes = 1 if nest.gathers_lanes or not reach.lane_stride else nest.lanes
        parts += self._shifted(bits, visited[:lanes])
        return parts + self._asking(reach.variable, visited[:lanes], depth_bits + stored, write=True)
