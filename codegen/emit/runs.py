"""Sums over elements that lie beside each other in both operands, as functions of their own.

A function gives the inner loop all registers: inside the nest that calls it, avr-gcc keeps pointers on the stack instead.
Operations with operands of the same kinds share one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, SumOfProducts
from kilotune.codegen.emit.operators import CExpression

RunStart = tuple[ir.View, Sequence[tuple[str, int]]]
"""A view and where in it a run begins: (expression, elements a step) pairs."""


def add_run(context: Context, total: SumOfProducts, a: RunStart, b: RunStart, count: int) -> None:
    """Add `count` products to the sum."""
    name = _function(context, total, a[0].variable, b[0].variable, count)
    arguments = [_address(context, place) for place in (a, b)]
    context.writer.line(f"sum = {name}(sum, {', '.join(arguments)}, {count});")


def add_rows(
    context: Context, total: SumOfProducts, places: tuple[str, str], views: tuple[ir.View, ir.View], extent: str
) -> None:
    """Add several runs: `places` are expressions of both pointers, `extent` the further arguments (rows, count, skips)."""
    name = _rows_function(context, total, views[0].variable, views[1].variable)
    pointers = [f"({_pointed(context, v.variable)} *)({p})" for v, p in zip(views, places, strict=True)]
    context.writer.line(f"sum = {name}(sum, {', '.join(pointers)}, {extent});")


def _address(context: Context, place: RunStart) -> str:
    view, moves = place
    pointed, address = _pointed(context, view.variable), context.storage.address(view, moves)
    return f"({pointed} *)({address})" if " " in address else f"({pointed} *){address}"


def _pointed(context: Context, variable: str) -> str:
    """Inputs are read as temporaries are, so that both can use one function."""
    storage = context.storage
    if storage.in_flash(variable):
        return f"const {storage.type_of(variable)}"
    return "const kt_float" if not storage.is_integer(variable) else f"const kt_int{storage.bits[variable]}"


def _kind(context: Context, variable: str) -> str:
    storage = context.storage
    kind = str(storage.bits[variable]) if storage.is_integer(variable) else ""
    return f"flash{kind}" if storage.in_flash(variable) else f"ram{kind}"


def _step(context: Context, total: SumOfProducts, a: str, b: str) -> list[str]:
    """The lines that read both elements and add their product."""
    storage, values, lines = context.storage, [], []
    for number, variable in enumerate((a, b)):
        text = f"KT_NEXT{storage.suffix(variable)}(p{number})" if storage.in_flash(variable) else f"*p{number}++"
        lines.append(f"const {storage.type_of(variable)} v{number} = {text};")
        values.append(CExpression(f"v{number}", storage.bits[variable]))
    return [*lines, f"sum = {total.grown(values[0], values[1])};"]


def _function(context: Context, total: SumOfProducts, a: str, b: str, count: int) -> str:
    counter = "uint_fast8_t" if count < 256 else "uint_fast16_t"
    name = f"kt_dot_{_kind(context, a)}_{_kind(context, b)}_{total.key}" + ("" if count < 256 else "_long")
    step = "\n        ".join(_step(context, total, a, b))
    return context.operators.require(
        name,
        f"/* sum + p0[0] * p1[0] + ... + p0[n - 1] * p1[n - 1], for n > 0 */\n"
        f"KT_NOINLINE {total.kind} {name}({total.kind} sum, {_pointed(context, a)} *p0, {_pointed(context, b)} *p1, {counter} n)\n{{\n"
        f"    do {{\n        {step}\n    }} while (--n != 0);\n    return sum;\n}}",
    )


def _rows_function(context: Context, total: SumOfProducts, a: str, b: str) -> str:
    name = f"kt_rows_{_kind(context, a)}_{_kind(context, b)}_{total.key}"
    step = "\n            ".join(_step(context, total, a, b))
    return context.operators.require(
        name,
        "/* the same over rows > 0 runs of n > 0 elements, between which the pointers skip some */\n"
        f"KT_NOINLINE {total.kind} {name}({total.kind} sum, {_pointed(context, a)} *p0, {_pointed(context, b)} *p1,\n"
        "    uint_fast8_t rows, uint_fast16_t n, uint_fast16_t skip0, uint_fast16_t skip1)\n{\n"
        f"    for (;;) {{\n        uint_fast16_t k = n;\n        do {{\n            {step}\n        }} while (--k != 0);\n"
        "        if (--rows == 0) return sum;\n        p0 += skip0;\n        p1 += skip1;\n    }\n}",
    )
