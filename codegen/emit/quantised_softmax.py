"""C of softmax on integers of 8 bits: powers from a table, and Newton's iteration for one over their sum."""

from __future__ import annotations

from collections.abc import Callable

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, counters_of, visit
from kilotune.codegen.emit.iteration import first_of_rows, iterate
from kilotune.codegen.fixed_fractions import INVERSE_BITS, INVERSE_SLOPE, INVERSE_START, NEWTON_STEPS
from kilotune.codegen.ir.quantised_softmax import RESULT_BITS, SUM_BITS


def emit_softmax(
    context: Context, operation: ir.QuantisedSoftmax, table: Callable[[int, tuple[int, ...]], str]
) -> None:
    """Three passes over each row: the largest, the sum of the powers, the shares. `table`: the C name of an array in flash."""
    writer, require, length = context.writer, context.operators.require, operation.length
    powers, near = table(32, operation.powers), len(operation.powers)
    rows = iterate([first_of_rows(operation.out), first_of_rows(operation.a)])
    last = [view.strides[-1] if view.shape else 0 for view in (operation.out, operation.a)]
    product, inverse = require("kt_fraction_product", _PRODUCT), require("kt_inverse", _INVERSE)
    with writer.loops(counters_of(rows), scope=True) as counters:
        writer.line("int8_t largest = INT8_MIN;")
        writer.line("uint32_t total = 0;")
        writer.line(f"uint8_t over = {SUM_BITS + 31 - RESULT_BITS};")
        with writer.loops([("k", length)]) as (k,):
            element = visit(context, operation.a, [*counters, k], [*rows.strides[1], last[1]]).text
            writer.line(f"if ({element} > largest) largest = {element};")
        with writer.loops([("k", length)], scope=True) as (k,):
            writer.line(f"const uint8_t distance = (uint8_t)(largest - {element});")
            found = f"((uint32_t)KT_LOAD32(&{powers}[distance]) + {1 << (SUM_BITS - 1)}) >> {SUM_BITS}"
            writer.line(f"{_where_near(near)}total += {found};")
        writer.line("while (total < UINT32_C(0x80000000)) {")
        writer.line("    total <<= 1;")
        writer.line("    over--;")
        writer.line("}")
        writer.line(f"const int32_t scale = {inverse}((int32_t)(total - UINT32_C(0x80000000)));")
        with writer.loops([("k", length)], scope=True) as (k,):
            target = visit(context, operation.out, [*counters, k], [*rows.strides[0], last[0]])
            writer.line(f"const uint8_t distance = (uint8_t)(largest - {element});")
            writer.line("uint32_t share = 0;")
            rounded = (
                f"((uint32_t){product}(scale, KT_LOAD32(&{powers}[distance])) + (UINT32_C(1) << (over - 1))) >> over"
            )
            writer.line(f"{_where_near(near, may_be_small=length >= _MANY)}share = {rounded};")
            writer.line(f"{target.text} = (int8_t)(share > 255 ? 127 : (int16_t)share - 128);")


_MANY = 1 << 32 - (SUM_BITS + 31 - RESULT_BITS) + SUM_BITS
"""Elements of which the sum of powers may be so large that shares are shifted by 32 bits and more: they are 0 then."""


def _where_near(count: int, *, may_be_small: bool = False) -> str:
    tests = ([f"distance < {count}"] if count < 256 else []) + (["over < 32"] if may_be_small else [])
    return f"if ({' && '.join(tests)}) " if tests else ""


_PRODUCT = """\
/* a * b of fractions of 31 bits, to the nearest, halves upward */
KT_NOINLINE int32_t kt_fraction_product(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}"""

_INVERSE = f"""\
/* 1 / (1 + x) of a fraction from 0 to 1, as a fraction */
KT_NOINLINE int32_t kt_inverse(int32_t x)
{{
    const int32_t half = (int32_t)(((uint32_t)x + UINT32_C(0x80000000)) >> 1);
    int32_t r = INT32_C({INVERSE_START}) + kt_fraction_product(half, -INT32_C({-INVERSE_SLOPE}));
    for (uint8_t step = 0; step < {NEWTON_STEPS}; step++) {{
        const int32_t missing = (INT32_C(1) << {INVERSE_BITS}) - kt_fraction_product(half, r);
        r += kt_fraction_product(r, missing) * 4;
    }}
    return r < (INT32_C(1) << 30) ? r * 2 : INT32_MAX;
}}"""
