"""The integer arithmetic of fixed-point programs on signals: exact widths, wrap-around where the program says so, its rounding."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed

from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.ir.numbers import Constant


def constant(value: int) -> Value:
    """A signed constant of as few bits as it needs."""
    return Const(value, signed(signed_bits(value, value)))


def signed_bits(low: int, high: int) -> int:
    """Bits of two's complement that hold both."""
    return 1 + max((-low - 1 if low < 0 else low).bit_length(), (-high - 1 if high < 0 else high).bit_length())


def wrap(value: Value, bits: int) -> Value:
    """Two's complement of the low `bits` bits."""
    shape = value.shape()
    if shape.width < bits or (shape.width == bits and shape.signed):
        return value
    return value[:bits].as_signed()


def down(value: Value, shift: int, rounding: Rounding) -> Value:
    """`value / 2**shift`, rounded; a negative shift multiplies."""
    if shift <= 0:
        return value.shift_left(-shift)
    if rounding is Rounding.TOWARD_ZERO and value.shape().signed:
        return (value + Mux(value < 0, (1 << shift) - 1, 0)).shift_right(shift)
    if rounding is Rounding.NEAREST:
        return (value + (1 << (shift - 1))).shift_right(shift)
    return value.shift_right(shift)


def delayed(m: Module, value: Value, cycles: int, name: str) -> Value:
    """The value as it was so many cycles ago."""
    for cycle in range(cycles):
        held = Signal(value.shape(), name=f"{name}_{cycle + 1}", reset_less=True)
        m.d.sync += held.eq(value)
        value = held
    return value


def delayed_flag(m: Module, flag: Value, cycles: int, name: str) -> Value:
    """As `delayed`, and low after a reset."""
    for cycle in range(cycles):
        held = Signal(name=f"{name}_{cycle + 1}")
        m.d.sync += held.eq(flag)
        flag = held
    return flag


def combined(values: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Neighbours combined level by level."""
    level = list(values)
    while len(level) > 1:
        level = [combine(*level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]


def product(m: Module, a: Value, b: Value, bits: int, soft: bool, cycles: int, name: str) -> Value:
    """Two signed values multiplied, wrapped to `bits`, so many cycles later: by a multiplier of the board, or `soft`, as a tree of sums of
    one shifted by the places of the other, which has its first register half the way down where there are two. Yosys spends half as many
    look-up tables again on a multiplication that it is given as one."""
    if not soft:
        return delayed(m, wrap(a * b, bits), cycles, name)
    wide, narrow = (a, b) if len(a) >= len(b) else (b, a)
    rows = [Mux(narrow[place], wide, 0) << place for place in range(len(narrow))]
    rows[-1] = -rows[-1]
    if cycles > 1:
        several = 1 << ((len(rows) - 1).bit_length() // 2)
        sums = [combined(rows[first : first + several], operator.add) for first in range(0, len(rows), several)]
        rows = [delayed(m, value, cycles - 1, f"{name}_part{number}") for number, value in enumerate(sums)]
    return delayed(m, wrap(combined(rows, operator.add), bits), min(cycles, 1), name)


@dataclass(frozen=True)
class Signals:
    """Pointwise operators on signals: `codegen.ir.numbers` over values of any width."""

    rounding: Rounding
    accumulator_bits: int

    def negative(self, a: Value) -> Value:
        return wrap(-a, self.accumulator_bits)

    def positive(self, a: Value) -> Value:
        return Mux(a > 0, a, 0)

    def clip(self, a: Value, limit: Constant) -> Value:
        most = constant(int(limit))
        return Mux(a < 0, 0, Mux(a > most, most, a))

    def plus(self, a: Value, constant_term: Constant) -> Value:
        return a + constant(int(constant_term))

    def scaled(self, a: Value, factor: Constant) -> Value:
        return a * constant(int(factor))

    def times(self, a: Value, b: Value) -> Value:
        return a * b

    def down(self, a: Value, shift: Constant) -> Value:
        return down(a, int(shift), self.rounding)

    def narrow(self, a: Value, like: Value) -> Value:
        return a

    def where_negative(self, a: Value, then: Value, otherwise: Value) -> Value:
        return Mux(a < 0, then, otherwise)
