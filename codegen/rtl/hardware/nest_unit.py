"""The hardware of a unit that walks a nest: elements are read, computed with and written, a part after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal, Value, signed

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import scale_down
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.rtl.banks import visited_banks
from kilotune.codegen.rtl.hardware.arithmetic import (
    combined,
    constant,
    delayed,
    delayed_flag,
    down,
    product,
    wrap,
)
from kilotune.codegen.rtl.hardware.division import quotient, square_root
from kilotune.codegen.rtl.hardware.elements import element_result, operand_columns, scaled_result, table_result
from kilotune.codegen.rtl.hardware.rom import make_rom, read_rom
from kilotune.codegen.rtl.hardware.storage import Storage
from kilotune.codegen.rtl.hardware.sums import TimedTerm, gather, halve, least, number_of_largest
from kilotune.codegen.rtl.hardware.walk import Walk, begin_walk
from kilotune.codegen.rtl.nests import Reach
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.codegen.rtl.units import NestUnit, UnitKind, UnitPart, halving_levels


@dataclass(frozen=True)
class Surroundings:
    """What units share: memories by variable, and the indices of loops."""

    plan: HardwarePlan
    storages: Mapping[str, Storage]
    indices: Mapping[str, Signal]


def build_nest_unit(
    around: Surroundings, unit: NestUnit, start: Value, slots: Mapping[str, tuple[int, ...]]
) -> tuple[Module, Value]:
    """The module of a unit, and the signal that is high in the cycle of its last writing. `slots`: its read ports."""
    builder = _NestBuilder(around, unit, Module(), start)
    return builder.m, builder.build(slots)


class _NestBuilder:
    """One unit while it is built."""

    def __init__(self, around: Surroundings, unit: NestUnit, m: Module, start: Value) -> None:
        self.around, self.unit, self.m = around, unit, m
        self.batch = around.plan.batch
        self.row = self.batch.rows[0, unit.row]
        self.rounding = self.batch.rounding
        self.accumulator = int(self.row[Column.ACC_BITS])
        self.soft = unit.row in around.plan.design.soft
        nest = unit.nest
        self.walk: Walk = begin_walk(
            m, start, nest.extents, nest.gathered, unit.interval, around.indices, around.plan.loops
        )

    def build(self, slots: Mapping[str, tuple[int, ...]]) -> Value:
        unit, m, cycles = self.unit, self.m, self.unit.cycles
        lanes = self._operands(slots)
        valid = delayed_flag(m, self.walk.step, cycles[UnitPart.READ], "read")
        if unit.kind in (UnitKind.ELEMENTS, UnitKind.QUOTIENT):
            results = [self._element(values, valid, f"lane{lane}") for lane, values in enumerate(lanes)]
        else:
            results = self._gathered(lanes, valid)
        bits = self.around.plan.memories[unit.nest.write.variable][1]
        stored = []
        for lane, value in enumerate(results):
            result: Value = Signal(signed(bits), name=f"result{lane}", reset_less=True)
            if cycles[UnitPart.SCALE]:
                m.d.sync += result.eq(value)
            else:
                m.d.comb += result.eq(value)
            stored.append(result)
        return self._write(stored)

    def _operands(self, slots: Mapping[str, tuple[int, ...]]) -> list[list[Value]]:
        """The operands of each lane, READ cycles after the step, shifted down and there OPERANDS cycles later."""
        m, nest = self.m, self.unit.nest
        columns = operand_columns(self.unit.operation)
        if self.unit.kind is UnitKind.QUOTIENT:
            columns = (*columns, (None, None))
        by_operand: list[list[Value]] = []
        taken: dict[Reach, list[Value]] = {}
        for number, (reach, (shift, literal)) in enumerate(zip(nest.reads, columns, strict=True)):
            by = 0 if shift is None else int(self.row[shift])
            if reach is None:
                assert literal is not None
                by_operand.append([constant(int(self.row[literal]))] * nest.lanes)
                continue
            if reach.variable in self.around.plan.constants:
                values = self._parameter(reach, by, f"operand{number}")
            else:
                if reach not in taken:
                    slot = slots[reach.variable][sum(r.variable == reach.variable for r in taken)]
                    taken[reach] = self._variable(reach, slot, f"operand{number}")
                values = [down(value, by, self.rounding) for value in taken[reach]]
            if number == 0:
                values = self._padded(values)
            if not isinstance(self.unit.operation, ir.TableFunction):  # whose arguments are clamped in the same part
                later = self.unit.cycles.get(UnitPart.OPERANDS, 0)
                values = [delayed(m, v, later, f"operand{number}_lane{lane}") for lane, v in enumerate(values)]
            by_operand.append(values)
        return [[values[lane] for values in by_operand] for lane in range(nest.lanes)]

    def _variable(self, reach: Reach, slot: int, name: str) -> list[Value]:
        plan, nest = self.around.plan, self.unit.nest
        element = self.walk.affine(reach.offset, reach.strides, f"{name}_element")
        elements = [element + lane * reach.lane_stride for lane in range(nest.lanes)]
        visited = visited_banks(reach, nest, plan.loops, plan.banks[reach.variable])
        return self.around.storages[reach.variable].read(self.m, slot, self.walk.running, elements, visited)

    def _parameter(self, reach: Reach, shift: int, name: str) -> list[Value]:
        plan, nest = self.around.plan, self.unit.nest
        values = scale_down(plan.constants[reach.variable], shift, self.rounding)
        rom = make_rom(reach, nest, plan.loops, values)
        address = self.walk.affine(rom.offset, rom.strides, f"{name}_word")
        return read_rom(self.m, rom, address, nest.lanes, f"{name}_rom")

    def _padded(self, values: Sequence[Value]) -> list[Value]:
        """What lies outside of the image is 0 in a sum, and never the largest."""
        inside: Value | None = None
        for number, edge in enumerate(self.unit.nest.inside):
            place = self.walk.affine(ir.Affine(edge.offset), edge.strides, f"place{number}", wrapping=False)
            here = (place >= 0) & (place < edge.extent)
            inside = here if inside is None else inside & here
        if inside is None:
            return list(values)
        inside = delayed(self.m, inside, self.unit.cycles[UnitPart.READ], "inside")
        outside = [least(len(v)) if self.unit.kind is UnitKind.LARGEST else constant(0) for v in values]
        return [Mux(inside, value, other) for value, other in zip(values, outside, strict=True)]

    def _element(self, values: Sequence[Value], valid: Value, name: str) -> Value:
        m, operation, cycles = self.m, self.unit.operation, self.unit.cycles
        if self.unit.kind is UnitKind.QUOTIENT:
            value = self._quotient(values, delayed_flag(m, valid, cycles[UnitPart.OPERANDS], f"{name}_operands"), name)
        elif isinstance(operation, ir.TableFunction):
            table = self.batch.functions[int(self.row[Column.FUNCTION])]
            value = table_result(m, operation, values[0], valid, table, self.rounding, cycles, name)
        elif isinstance(operation, ir.Multiply):
            later = cycles[UnitPart.PRODUCT]
            value = product(m, values[0], values[1], self.accumulator, self.soft, later, f"{name}_value")
        else:
            assert isinstance(operation, ir.Elementwise)
            value = element_result(operation, values, self.rounding, self.row)
            value = delayed(m, value, cycles[UnitPart.PRODUCT], f"{name}_value")
        return scaled_result(value, self.row, self.rounding, isinstance(operation, ir.INTEGER_RESULTS))

    def _quotient(self, values: Sequence[Value], valid: Value, name: str) -> Value:
        """An element divided by the norm of its row."""
        m, scale = self.m, int(self.row[Column.SHIFT_B])
        value, norm = values
        magnitude = Mux(value < 0, -value, value).as_unsigned()
        ratio = quotient(m, valid, magnitude.shift_left(scale), norm.as_unsigned(), scale, name)
        sign = Signal(2, name=f"{name}_sign", reset_less=True)
        with m.If(valid):
            m.d.sync += sign.eq(Mux(norm == 0, 0, Mux(value < 0, 2, 1)))
        return Mux(sign == 0, 0, Mux(sign == 2, -ratio, ratio))

    def _gathered(self, lanes: list[list[Value]], valid: Value) -> list[Value]:
        m, unit, cycles = self.m, self.unit, self.unit.cycles
        last = delayed_flag(m, self.walk.last, cycles[UnitPart.READ] + cycles.get(UnitPart.OPERANDS, 0), "last")
        valid = delayed_flag(m, valid, cycles.get(UnitPart.OPERANDS, 0), "operands")
        if unit.kind is UnitKind.LARGEST:
            return [self._largest(TimedTerm(values[0], valid, last), f"lane{n}") for n, values in enumerate(lanes)]
        if unit.kind is UnitKind.FIRST_LARGEST:
            return [number_of_largest(m, TimedTerm(lanes[0][0], valid, last), unit.nest.steps, "first")]
        after = cycles[UnitPart.PRODUCT] + cycles.get(UnitPart.TERMS, 0)
        valid, last = delayed_flag(m, valid, after, "term_valid"), delayed_flag(m, last, after, "term_last")
        if unit.kind is UnitKind.NORM:
            return [self._norm(lanes[0][0], valid, last)]
        terms = self._terms(lanes)
        return [self._sum(TimedTerm(term, valid, last), f"lane{n}") for n, term in enumerate(terms)]

    def _terms(self, lanes: list[list[Value]]) -> list[Value]:
        """Products shifted down, one a lane; added up where lanes are terms of one sum."""
        m, cycles = self.m, self.unit.cycles
        shift, terms = int(self.row[Column.SHIFT_TERM]), []
        for lane, (a, b) in enumerate(lanes):
            whole = product(m, a, b, self.accumulator, self.soft, cycles[UnitPart.PRODUCT], f"product{lane}")
            terms.append(down(whole, shift, self.rounding))
        if self.unit.nest.gathers_lanes:
            terms = [wrap(combined(terms, lambda x, y: x + y), self.accumulator)]
        return [delayed(m, term, cycles[UnitPart.TERMS], f"term{n}") for n, term in enumerate(terms)]

    def _sum(self, term: TimedTerm, name: str) -> Value:
        for level in range(halving_levels(int(self.row[Column.HALVINGS]), self.unit.nest)):
            term = halve(self.m, term, self.accumulator, self.rounding, f"{name}_level{level}")
        total = gather(self.m, term, self.accumulator, lambda x, y: wrap(x + y, self.accumulator), name)
        return scaled_result(total, self.row, self.rounding, exact=False)

    def _largest(self, term: TimedTerm, name: str) -> Value:
        total = gather(self.m, term, len(term.value), lambda x, y: Mux(y > x, y, x), name)
        return scaled_result(total, self.row, self.rounding, exact=False)

    def _norm(self, value: Value, valid: Value, last: Value) -> Value:
        m, cycles = self.m, self.unit.cycles
        square = delayed(m, value * value, cycles[UnitPart.PRODUCT], "square")
        squares = gather(m, TimedTerm(square, valid, last), 33, lambda x, y: x + y, "squares")
        there = delayed_flag(m, valid & last, cycles[UnitPart.GATHER], "squares_there")
        return square_root(m, there, squares.as_unsigned(), "norm")

    def _write(self, results: Sequence[Value]) -> Value:
        """Results where they belong, in the cycle in which they are there; high in the cycle of the last one."""
        unit, m, plan = self.unit, self.m, self.around.plan
        reach, after = unit.nest.write, sum(unit.cycles.values())
        element = delayed(m, self.walk.affine(reach.offset, reach.strides, "written"), after, "written")
        when, final = self._written(after)
        storage = self.around.storages[reach.variable]
        visited = visited_banks(reach, unit.nest, plan.loops, plan.banks[reach.variable])
        if not unit.serial:
            elements = [element + lane * reach.lane_stride for lane in range(len(results))]
            storage.write(when, elements, results, visited[: len(results)])
            return final
        return self._write_serially(results, element, when, final, frozenset().union(*visited))

    def _written(self, after: int) -> tuple[Value, Value]:
        """When results are there, and the last of them: as many cycles after an element's last step as its parts take."""
        when = delayed_flag(self.m, self.walk.last, after, "there")
        return when, delayed_flag(self.m, self.walk.final, after, "final")

    def _write_serially(
        self, results: Sequence[Value], element: Value, when: Value, final: Value, visited: frozenset[int]
    ) -> Value:
        """The lanes' results one after the other, from the next cycle on."""
        m, reach, lanes = self.m, self.unit.nest.write, len(results)
        queue = [Signal.like(result, name=f"queued{n}") for n, result in enumerate(results)]
        target = Signal(len(element) + (lanes * abs(reach.lane_stride)).bit_length(), name="target", reset_less=True)
        left, ending = Signal(range(lanes + 1), name="left"), Signal(name="ending")
        with m.If(when):
            m.d.sync += [q.eq(result) for q, result in zip(queue, results, strict=True)]
            m.d.sync += [target.eq(element), left.eq(lanes), ending.eq(final)]
        with m.Elif(left != 0):
            m.d.sync += [q.eq(following) for q, following in pairwise(queue)]
            m.d.sync += [target.eq(target + reach.lane_stride), left.eq(left - 1)]
        self.around.storages[reach.variable].write(left != 0, [target], [queue[0]], [visited])
        return ending & (left == 1)
