"""What is gathered from the steps of a nest: sums, SeeDot's tree sums, the largest element and its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed

from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.rtl.hardware.arithmetic import down, wrap


@dataclass(frozen=True)
class TimedTerm:
    """A value in a cycle that is `valid`; the `last` one of an element of the result."""

    value: Value
    valid: Value
    last: Value


def halve(m: Module, term: TimedTerm, accumulator: int, rounding: Rounding, name: str) -> TimedTerm:
    """A level of TreeSum: pairs of neighbours halved and added; the last one alone where it has no neighbour. A cycle later."""
    held = Signal(signed(accumulator), name=f"{name}_held", reset_less=True)
    waiting = Signal(name=f"{name}_waiting")
    total = Signal(signed(accumulator), name=f"{name}_sum", reset_less=True)
    valid, last = Signal(name=f"{name}_valid"), Signal(name=f"{name}_last")
    half = down(term.value, 1, rounding)
    m.d.sync += [
        total.eq(wrap(Mux(waiting, down(held, 1, rounding), 0) + half, accumulator)),
        valid.eq(term.valid & (waiting | term.last)),
        last.eq(term.last),
    ]
    with m.If(term.valid):
        m.d.sync += [held.eq(term.value), waiting.eq(~waiting & ~term.last)]
    return TimedTerm(total, valid, last)


def gather(m: Module, term: TimedTerm, bits: int, combine: Callable[[Value, Value], Value], name: str) -> Value:
    """Terms combined in order with the first one of an element; there a cycle after its last one, of `bits` signed bits."""
    total = Signal(signed(bits), name=f"{name}_total", reset_less=True)
    begun = Signal(name=f"{name}_begun")
    with m.If(term.valid):
        m.d.sync += [total.eq(Mux(begun, combine(total, term.value), term.value)), begun.eq(~term.last)]
    return total


def number_of_largest(m: Module, term: TimedTerm, count: int, name: str) -> Value:
    """The number of the first largest of `count` terms, a cycle after the last one."""
    largest = Signal(term.value.shape(), name=f"{name}_largest", reset_less=True)
    number, best = Signal(range(count + 1), name=f"{name}_number"), Signal(range(count + 1), name=f"{name}_best")
    with m.If(term.valid):
        m.d.sync += number.eq(Mux(term.last, 0, number + 1))
        with m.If((number == 0) | (term.value > largest)):
            m.d.sync += [largest.eq(term.value), best.eq(number)]
    return best


def least(bits: int) -> Value:
    """The least number of so many bits."""
    return Const(-(1 << (bits - 1)), signed(bits))
