"""C of NormaliseL2 on integers: an integer square root and a division, no float."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, OperationRow, counters_of, visit
from kilotune.codegen.emit.iteration import first_of_rows, iterate
from kilotune.codegen.emit.operators import CExpression, cast
from kilotune.codegen.emit.schedule import norm_bits
from kilotune.codegen.fixed.table import Column


def emit_normalise(context: Context, operation: ir.NormaliseL2, row: OperationRow) -> None:
    """Two passes over each row: the sum of squares, then the quotients."""
    writer, operators = context.writer, context.operators
    shift_a, shift_b = row[Column.SHIFT_A], row[Column.SHIFT_B]
    length = operation.length
    stored = context.storage.bits[operation.a.variable]
    wide = int(norm_bits(length, stored, shift_a, shift_b))
    rows = iterate([first_of_rows(operation.out), first_of_rows(operation.a)])
    last = [view.strides[-1] if view.shape else 0 for view in (operation.out, operation.a)]
    with writer.loops(counters_of(rows), scope=True) as counters:
        writer.line(f"uint{wide}_t squares = 0;")
        writer.line(f"int{wide}_t norm;")
        with writer.loops([("k", length)]) as (k,):
            value = visit(context, operation.a, [*counters, k], [*rows.strides[1], last[1]])
            scaled = operators.exact(value, shift_a)
            writer.line(f"const int{wide}_t value = {scaled.text};")
            writer.line(f"squares += (uint{wide}_t)(value * value);")
        writer.line(f"norm = (int{wide}_t){_square_root(context, wide)}(squares);")
        with writer.loops([("k", length)]) as (k,):
            target = visit(context, operation.out, [*counters, k], [*rows.strides[0], last[0]])
            # |value| <= norm, so the quotient is at most 2**SHIFT_B
            bits = 16 if shift_b < 15 else 32
            quotient = f"{_ratio(context, wide)}({scaled.text}, {shift_b}, norm)"
            result = operators.store(cast(CExpression(quotient, wide), bits), row[Column.SHIFT_OUT], row[Column.BITS])
            writer.line(f"{target.text} = {cast(result, target.bits).text};")


def _square_root(context: Context, bits: int) -> str:
    """The integer square root, a bit at a time: no float, no table, no multiplication."""
    kind = f"uint{bits}_t"
    return context.operators.require(
        f"kt_isqrt{bits}",
        "/* floor(sqrt(v)), one bit of the root a step */\n"
        f"static {kind} kt_isqrt{bits}({kind} v)\n{{\n"
        f"    {kind} root = 0;\n"
        f"    for ({kind} bit = ({kind})1 << {bits - 2}; bit != 0; bit >>= 2) {{\n"
        "        if (v >= root + bit) {\n"
        "            v -= root + bit;\n            root = (root >> 1) + bit;\n"
        "        } else {\n            root >>= 1;\n        }\n    }\n    return root;\n}",
    )


def _ratio(context: Context, bits: int) -> str:
    kind = f"int{bits}_t"
    return context.operators.require(
        f"kt_ratio{bits}",
        "/* v * 2**n / norm toward zero; 0 for a row of zeros */\n"
        f"static {kind} kt_ratio{bits}({kind} v, uint8_t n, {kind} norm)\n{{\n"
        f"    return norm == 0 ? 0 : v * (({kind})1 << n) / norm;\n}}",
    )
