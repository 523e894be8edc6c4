"""The whole hardware of a program: a stream of features in, a stream of results out, and between them the units as the timeline says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value, signed

from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.rtl.banks import visited_banks
from kilotune.codegen.rtl.hardware.nest_unit import Surroundings, build_nest_unit
from kilotune.codegen.rtl.hardware.sparse_unit import build_sparse_unit
from kilotune.codegen.rtl.hardware.storage import Storage
from kilotune.codegen.rtl.hardware.walk import begin_walk
from kilotune.codegen.rtl.nests import Reach, StepNest
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.codegen.rtl.timeline import Start, Timeline
from kilotune.codegen.rtl.units import Item, Repeat, SparseUnit

MODULE = "model"
"""The name of the top module."""


class Machine(Elaboratable):  # type: ignore[misc]
    """Hardware of a plan, with a clock `clk` and a synchronous reset `rst`.

    A feature is taken in each cycle in which `in_valid` and `in_ready` are high. `done` rises `plan.cycles` cycles after the one in which
    the first feature is taken, where none is late, and falls when the last element of the result is taken: one in each cycle in which
    `out_valid` and `out_ready` are high.
    """

    def __init__(self, plan: HardwarePlan) -> None:
        self.plan = plan
        program = plan.batch.program
        in_bits = 1 if program.input is None else plan.memories[program.input.name][1]
        self.in_valid = Signal(name="in_valid")
        self.in_ready = Signal(name="in_ready")
        self.in_payload = Signal(signed(in_bits), name="in_payload")
        self.out_valid = Signal(name="out_valid")
        self.out_ready = Signal(name="out_ready")
        self.out_payload = Signal(signed(self._result_bits), name="out_payload")
        self.done = Signal(name="done")

    @property
    def ports(self) -> tuple[Signal, ...]:
        """Inputs and outputs, besides clock and reset."""
        return (
            self.in_valid,
            self.in_ready,
            self.in_payload,
            self.out_valid,
            self.out_ready,
            self.out_payload,
            self.done,
        )

    @property
    def _result_bits(self) -> int:
        return self.plan.memories[self.plan.batch.program.result.variable][1]

    def elaborate(self, platform: object) -> Module:
        """Build it."""
        m, plan = Module(), self.plan
        ports = dict(plan.ports)
        result = plan.batch.program.result.variable
        storages = {
            name: Storage.of(identifier(name), size, bits, plan.banks[name], ports[name] + (name == result))
            for name, (size, bits) in plan.memories.items()
        }
        indices = {
            index: Signal(range(start + count), name=f"index_{identifier(index)}")
            for index, (start, count) in plan.loops.items()
        }
        around = Surroundings(plan, storages, indices)
        loaded, taken = self._load(m, storages), Signal(name="taken")
        begin = Signal()
        m.d.sync += begin.eq(loaded)
        finished = build_body(m, around, plan.items, plan.timeline, begin)
        self._unload(m, around, finished, taken)
        busy = Signal()
        with m.If(loaded):
            m.d.sync += busy.eq(1)
        with m.Elif(taken):
            m.d.sync += busy.eq(0)
        m.d.comb += self.in_ready.eq(~busy)
        for storage in storages.values():
            storage.build(m)
        return m

    def _load(self, m: Module, storages: dict[str, Storage]) -> Value:
        """Features into the input's memory; high in the cycle of the last one."""
        beat = Signal()
        m.d.comb += beat.eq(self.in_valid & self.in_ready)
        read = self.plan.batch.program.input
        if read is None:
            return beat
        element = Signal(range(max(2, read.size)), name="feature")
        last = element == read.size - 1
        with m.If(beat):
            m.d.sync += element.eq(Mux(last, 0, element + 1))
        banks = self.plan.banks[read.name]
        storages[read.name].write(beat, [element], [self.in_payload], [frozenset(range(min(banks, read.size)))])
        return beat & last

    def _unload(self, m: Module, around: Surroundings, finished: Value, taken: Signal) -> None:
        """The elements of the result, each two cycles after the one before it at the soonest."""
        plan = self.plan
        view = plan.batch.program.result
        loops = iterate([view])
        with m.If(finished):
            m.d.sync += self.done.eq(1)
        with m.Elif(taken):
            m.d.sync += self.done.eq(0)
        m.submodules.result = reader = Module()
        moved = Signal()
        m.d.comb += moved.eq(self.out_valid & self.out_ready)
        walk = begin_walk(reader, finished, loops.extents, 0, 1, {}, {}, moved)
        reach = Reach(view.variable, view.offset, loops.strides[0])
        element = walk.affine(reach.offset, reach.strides, "element")
        m.d.sync += self.out_valid.eq(walk.running & ~moved)
        nest = StepNest(loops.extents, 0, (reach,), reach)
        visited = visited_banks(reach, nest, plan.loops, plan.banks[view.variable])
        data = around.storages[view.variable].read(m, plan.ports[view.variable], walk.running, [element], visited)
        m.d.comb += [self.out_payload.eq(data[0]), taken.eq(walk.final)]


def build_body(m: Module, around: Surroundings, items: Sequence[Item], timeline: Timeline, begin: Value) -> Value:
    """The units of a body, each started by the end of another one or by `begin`; high in the cycle in which all is done."""
    ends: list[Value] = []
    for number, (item, start) in enumerate(zip(items, timeline.starts, strict=True)):
        started = begin if start.after is None else ends[start.after]
        if isinstance(item, Repeat):
            ends.append(_build_loop(m, around, item, timeline.inner[number], started))
        else:
            ends.append(_build_unit(m, around, item, start, started))
    return ends[timeline.last]


def _build_unit(m: Module, around: Surroundings, unit: Item, start: Start, started: Value) -> Value:
    assert not isinstance(unit, Repeat)
    if isinstance(unit, SparseUnit):
        module, end = build_sparse_unit(around, unit, started, start.slots[unit.operation.b.variable])
    else:
        module, end = build_nest_unit(around, unit, started, start.slots)
    m.submodules[unit.name] = module
    return end


def _build_loop(m: Module, around: Surroundings, loop: Repeat, timeline: Timeline, started: Value) -> Value:
    index, name = around.indices[loop.index], identifier(loop.index)
    begin, end = Signal(name=f"begin_{name}"), Signal(name=f"end_{name}")
    m.d.comb += end.eq(build_body(m, around, loop.body, timeline, begin))
    last = index == loop.start + loop.count - 1
    m.d.sync += begin.eq(started | (end & ~last))
    with m.If(started):
        m.d.sync += index.eq(loop.start)
    with m.Elif(end & ~last):
        m.d.sync += index.eq(index + 1)
    return end & last


def identifier(name: str) -> str:
    """The name with letters, digits and underscores only."""
    return re.sub(r"\W", "_", name)
