"""The hardware of a sparse product: processing elements that follow lists of non-zero values, and the sum over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from amaranth.hdl import Array, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib.memory import Memory

from kilotune.codegen import ir
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.rtl.banks import visited_banks
from kilotune.codegen.rtl.hardware.arithmetic import delayed, delayed_flag, down, product, signed_bits, wrap
from kilotune.codegen.rtl.hardware.elements import scaled_result
from kilotune.codegen.rtl.hardware.nest_unit import Surroundings
from kilotune.codegen.rtl.hardware.rom import pack
from kilotune.codegen.rtl.hardware.walk import Walk, begin_walk
from kilotune.codegen.rtl.nests import Reach, StepNest
from kilotune.codegen.rtl.processing import ElementStep
from kilotune.codegen.rtl.units import SparseUnit, UnitPart


def build_sparse_unit(
    around: Surroundings, unit: SparseUnit, start: Value, slots: Sequence[int]
) -> tuple[Module, Value]:
    """The module of a unit, and the signal that is high in the cycle of its last writing. `slots`: a read port for each element."""
    builder = _SparseBuilder(around, unit, Module())
    return builder.m, builder.build(start, slots)


class _SparseBuilder:
    """One unit while it is built."""

    def __init__(self, around: Surroundings, unit: SparseUnit, m: Module) -> None:
        self.around, self.unit, self.m = around, unit, m
        batch = around.plan.batch
        self.row, self.rounding = batch.rows[0, unit.row], batch.rounding
        self.accumulator = int(self.row[Column.ACC_BITS])

    def build(self, start: Value, slots: Sequence[int]) -> Value:
        m, unit = self.m, self.unit
        walk = begin_walk(m, start, (unit.busy,), 1, 1, {}, {})
        step = walk.affine(ir.Affine(), (1,), "step_number")
        busy = sum(unit.cycles.values())
        m.submodules.closing = closing = Module()
        # a cycle before the accumulators are read, whose addresses have a register
        closes, plan = delayed_flag(m, walk.final, busy - 1, "closes"), self.around.plan
        rows = begin_walk(closing, closes, (unit.rows,), 1, 1, self.around.indices, plan.loops)
        row = rows.affine(ir.Affine(), (1,), "row")
        sums = [
            self._element(number, steps, walk.step, step, slot, rows.running, row)
            for number, (steps, slot) in enumerate(zip(unit.steps, slots, strict=True))
        ]
        return self._close(sums, rows)

    def _element(
        self,
        number: int,
        steps: Sequence[ElementStep],
        active: Value,
        step: Value,
        slot: int,
        closing: Value,
        row: Value,
    ) -> Value:
        """A processing element; what it has summed of `row`, a cycle after it is `closing`."""
        m, unit, name = self.m, self.unit, f"element{number}"
        values = np.array([s.value for s in steps] or [0])
        width = signed_bits(int(values.min()), int(values.max()))
        columns = max((s.column for s in steps), default=0).bit_length()
        row_bits = max(1, (unit.rows - 1).bit_length())
        fields = np.array([[s.value, s.column, s.row, s.first, 1] for s in steps] or [[0, 0, 0, 0, 0]])
        words = [
            (first << 1 | valid)
            | (r << 2)
            | (column << (2 + row_bits))
            | pack(np.array([[value]]), width)[0] << (2 + row_bits + columns)
            for value, column, r, first, valid in fields.tolist()
        ]
        memory = Memory(shape=unsigned(2 + row_bits + columns + width), depth=unit.busy, init=words)
        m.submodules[f"{name}_list"] = memory
        port = memory.read_port()
        m.d.comb += port.addr.eq(step)
        entry = port.data
        valid, first = entry[0] & delayed_flag(m, active, 1, f"{name}_active"), entry[1]
        to, column = entry[2 : 2 + row_bits], entry[2 + row_bits : 2 + row_bits + columns]
        x = self._vector(column, steps, valid, slot)
        value = delayed(m, entry[2 + row_bits + columns :].as_signed(), 1, f"{name}_value")
        later = sum(unit.cycles.values()) - 1
        valid, first = delayed_flag(m, valid, later, f"{name}_valid"), delayed(m, first, later, f"{name}_first")
        to = delayed(m, to, later - 1, f"{name}_row")
        term = self._term(value, x, name)
        address = delayed(m, Mux(closing, row, to), 1, f"{name}_address")
        return self._accumulate(
            term,
            valid,
            first,
            delayed(m, to, 1, f"{name}_to"),
            address,
            delayed(m, row, 1, f"{name}_closed"),
            steps,
            name,
        )

    def _vector(self, column: Value, steps: Sequence[ElementStep], active: Value, slot: int) -> Value:
        plan, view = self.around.plan, self.unit.operation.b
        banks = plan.banks[view.variable]
        elements = sorted({s.column for s in steps})
        visited: frozenset[int] = frozenset({0})
        if elements:
            reach = Reach(view.variable, view.offset, (view.strides[0],))
            visited = visited_banks(reach, StepNest((view.shape[0],), 0, (), reach), plan.loops, banks)[0]
        element = column * view.strides[0] + view.offset.constant
        for index, factor in view.offset.terms:
            element = element + self.around.indices[index] * factor
        return self.around.storages[view.variable].read(self.m, slot, active, [element], [visited])[0]

    def _term(self, value: Value, x: Value, name: str) -> Value:
        cycles, row = self.unit.cycles, self.row
        x = delayed(self.m, down(x, int(row[Column.SHIFT_B]), self.rounding), cycles[UnitPart.OPERANDS], f"{name}_x")
        value = delayed(self.m, value, cycles[UnitPart.OPERANDS], f"{name}_weight")
        soft = self.unit.row in self.around.plan.design.soft
        whole = product(self.m, value, x, self.accumulator, soft, cycles[UnitPart.PRODUCT], f"{name}_product")
        term = down(whole, int(row[Column.SHIFT_TERM]), self.rounding)
        return delayed(self.m, term, cycles[UnitPart.TERMS], f"{name}_term")

    def _accumulate(
        self,
        term: Value,
        valid: Value,
        first: Value,
        to: Value,
        address: Value,
        row: Value,
        steps: Sequence[ElementStep],
        name: str,
    ) -> Value:
        m = self.m
        memory = Memory(shape=signed(self.accumulator), depth=self.unit.rows, init=[])
        m.submodules[f"{name}_sums"] = memory
        reader, writer = memory.read_port(domain="comb"), memory.write_port()
        m.d.comb += [
            reader.addr.eq(address),
            writer.en.eq(valid),
            writer.addr.eq(to),
            writer.data.eq(Mux(first, 0, reader.data) + term),
        ]
        touched = {s.row for s in steps}
        if len(touched) == self.unit.rows:
            return reader.data
        has = Array(Const(int(r in touched), 1) for r in range(self.unit.rows))[row]
        return Mux(has, reader.data, 0)

    def _close(self, sums: Sequence[Value], rows: Walk) -> Value:
        """Rows summed over all elements, scaled and written, one a cycle."""
        m, unit, out = self.m, self.unit, self.unit.operation.out
        level, depth = list(sums), 0
        while len(level) > 1:
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            added = [wrap(p[0] + p[1], self.accumulator) if len(p) > 1 else p[0] for p in pairs]
            level = [delayed(m, value, 1, f"level{depth}_{n}") for n, value in enumerate(added)]
            depth += 1
        bits = self.around.plan.memories[out.variable][1]
        result = Signal(signed(bits), name="result", reset_less=True)
        m.d.sync += result.eq(scaled_result(level[0], self.row, self.rounding, exact=False))
        later = 1 + unit.closing
        when, ends = delayed_flag(m, rows.step, later, "there"), delayed_flag(m, rows.final, later, "final")
        nest = StepNest((unit.rows,), 0, (), Reach(out.variable, out.offset, (out.strides[0],)))
        plan = self.around.plan
        visited = visited_banks(nest.write, nest, plan.loops, plan.banks[out.variable])
        element = delayed(m, rows.affine(out.offset, nest.write.strides, "written"), later, "written")
        self.around.storages[out.variable].write(when, [element], [result], visited)
        return ends
