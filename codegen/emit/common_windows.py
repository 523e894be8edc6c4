"""Functions for what several convolutions, or several pools, of a program do alike, however large their images are: of compact code.

What all of them have in common is a constant of the function, what tells them apart an argument, and equal numbers are one argument. So a
second layer brings a call, not a second nest of loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context
from kilotune.codegen.emit.schedule import WindowAxis, window_axes
from kilotune.codegen.fixed.encoding import BYTE_BITS

MOST_ARGUMENTS = 4
"""Arguments that are numbers, at most: with more of them a call takes as much as what it stands for."""

_MOST = 127
"""Sizes are counted in bytes, places of windows in signed ones."""


@dataclass(frozen=True)
class WindowNumbers:
    """The numbers of one operation by name, as C: constants, or names of `parameters`, whose `arguments` are this operation's."""

    texts: Mapping[str, str]
    parameters: tuple[str, ...]
    arguments: tuple[int, ...]

    def declared(self) -> str:
        """Parameters of the function, each behind a comma."""
        return "".join(f", uint8_t {name}" for name in self.parameters)

    def passed(self) -> str:
        """Arguments of the call, likewise."""
        return "".join(f", {number}" for number in self.arguments)


def told_apart(all_of: Sequence[Mapping[str, int]], own: Mapping[str, int]) -> WindowNumbers:
    """The numbers `own` of one of several operations: what is the same in all of them is a constant."""
    texts: dict[str, str] = {}
    parameters: dict[tuple[int, ...], str] = {}
    arguments = []
    for name in own:
        values = tuple(numbers[name] for numbers in all_of)
        if len(set(values)) == 1:
            texts[name] = str(own[name])
            continue
        if values not in parameters:
            parameters[values] = f"n{len(parameters)}"
            arguments.append(own[name])
        texts[name] = parameters[values]
    return WindowNumbers(texts, tuple(parameters.values()), tuple(arguments))


def window_numbers(context: Context, operation: ir.Conv2D) -> WindowNumbers | None:
    """The numbers of a convolution over padded images that other ones of the program resemble; None where it has a function for itself."""
    own = _convolution(context, operation)
    if not context.shape.shared or own is None:
        return None
    alike = [
        numbers
        for other in ir.operations(context.storage.program.body)
        if isinstance(other, ir.Conv2D) and _widths(context, other) == _widths(context, operation)
        if (numbers := _convolution(context, other)) is not None
    ]
    if len(alike) < 2:
        return None
    found = told_apart(alike, own)
    return found if len(found.parameters) <= MOST_ARGUMENTS else None


def _widths(context: Context, operation: ir.Conv2D) -> tuple[int, int, bool]:
    """What other functions convolutions need: by the bits of both operands, and whether weights are met in flash. The same in the context
    of every operation, also where that reads its own weights as codes: functions of one name have to have the same numbers."""
    storage, weights = context.storage, operation.b.variable
    bits = BYTE_BITS if storage.has_codes(weights) else storage.bits[weights]
    in_flash = storage.in_flash(weights) and storage.packing(weights) is None
    return storage.bits[operation.a.variable], bits, in_flash


def _convolution(context: Context, operation: ir.Conv2D) -> dict[str, int] | None:
    (rows, columns), a, b = window_axes(operation), operation.a, operation.b
    packed = context.storage.packing(b.variable) is not None
    _, _, width, channels, _ = b.shape
    dense = a.strides[2] == channels and a.strides[1] == columns.extent * channels
    steps = context.storage.strides(b)
    of_filter = packed or (steps[2], steps[1]) == (channels, width * channels)
    near = rows.dilation == 1 == columns.dilation and rows.overlaps and columns.overlaps
    simple = operation.groups == 1 and rows.checks and columns.checks and near and dense and of_filter
    if not simple or max(_reach(rows), _reach(columns), a.strides[1], width * channels) > _MOST:
        return None
    return {"height": rows.extent, "width": columns.extent, "channels": channels, "rows": rows.kernel, "columns": width}


def _reach(axis: WindowAxis) -> int:
    return max(axis.extent, axis.before, axis.positions * axis.stride) + axis.kernel


def window_function(name: str, rows_name: str, pointed: tuple[str, str], kind: str, numbers: WindowNumbers) -> str:
    """The function that sums products under a window whose first row and column are given, as far as they lie in the image."""
    n = numbers.texts
    lines = [
        f"const uint8_t across = {_product(n['width'], n['channels'])}, row = {_product(n['columns'], n['channels'])};",
        f"uint8_t rows = {n['rows']}, columns = {n['columns']};",
    ]
    for count, first, extent, step in (
        ("rows", "top", n["height"], "row"),
        ("columns", "left", n["width"], n["channels"]),
    ):
        lines += [
            f"if ({first} < 0) {{",
            f"    {count} = (uint8_t)({count} + {first});",
            f"    p1 += (uint8_t)-{first} * {step};",
            f"    {first} = 0;",
            "}",
            f"if ({count} > (uint8_t)({extent} - {first})) {count} = (uint8_t)({extent} - {first});",
        ]
    lines += [
        f"columns = {_product('columns', n['channels'])};",
        f"p0 += (uint8_t)top * across + (uint8_t)left * {n['channels']};",
        f"return {rows_name}(0, p0, p1, rows, columns, (uint8_t)(across - columns), (uint8_t)(row - columns));",
    ]
    body = "".join(f"    {line}\n" for line in lines)
    return (
        "/* the sum under a window that begins in this row and column, as far as it lies in the image */\n"
        f"KT_NOINLINE {kind} {name}({pointed[0]} *p0, {pointed[1]} *p1, int8_t top, int8_t left{numbers.declared()})\n"
        f"{{\n{body}}}"
    )


def _product(a: str, b: str) -> str:
    """Their product, of a byte."""
    return f"(uint8_t)({a} * {b})"


def pool_numbers(context: Context, operation: ir.MaxPool) -> WindowNumbers | None:
    """The numbers of a pool that other ones of the program resemble; None where it has loops for itself."""
    own = _pool(context, operation)
    if not context.shape.shared or own is None:
        return None
    bits = context.storage.bits
    alike = [
        numbers
        for other in ir.operations(context.storage.program.body)
        if isinstance(other, ir.MaxPool) and bits[other.a.variable] == bits[operation.a.variable]
        if (numbers := _pool(context, other)) is not None
    ]
    found = told_apart(alike, own)
    return found if len(alike) > 1 and len(found.parameters) <= MOST_ARGUMENTS else None


def _pool(context: Context, operation: ir.MaxPool) -> dict[str, int] | None:
    a, out = operation.a, operation.out
    if any(axis.checks for axis in window_axes(operation)) or context.storage.in_flash(a.variable):
        return None
    if min(operation.kernel) == 1:  # along one axis loops are as short as a call
        return None
    same = context.storage.bits[a.variable] == context.storage.bits[out.variable]
    images, height, width, channels = out.shape
    if not same or images > 1 or (channels > 1 and a.strides[3] != 1) or out.strides != ir.row_major_strides(out.shape):
        return None
    (down, right), (_, row, column, _) = operation.stride, a.strides
    numbers = {
        "height": height,
        "width": width,
        "channels": channels,
        "rows": operation.kernel[0],
        "columns": operation.kernel[1],
        "row": row * operation.dilation[0],
        "column": column * operation.dilation[1],
        "on": right * column - channels,
        "down": down * row - right * column * width,
    }
    return numbers if all(0 <= number <= _MOST for number in numbers.values()) else None


def pool_function(name: str, pointed: str, least: str, numbers: WindowNumbers) -> str:
    """The function that writes the largest elements under all windows of an image, one place after the other."""
    n, kind = numbers.texts, pointed.removeprefix("kt_")
    lines = [
        f"for (uint8_t y = {n['height']}; y != 0; y--) {{",
        f"    for (uint8_t x = {n['width']}; x != 0; x--) {{",
        f"        for (uint8_t k = {n['channels']}; k != 0; k--) {{",
        f"            {kind}_t largest = {least};",
        f"            for (uint8_t i = 0; i < {n['rows']}; i++) {{",
        f"                for (uint8_t j = 0; j < {n['columns']}; j++) {{",
        f"                    const {kind}_t v = from[{n['row']} * i + {n['column']} * j];",
        "                    if (v > largest) largest = v;",
        "                }",
        "            }",
        "            *to++ = largest;",
        "            from++;",
        "        }",
        f"        from += {n['on']};",
        "    }",
        f"    from += {n['down']};",
        "}",
    ]
    body = "".join(f"    {line}\n" for line in lines)
    return (
        "/* the largest elements under all windows of an image */\n"
        f"KT_NOINLINE void {name}(const {pointed} *from, {pointed} *to{numbers.declared()})\n{{\n{body}}}"
    )
