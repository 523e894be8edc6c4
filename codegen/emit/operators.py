"""C expressions of the fixed-point operators: exact widths, wrap-around, division by powers of two.

Every expression has a type of <stdint.h> that is written out, because `int` has 16 bits on AVR: operands are cast
before the operator, sums and wrapping products are unsigned, and a shift count is below the width. So the code is
the same on every target and free of undefined behaviour, with or without -fwrapv.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kilotune.codegen.emit.products import accumulation, product
from kilotune.codegen.emit.shifts import division
from kilotune.codegen.fixed.arithmetic import Rounding

WIDTHS = (8, 16, 32, 64)


@dataclass(frozen=True)
class CExpression:
    """A C expression that needs no parentheses around it, of type int{bits}_t."""

    text: str
    bits: int


def int_type(bits: int) -> str:
    """The signed C type of that width."""
    return f"int{bits}_t"


def width_for(low: int, high: int) -> int:
    """The least width whose signed type holds low..high."""
    return next(bits for bits in WIDTHS if -(1 << (bits - 1)) <= low and high < 1 << (bits - 1))


def constant(value: int) -> CExpression:
    """An integer constant, of the least width that holds it."""
    bits = width_for(value, value)
    if value == -(1 << 31):
        return CExpression("INT32_MIN", bits)
    if bits == 64:
        return CExpression(f"INT64_C({value})", bits)
    return CExpression(str(value) if value >= 0 else f"({value})", bits)


def cast(value: CExpression, bits: int) -> CExpression:
    """The value modulo 2**bits."""
    return value if value.bits == bits else CExpression(f"({int_type(bits)}){value.text}", bits)


def _narrow(value: CExpression, bits: int) -> str:
    """An argument for a parameter of that width: a wider value needs a cast, a narrower one is converted by C."""
    return cast(value, bits).text if value.bits > bits else value.text


@dataclass
class Operators:
    """Builds expressions and remembers which inline functions they call."""

    rounding: Rounding
    _functions: dict[str, str] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    """By name, other definitions: of functions that several places call, where code is to be short (`sharing`)."""

    @property
    def functions(self) -> tuple[str, ...]:
        """Definitions of the inline functions used so far, in order of first use."""
        return tuple(self._functions.values())

    def require(self, name: str, definition: str) -> str:
        """Remember the definition of the inline function `name`."""
        self._functions.setdefault(name, definition)
        return name

    def down(self, value: CExpression, shift: int, bits: int = 0) -> CExpression:
        """`value / 2**shift` for shift >= 0, rounded as the program says: at the value's own width, or modulo 2**bits."""
        result = min(bits or value.bits, value.bits)
        if shift == 0:
            return value
        if shift >= value.bits:
            return cast(self.down(cast(value, max(32, value.bits)), shift), value.bits)
        name = self.require(*division(value.bits, shift, result, self.rounding))
        return CExpression(f"{name}({value.text})", result)

    def up(self, value: CExpression, shift: int, bits: int) -> CExpression:
        """`value * 2**shift` modulo 2**bits, for shift >= 0."""
        if shift == 0:
            return cast(value, bits)
        if shift >= bits:
            return cast(self.up(value, shift, 32 if shift < 32 else 64), bits)
        name = f"kt_up{bits}"
        self.require(
            name,
            f"/* v * 2**n modulo 2**{bits}, for n < {bits} */\n"
            f"KT_INLINE {int_type(bits)} {name}({int_type(bits)} v, uint8_t n)\n{{\n"
            f"    return ({int_type(bits)})(uint{bits}_t)((uint{bits}_t)v << n);\n}}",
        )
        return CExpression(f"{name}({_narrow(value, bits)}, {shift})", bits)

    def scale(self, value: CExpression, shift: int, bits: int) -> CExpression:
        """An operand divided by 2**shift at its own width, or multiplied modulo 2**bits when shift < 0."""
        return self.down(value, shift) if shift >= 0 else self.up(value, -shift, bits)

    def exact(self, value: CExpression, shift: int) -> CExpression:
        """An operand divided by 2**shift, or multiplied at a width that holds every product when shift < 0."""
        if shift >= 0:
            return self.down(value, shift)
        return self.up(value, -shift, next(bits for bits in WIDTHS if bits >= value.bits - shift))

    def saturating(self, value: CExpression, shift: int, bits: int) -> CExpression:
        """`value * 2**shift`, held at the ends of int{bits}_t; 0 < shift < bits."""
        kind, name = int_type(bits), f"kt_saturate{bits}"
        self.require(
            name,
            f"/* v * 2**n, or the end of {kind} that it lies beyond, for 0 < n < {bits} */\n"
            f"KT_INLINE {kind} {name}({kind} v, uint8_t n)\n{{\n"
            f"    if (v > (INT{bits}_MAX >> n)) return INT{bits}_MAX;\n"
            f"    if (v < (INT{bits}_MIN >> n)) return INT{bits}_MIN;\n"
            f"    return ({kind})(uint{bits}_t)((uint{bits}_t)v << n);\n}}",
        )
        return CExpression(f"{name}({_narrow(value, bits)}, {shift})", bits)

    def add(self, a: CExpression, b: CExpression, bits: int) -> CExpression:
        """`a + b` modulo 2**bits."""
        return self._modular("kt_add", "+", a, b, bits)

    def subtract(self, a: CExpression, b: CExpression, bits: int) -> CExpression:
        """`a - b` modulo 2**bits."""
        return self._modular("kt_sub", "-", a, b, bits)

    def multiply(self, a: CExpression, b: CExpression, bits: int) -> CExpression:
        """`a * b` modulo 2**bits: a widening product where it cannot overflow (one instruction on most targets)."""
        if bits == 32 and a.bits <= 16 and b.bits <= 16 and a.bits + b.bits > 16:
            wide, other = (a, b) if a.bits >= b.bits else (b, a)
            return CExpression(f"{self.require(*product(other.bits))}({wide.text}, {other.text})", bits)
        if a.bits + b.bits <= bits:
            kind = int_type(bits)
            text = f"({kind}){a.text} * ({kind}){b.text}"
            if a.bits + b.bits <= 16 < bits:  # a byte times a byte
                text = f"(int16_t){a.text} * (int16_t){b.text}"
            return CExpression(f"({kind})({text})", bits)
        return self._modular("kt_mul", "*", a, b, bits)

    def accumulate(self, a: CExpression, b: CExpression) -> str:
        """The function (sum, wide, other) that adds a * b modulo 2**32 to a uint32_t, with its last arguments."""
        wide, other = (a, b) if a.bits >= b.bits else (b, a)
        return f"{self.require(*accumulation(wide.bits, other.bits))}(sum, {wide.text}, {other.text})"

    def _modular(self, stem: str, operator: str, a: CExpression, b: CExpression, bits: int) -> CExpression:
        name, kind, unsigned = f"{stem}{bits}", int_type(bits), f"uint{bits}_t"
        # `unsigned` first: the product of two uint16_t would be done in int, where it can overflow
        first = f"(unsigned)({unsigned})a" if operator == "*" and bits < 32 else f"({unsigned})a"
        self.require(
            name,
            f"/* a {operator} b modulo 2**{bits} */\n"
            f"KT_INLINE {kind} {name}({kind} a, {kind} b)\n{{\n"
            f"    return ({kind})({unsigned})({first} {operator} ({unsigned})b);\n}}",
        )
        return CExpression(f"{name}({_narrow(a, bits)}, {_narrow(b, bits)})", bits)

    def store(self, value: CExpression, shift: int, bits: int) -> CExpression:
        """wrap(down(value, shift), bits): what an operation writes."""
        if shift > 0:
            return cast(self.down(value, shift, bits), bits)
        return cast(self.scale(value, shift, bits), bits)
