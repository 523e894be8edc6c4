"""C of what quantised programs (`codegen.ir.requantisation`) do with sums of products, and of their elementwise operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from kilotune.codegen import ir
from kilotune.codegen.emit.operators import CExpression, Operators, constant
from kilotune.codegen.ir.quantised import HEADROOM
from kilotune.codegen.ir.requantisation import EVEN_BITS, differs

TableOf = Callable[[int, tuple[int, ...]], str]
"""The C name of an array in flash of integers of so many bits."""

SAFE = 1 << 30
"""Sums below it can be doubled in 32 bits."""


def completed(
    operators: Operators, table: TableOf, completion: ir.Completion, total: CExpression, channel: str, most: int
) -> CExpression:
    """The integer of 8 bits that a sum of products becomes. `channel`: the expression of its number; `most`: how large in magnitude
    sums are with their biases."""
    match completion:
        case ir.Requantisation(biases=biases, factors=factors, zero=zero):
            value = f"(int32_t){total.text}"  # or int, of 16 bits on AVR, is what the bias is added in
            value += f" + {_entry(table, 32, biases, channel)}" if any(biases) else ""
            scaled = _scaled(operators, value, (table, factors, channel), most)
            return _held(operators, _moved(scaled, zero), completion.least, completion.most)
        case ir.Averaging(count=count):
            name = operators.require("kt_average", _AVERAGE)
            return _held(operators, f"{name}({total.text}, {count})", completion.least, completion.most)
        case _:
            assert_never(completion)


def quantised_element(
    operators: Operators, table: TableOf, operation: ir.QuantisedElements, values: Sequence[CExpression]
) -> CExpression:
    """One element of the result."""
    match operation:
        case ir.Lookup(entries=entries):
            return CExpression(f"KT_LOAD8(&{table(8, entries)}[{values[0].text} + 128])", 8)
        case ir.QuantisedProduct(zeros=zeros, factor=factor, zero=zero):
            first, second = (_less(value, at) for value, at in zip(values, zeros, strict=True))
            product = f"(int32_t){first} * {second}"
            scaled = _scaled(operators, product, (table, (factor,), "0"), operation.magnitude)
            return _held(operators, _moved(scaled, zero), operation.least, operation.most)
        case ir.QuantisedSum(zeros=zeros, factors=factors, factor=factor, zero=zero):
            parts = [
                _scaled(
                    operators,
                    f"(int32_t){_less(value, at)} * {1 << HEADROOM}",
                    (table, (one,), "0"),
                    1 << (HEADROOM + 8),
                )
                for value, at, one in zip(values, zeros, factors, strict=True)
            ]
            total = f" {'-' if operation.minus else '+'} ".join(parts)
            scaled = _scaled(operators, total, (table, (factor,), "0"), operation.magnitude)
            return _held(operators, _moved(scaled, zero), operation.least, operation.most)
        case ir.EvenSum(zeros=zeros, weights=weights, shift=shift, zero=zero):
            bits = 32 if operation.magnitude < 1 << 31 else 64
            first, second = (
                f"(int{bits}_t){_less(value, at)} * {weight}"
                for value, at, weight in zip(values, zeros, weights, strict=True)
            )
            name = operators.require(f"kt_even_quotient{bits}", _EVEN_QUOTIENT.format(bits=bits))
            total = f"{name}({first} + {second}, {shift})"
            return _held(operators, _moved(total, zero), operation.least, operation.most)
        case _:
            raise TypeError(f"{type(operation).__name__} has no C")


def _less(value: CExpression, zero: int) -> str:
    """An element less its zero point, which fits 16 bits."""
    return f"({value.text} - {constant(zero).text})" if zero else f"{value.text}"


def _moved(text: str, zero: int) -> str:
    return text if not zero else f"{text} + {constant(zero).text}"


def _entry(table: TableOf, bits: int, entries: tuple[int, ...], channel: str) -> str:
    """The entry of an array for a channel, or the number itself where it is the same for all."""
    if not differs(entries):
        return constant(entries[0]).text
    return f"KT_LOAD{bits}(&{table(bits, entries)}[{channel}])"


def _scaled(operators: Operators, value: str, factor: tuple[TableOf, tuple[ir.Multiplier, ...], str], most: int) -> str:
    """The expression of an integer of 32 bits times a factor (table, those of all channels, channel); `most`: its magnitude at most."""
    table, factors, channel = factor
    shifts = tuple(one.shift for one in factors)
    up = max(*shifts, 0)
    ir.check_room(factors, most)
    mantissa = _entry(table, 32, tuple(one.mantissa for one in factors), channel)
    if isinstance(factors[0], ir.EvenMultiplier):
        if most >= 1 << EVEN_BITS:
            value = f"{operators.require(*SHORTENED)}({value})"
        shift = _entry(table, 8, tuple(-one for one in shifts), channel)
        return f"{operators.require(*SCALED_EVEN)}({value}, {mantissa}, (uint8_t){shift})"
    if up:
        lefts = _entry(table, 8, tuple(max(shift, 0) for shift in shifts), channel)
        value = f"(int32_t)((uint32_t)({value}) << {lefts})"
    downs = tuple(max(-shift, 0) for shift in shifts)
    name = operators.require(*(SCALED if most << up < SAFE else SCALED_WIDE))
    return f"{name}({value}, {mantissa}, (uint8_t){_entry(table, 8, downs, channel)})"


def _held(operators: Operators, text: str, least: int, most: int) -> CExpression:
    name = operators.require("kt_held", HELD)
    return CExpression(f"{name}({text}, {constant(least).text}, {constant(most).text})", 8)


_NOTE = """\
/* v * m / 2**(31 + n) for 0 <= m < 2**31: the upper half of 2 * v * m to the nearest, halves upward, then over 2**n to the
 * nearest, halves away from zero */"""

_BY_HALVES = """\
    /* of magnitudes, by halves of 16 bits: what is halfway goes upward, so of a negative value's magnitude it is cut off */
    const uint32_t a = v < 0 ? 0u - (uint32_t)v : (uint32_t)v;
    uint16_t a1 = (uint16_t)(a >> 16), a0 = (uint16_t)a, m1 = (uint16_t)((uint32_t)m >> 16), m0 = (uint16_t)m;
#if defined(__AVR__)
    __asm__("" : "+r"(a1), "+r"(a0), "+r"(m1), "+r"(m0)); /* or avr-gcc takes products of 32 bits */
#endif
    const uint32_t least = (uint32_t)a0 * m0;
    uint32_t r = (uint32_t)a0 * m1, middle = (least >> 16) + (uint16_t)r;
    r >>= 16;
    if (a1 != 0) {
        const uint32_t other = (uint32_t)a1 * m0;
        middle += (uint16_t)other;
        r += (other >> 16) + (uint32_t)a1 * m1;
    }
    middle += v < 0 && (uint16_t)least == 0 ? 0x3fff : 0x4000;
    r = 2 * r + ((middle << 1) >> 16);
    if (n != 0) {
        n--;
        while (n >= 8) {
            r >>= 8;
            n = (uint8_t)(n - 8);
        }
        r = ((r >> n) + 1) >> 1;
    }
    return v < 0 ? (int32_t)(0u - r) : (int32_t)r;
"""

_PRODUCT = f"""\
#if defined(__AVR__) || defined(__ARM_ARCH_6M__) /* without products of 64 bits */
{_BY_HALVES}#else
    int32_t r = (int32_t)(((int64_t)v * m + (INT64_C(1) << 30)) >> 31);
"""

_ROUNDED = """\
    r += (int32_t)((UINT32_C(1) << n) >> 1) - (n != 0 && r < 0);
    return r >> n;
"""
"""The end of a function for magnitudes below 2**30: half of the divisor can be added to them."""

_ROUNDED_WIDE = """\
    return n == 0 ? r : (((r - (r < 0)) >> (n - 1)) + 1) >> 1;
"""

SCALED = (
    "kt_scaled",
    f"""\
{_NOTE}
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP)
KT_INLINE int32_t kt_scaled(int32_t v, int32_t m, uint8_t n)
{{
    int32_t r;
    __asm__("smmulr %0, %1, %2" : "=r"(r) : "r"(2 * v), "r"(m));
{_ROUNDED}}}
#else
KT_NOINLINE int32_t kt_scaled(int32_t v, int32_t m, uint8_t n)
{{
{_PRODUCT}{_ROUNDED}#endif
}}
#endif""",
)
"""Name and definition of the function for magnitudes of v below 2**30."""

SCALED_WIDE = (
    "kt_scaled_wide",
    f"""\
{_NOTE}
KT_NOINLINE int32_t kt_scaled_wide(int32_t v, int32_t m, uint8_t n)
{{
{_PRODUCT}{_ROUNDED_WIDE}#endif
}}""",
)
"""Name and definition of the function for magnitudes of v below 2**31."""

SHORTENED = (
    "kt_shortened",
    """\
/* v as a float has it: the upper 24 bits of its magnitude, to the nearest, halves to the even number */
KT_NOINLINE int32_t kt_shortened(int32_t v)
{
    const uint32_t a = v < 0 ? 0u - (uint32_t)v : (uint32_t)v;
    uint8_t n = 0;
    while (a >> n >> 24 != 0) n++;
    const uint32_t r = n == 0 ? a : ((a + (UINT32_C(1) << (n - 1)) - 1 + (a >> n & 1)) >> n) << n;
    return v < 0 ? (int32_t)(0u - r) : (int32_t)r;
}""",
)
"""Name and definition of the function for magnitudes of v of 24 bits and more."""

SCALED_EVEN = (
    "kt_scaled_even",
    """\
/* v * m / 2**n for magnitudes of v of at most 24 bits, or of as many before zeros, and m of 24 bits: the product to 24 bits, then to a
 * whole number, each to the nearest, halves to the even number, as floats do it; of magnitudes above 2**30 another such one */
KT_NOINLINE int32_t kt_scaled_even(int32_t v, int32_t m, uint8_t n)
{
    const uint32_t a = v < 0 ? 0u - (uint32_t)v : (uint32_t)v;
#if !defined(__AVR__) /* by the upper half of a product, unless that is so near halfway that the rounding to 24 bits matters */
    if (a >> 24 == 0 && n > 17 && n < 49) {
        const uint8_t t = (uint8_t)(n - 17);
        const uint32_t near = UINT32_C(1) + ((UINT32_C(1) << t) >> 16);
        const uint32_t q = (uint32_t)(((uint64_t)(a << 7) * ((uint32_t)m << 8)) >> 32) + (UINT32_C(1) << (t - 1));
        const uint32_t rest = q & ((UINT32_C(1) << t) - 1);
        if (q >> t < 512 && rest >= near && rest < (UINT32_C(1) << t) - near) return v < 0 ? -(int32_t)(q >> t) : (int32_t)(q >> t);
    }
#endif
    uint16_t a1 = (uint16_t)(a >> 16), a0 = (uint16_t)a, m1 = (uint16_t)((uint32_t)m >> 16), m0 = (uint16_t)m;
#if defined(__AVR__)
    __asm__("" : "+r"(a1), "+r"(a0), "+r"(m1), "+r"(m0)); /* or avr-gcc takes products of 32 bits */
#endif
    const uint32_t middle = (uint32_t)a1 * m0 + (uint32_t)a0 * m1, least = (uint32_t)a0 * m0;
    uint32_t r = least + (middle << 16), high = (uint32_t)a1 * m1 + (middle >> 16) + (r < least);
    int16_t down = n;
    uint8_t lost = 0;
    while (high != 0) {
        lost |= (uint8_t)r;
        r = r >> 8 | high << 24;
        high >>= 8;
        down = (int16_t)(down - 8);
    }
#if defined(__AVR__) /* which shifts by a bit at a time anyway; a result of 16 bits is as good as any larger one */
    uint8_t last = 0;
    for (; r >> 24 != 0; down--) {
        lost |= last;
        last = (uint8_t)(r & 1);
        r >>= 1;
    }
    if (last != 0 && (lost != 0 || (r & 1) != 0)) r++;
    if (down > 24) return 0;
    for (lost = 0; down > 8; down = (int16_t)(down - 8)) {
        lost |= (uint8_t)r;
        r >>= 8;
    }
    if (r >> 16 != 0 || down < 0) return v < 0 ? -0x7fff : 0x7fff;
    uint16_t q = (uint16_t)r;
    for (last = 0; down > 0; down--) {
        lost |= last;
        last = (uint8_t)(q & 1);
        q >>= 1;
    }
    if (last != 0 && (lost != 0 || (q & 1) != 0)) q++;
    return v < 0 ? -(int32_t)q : (int32_t)q;
#else
    uint8_t k = 0;
    while (r >> 24 >> k != 0) k++;
    if (k != 0) {
        const uint32_t half = UINT32_C(1) << (k - 1), below = r & (2 * half - 1);
        r >>= k;
        if (below > half || (below == half && (lost != 0 || (r & 1) != 0))) r++;
        down = (int16_t)(down - k);
    }
    if (down > 24) return 0;
    if (down > 0) r = (r + (UINT32_C(1) << (down - 1)) - 1 + (r >> down & 1)) >> down;
    else r = down < -6 ? UINT32_C(1) << 30 : r << -down;
    return v < 0 ? (int32_t)(0u - r) : (int32_t)r;
#endif
}""",
)
"""Name and definition of the function."""

_EVEN_QUOTIENT = """\
/* v / 2**n for n > 0, to the nearest, halves to the even number */
KT_INLINE int32_t kt_even_quotient{bits}(int{bits}_t v, uint8_t n)
{{
    return (int32_t)((v + ((int{bits}_t)1 << (n - 1)) - 1 + (v >> n & 1)) >> n);
}}"""

_AVERAGE = """\
/* v / n to the nearest, halves away from zero */
KT_INLINE int32_t kt_average(int32_t v, int32_t n)
{
    return (v < 0 ? v - n / 2 : v + n / 2) / n;
}"""

HELD = """\
KT_INLINE int8_t kt_held(int32_t v, int8_t least, int8_t most)
{
#if defined(__GNUC__) && defined(__ARM_FEATURE_SAT) /* an instruction for the ends of 8 bits */
    if (least == -128 || most == 127) {
        __asm__("ssat %0, #8, %1" : "=r"(v) : "r"(v) : "cc");
        return least > -128 && v < least ? least : most < 127 && v > most ? most : (int8_t)v;
    }
#endif
    return v < least ? least : v > most ? most : (int8_t)v;
}"""
