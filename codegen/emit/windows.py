"""C of the operations that look at a window or a row at once: MaxPool, NormaliseL2, ArgMax."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, Row, counters_of, visit
from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.emit.operators import Value, cast, int_type
from kilotune.codegen.fixed.table import Column


def inside(places: list[tuple[str, int, int, int]]) -> str:
    """The condition that places lie in an image: (counter expression, extent, least and greatest place) of each axis."""
    tests = []
    for place, extent, least, greatest in places:
        tests += [f"{place} >= 0"] if least < 0 else []
        tests += [f"{place} < {extent}"] if greatest >= extent else []
    return " && ".join(tests)


def emit_maxpool(context: Context, operation: ir.MaxPool, row: Row) -> None:
    """The largest element under every position of the window; padded places never win."""
    writer, operators = context.writer, context.operators
    images, height, width, channels = operation.out.shape
    bits = context.storage.bits[operation.a.variable]
    outer = [("i0", images), ("i1", height), ("i2", width), ("i3", channels)]
    with writer.loops(outer, scope=True) as (image, y, x, channel):
        writer.line(f"{int_type(bits)} largest = INT{bits}_MIN;")
        with writer.loops([("i4", operation.kernel[0]), ("i5", operation.kernel[1])]) as (ky, kx):
            places = [
                window_place(writer_name, position, offset, operation, axis)
                for writer_name, position, offset, axis in (("row", y, ky, 0), ("column", x, kx, 1))
            ]
            for name, text, *_ in places:
                writer.line(f"const kt_index {name} = {text};")
            condition = inside([(name, extent, least, greatest) for name, _, extent, least, greatest in places])
            value = visit(context, operation.a, (image, "row", "column", channel), operation.a.strides)
            beyond = f"{value.text} > largest"
            writer.line(
                f"if ({condition} && {beyond}) largest = {value.text};"
                if condition
                else f"if ({beyond}) largest = {value.text};"
            )
        target = visit(context, operation.out, (image, y, x, channel), operation.out.strides)
        result = operators.store(Value("largest", bits), row[Column.SHIFT_OUT], row[Column.BITS])
        writer.line(f"{target.text} = {cast(result, target.bits).text};")


def window_place(
    name: str, position: str, offset: str, operation: ir.MaxPool | ir.Conv2D, axis: int
) -> tuple[str, str, int, int, int]:
    """(name, C expression, extent of the image, least and greatest value) of a place under a window."""
    stride, before = operation.stride[axis], operation.padding[2 * axis]
    if isinstance(operation, ir.Conv2D):
        dilation, kernel = operation.dilation[axis], operation.b.shape[1 + axis]
    else:
        dilation, kernel = 1, operation.kernel[axis]
    terms = [
        f"{position} * {stride}" if stride != 1 else position,
        f"{offset} * {dilation}" if dilation != 1 else offset,
    ]
    terms = [term for term in terms if not term.startswith("0")] or ["0"]
    text = " + ".join(terms) + (f" - {before}" if before else "")
    greatest = (operation.out.shape[1 + axis] - 1) * stride + (kernel - 1) * dilation - before
    return name, f"(kt_index)({text})", operation.a.shape[1 + axis], -before, greatest


def emit_normalise(context: Context, operation: ir.NormaliseL2, row: Row) -> None:
    """Two passes over each row: the sum of squares, then the quotients."""
    writer, operators = context.writer, context.operators
    shift_a, shift_b = row[Column.SHIFT_A], row[Column.SHIFT_B]
    length = operation.a.shape[-1] if operation.a.shape else 1
    stored = context.storage.bits[operation.a.variable]
    largest = 1 << max(stored - 1 - shift_a, 0)
    wide = 32 if length * largest**2 < 1 << 32 and largest << shift_b < 1 << 31 else 64
    rows = iterate([_first_of_rows(operation.out), _first_of_rows(operation.a)])
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
            result = operators.store(cast(Value(quotient, wide), bits), row[Column.SHIFT_OUT], row[Column.BITS])
            writer.line(f"{target.text} = {cast(result, target.bits).text};")


def _first_of_rows(view: ir.View) -> ir.View:
    return ir.View(view.variable, view.shape[:-1], view.strides[:-1], view.offset)


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


def emit_argmax(context: Context, operation: ir.ArgMax) -> None:
    """Index, in row-major order, of the first largest element."""
    writer = context.writer
    loops = iterate([operation.a])
    bits = context.storage.bits[operation.a.variable]
    steps = ir.row_major_strides(loops.extents)
    with writer.block(""):
        first = visit(context, operation.a, ["0"] * len(loops.extents), loops.strides[0])
        writer.line(f"{int_type(bits)} largest = {first.text};")
        writer.line("int16_t winner = 0;")
        with writer.loops(counters_of(loops)) as counters:
            value = visit(context, operation.a, counters, loops.strides[0])
            with writer.block(f"if ({value.text} > largest)"):
                place = " + ".join(c if s == 1 else f"{s} * {c}" for c, s in zip(counters, steps, strict=True)) or "0"
                writer.line(f"largest = {value.text};")
                writer.line(f"winner = (int16_t)({place});")
        writer.line(f"{visit(context, operation.out, (), ()).text} = winner;")
