"""Divisions and square roots, a bit a cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned

from kilotune.codegen.rtl.units import ROOT_STEPS, quotient_bits


def quotient(m: Module, when: Value, numerator: Value, divisor: Value, scale: int, name: str) -> Value:
    """`numerator / divisor`, both at least 0, toward zero; `division_cycles(scale)` after `when`. The quotient must be at most 2**scale;
    of a divisor of 0 it means nothing."""
    bits = quotient_bits(scale)
    low, high = numerator[:bits], numerator[bits:]
    by = Signal(unsigned(len(divisor)), name=f"{name}_divisor", reset_less=True)
    rest = Signal(unsigned(max(len(divisor), len(high)) + 1), name=f"{name}_rest", reset_less=True)
    digits = Signal(unsigned(bits), name=f"{name}_digits", reset_less=True)
    shifted = Cat(digits[-1], rest)
    fits, counting = shifted >= by, _counting(m, when, bits, name)
    with m.If(when):
        m.d.sync += [by.eq(divisor), rest.eq(high), digits.eq(low)]
    with m.Elif(counting):
        m.d.sync += [rest.eq(Mux(fits, shifted - by, shifted)), digits.eq(Cat(fits, digits[:-1]))]
    return digits


def square_root(m: Module, when: Value, value: Value, name: str) -> Value:
    """The integer root of 32 bits, ROOT_STEPS + 1 cycles after `when`."""
    rest = Signal(unsigned(2 * ROOT_STEPS), name=f"{name}_rest", reset_less=True)
    root = Signal(unsigned(2 * ROOT_STEPS), name=f"{name}_root", reset_less=True)
    digit = Signal(unsigned(2 * ROOT_STEPS), name=f"{name}_digit", reset_less=True)
    tried = root | digit
    fits, counting = rest >= tried, _counting(m, when, ROOT_STEPS, name)
    with m.If(when):
        m.d.sync += [rest.eq(value), root.eq(0), digit.eq(1 << (2 * ROOT_STEPS - 2))]
    with m.Elif(counting):
        m.d.sync += [
            rest.eq(Mux(fits, rest - tried, rest)),
            root.eq((root >> 1) | Mux(fits, digit, 0)),
            digit.eq(digit >> 2),
        ]
    return root


def _counting(m: Module, when: Value, steps: int, name: str) -> Value:
    """Whether one of so many cycles after `when` is on."""
    left = Signal(range(steps + 1), name=f"{name}_left")
    with m.If(when):
        m.d.sync += left.eq(steps)
    with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
    return left != 0
