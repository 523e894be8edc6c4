"""C of the operations that look at a window or at everything at once: MaxPool, ArgMax."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, Row, counters_of, visit
from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.emit.operators import Value, cast


def inside(places: list[tuple[str, int, int, int]]) -> str:
    """The condition that places lie in an image: (counter expression, extent, least and greatest place) of each axis."""
    tests = []
    for place, extent, least, greatest in places:
        tests += [f"{place} >= 0"] if least < 0 else []
        tests += [f"{place} < {extent}"] if greatest >= extent else []
    return " && ".join(tests)


def emit_maxpool(context: Context, operation: ir.MaxPool, row: Row) -> None:
    """The largest element under every position of the window; padded places never win."""
    writer = context.writer
    images, height, width, channels = operation.out.shape
    bits = context.storage.bits[operation.a.variable]
    outer = [("i0", images), ("i1", height), ("i2", width), ("i3", channels)]
    with writer.loops(outer, scope=True) as (image, y, x, channel):
        kind = context.storage.type_of(operation.a.variable)
        writer.line(f"{kind} largest = {context.arithmetic.least(bits)};")
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
        result = context.arithmetic.rescale(context, Value("largest", bits), row)
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


def emit_argmax(context: Context, operation: ir.ArgMax) -> None:
    """Index, in row-major order, of the first largest element."""
    writer = context.writer
    loops = iterate([operation.a])
    steps = ir.row_major_strides(loops.extents)
    with writer.block(""):
        first = visit(context, operation.a, ["0"] * len(loops.extents), loops.strides[0])
        writer.line(f"{context.storage.type_of(operation.a.variable)} largest = {first.text};")
        writer.line("int16_t winner = 0;")
        with writer.loops(counters_of(loops)) as counters:
            value = visit(context, operation.a, counters, loops.strides[0])
            with writer.block(f"if ({value.text} > largest)"):
                place = " + ".join(c if s == 1 else f"{s} * {c}" for c, s in zip(counters, steps, strict=True)) or "0"
                writer.line(f"largest = {value.text};")
                writer.line(f"winner = (int16_t)({place});")
        writer.line(f"{visit(context, operation.out, (), ()).text} = winner;")
