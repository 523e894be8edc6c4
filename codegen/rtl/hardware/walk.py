"""Counters of a nest, and registers that hold an affine function of them: one addition a step, no multiplication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed, unsigned

from kilotune.codegen import ir
from kilotune.codegen.rtl.hardware.arithmetic import signed_bits


@dataclass(frozen=True)
class Walk:
    """A nest that is being walked. `step`: a step is made in this cycle; `turns[d]`: its counter d moves on; `last`: the step is the
    last of an element of the result; `final`: of all."""

    m: Module
    start: Value
    running: Value
    step: Value
    turns: tuple[Value, ...]
    last: Value
    final: Value
    extents: tuple[int, ...]
    indices: Mapping[str, Signal]
    loops: Mapping[str, tuple[int, int]]

    def affine(self, offset: ir.Affine, strides: Sequence[int], name: str, wrapping: bool = True) -> Value:
        """`offset + sum(counter * stride)` at each step. `wrapping`: as an element number, whose low bits alone matter."""
        ends = [((e - 1) * s) for e, s in zip(self.extents, strides, strict=True)]
        for index, factor in offset.terms:
            first, count = self.loops[index]
            ends += [first * factor, 0] if count == 1 else [first * factor, (count - 1) * factor]
        low = offset.constant + sum(min(end, 0) for end in ends)
        high = offset.constant + sum(max(end, 0) for end in ends)
        shape = unsigned(max(high, 1).bit_length()) if wrapping else signed(signed_bits(low, high))
        begin: Value = Const(offset.constant, signed(signed_bits(offset.constant, offset.constant)))
        for index, factor in offset.terms:
            begin = begin + self.indices[index] * factor
        if all(move == 0 for move in strides) or all(e == 1 for e in self.extents):
            held = Signal(shape, name=name)
            self.m.d.comb += held.eq(begin)
            return held
        held = Signal(shape, name=name, reset_less=True)
        with self.m.If(self.start):
            self.m.d.sync += held.eq(begin)
        with self.m.Elif(self.step):
            self.m.d.sync += held.eq(held + self._move(strides))
        return held

    def _move(self, strides: Sequence[int]) -> Value:
        """By how much the next step is ahead: of the outermost counter that moves on, less what the inner ones have walked."""
        back, moves = 0, []
        for axis in reversed(range(len(self.extents))):
            if self.extents[axis] > 1:
                moves.append((axis, strides[axis] - back))
                back += (self.extents[axis] - 1) * strides[axis]
        width = signed_bits(min(0, *(move for _, move in moves)), max(0, *(move for _, move in moves)))
        chosen: Value = Const(moves[0][1], signed(width))
        if any(move != moves[0][1] for _, move in moves):
            for axis, move in moves[1:]:
                chosen = Mux(self.turns[axis], Const(move, signed(width)), chosen)
        return chosen


def begin_walk(
    m: Module,
    start: Value,
    extents: tuple[int, ...],
    gathered: int,
    interval: int,
    indices: Mapping[str, Signal],
    loops: Mapping[str, tuple[int, int]],
    paced: Value | None = None,
) -> Walk:
    """Counters that run once through `extents` after `start`, a step every `interval` cycles, or when `paced` says. The innermost
    `gathered` belong to one element of the result."""
    running, step = Signal(name="running"), Signal(name="step")
    if paced is not None:
        m.d.comb += step.eq(running & paced)
    elif interval > 1:
        waited = Signal(range(interval), name="waited")
        m.d.comb += step.eq(running & (waited == 0))
        with m.If(running):
            m.d.sync += waited.eq(Mux(waited == interval - 1, 0, waited + 1))
        with m.Else():
            m.d.sync += waited.eq(0)
    else:
        m.d.comb += step.eq(running)
    inner: Value = Const(1, 1)
    last: Value = inner
    turns: list[Value] = []
    for axis in reversed(range(len(extents))):
        turn, full = Signal(name=f"turn{axis}"), Signal(name=f"full{axis}")
        m.d.comb += turn.eq(inner)
        turns.insert(0, turn)
        if extents[axis] > 1:
            counter = Signal(range(extents[axis]), name=f"counter{axis}")
            m.d.comb += full.eq(inner & (counter == extents[axis] - 1))
            with m.If(step & inner):
                m.d.sync += counter.eq(Mux(full, 0, counter + 1))
        else:
            m.d.comb += full.eq(inner)
        inner = full
        if axis == len(extents) - gathered:
            last = full
    with m.If(start):
        m.d.sync += running.eq(1)
    with m.Elif(step & inner):
        m.d.sync += running.eq(0)
    return Walk(m, start, running, step, tuple(turns), step & last, step & inner, extents, indices, loops)
