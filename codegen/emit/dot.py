"""C of everything that multiplies and sums: MatMul, sparse MatMul, Conv2D."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, Row, Sum, visit
from kilotune.codegen.emit.operators import Value
from kilotune.codegen.emit.walk import Access, Walk
from kilotune.codegen.emit.windows import inside, window_place


def emit_matmul(context: Context, operation: ir.MatMul, row: Row) -> None:
    """(P, Q) x (Q, R): one sum for every element of the result."""
    if operation.a.variable in context.storage.sparse:
        _emit_sparse(context, operation, row)
        return
    a, b, out = operation.a, operation.b, operation.out
    (height, length), width = a.shape, b.shape[1]
    total = context.arithmetic.sum(context, row, length)
    (a0, a1), (b0, b1) = context.storage.strides(a), context.storage.strides(b)
    walk = Walk(
        context,
        [("i0", height), ("i1", width), ("k", length)],
        [Access(a, (a0, 0, a1)), Access(b, (0, b1, b0))],
        Access(out, out.strides),
        ("k",) if total.numbered else (),
    )
    with walk.inside(0, 2):
        total.start()
        with walk.inside(2, 3):
            total.add(*walk.values, walk.counter("k"))
        total.store(walk.target, walk.target_bits)


def emit_conv2d(context: Context, operation: ir.Conv2D, row: Row) -> None:
    """A sum over kernel rows, columns and the input channels of the group; padding counts as zeros."""
    a, b, out = operation.a, operation.b, operation.out
    groups, kernel_height, kernel_width, group_in, group_out = b.shape
    images, height, width = out.shape[:3]
    writer = context.writer
    total = context.arithmetic.sum(context, row, kernel_height * kernel_width * group_in)
    if not total.numbered and _runs(operation):
        _emit_conv2d_by_runs(context, operation, total)
        return
    outer = [("i0", images), ("i1", height), ("i2", width), ("i3", groups), ("i4", group_out)]
    with writer.loops(outer, scope=True) as (image, y, x, group, channel):
        total.start()
        kernel = [("i5", kernel_height), ("i6", kernel_width), ("k", group_in)]
        with writer.loops(kernel) as (ky, kx, k):
            places = [window_place("row", y, ky, operation, 0), window_place("column", x, kx, operation, 1)]
            for name, text, *_ in places:
                writer.line(f"const kt_index {name} = {text};")
            moves = [(image, a.strides[0]), ("row", a.strides[1]), ("column", a.strides[2])]
            moves += [(group, group_in * a.strides[3]), (k, a.strides[3])]
            pixel = context.storage.element(a, moves)
            weight = visit(context, b, (group, ky, kx, k, channel), context.storage.strides(b))
            number = _tap_number((ky, kx, k), b.shape[1:4])
            condition = inside([(name, extent, least, greatest) for name, _, extent, least, greatest in places])
            total.add(pixel, weight, number, condition)
        target = context.storage.element(out, _output_moves(operation, (image, y, x, group, channel)))
        total.store(target.text, target.bits)


def _output_moves(operation: ir.Conv2D, counters: tuple[str, str, str, str, str]) -> list[tuple[str, int]]:
    image, y, x, group, channel = counters
    strides, group_out = operation.out.strides, operation.b.shape[4]
    moves = [(image, strides[0]), (y, strides[1]), (x, strides[2])]
    return [*moves, (group, group_out * strides[3]), (channel, strides[3])]


def _tap_number(counters: Sequence[str], extents: tuple[int, ...]) -> str:
    steps = ir.row_major_strides(extents)
    terms = [c if s == 1 else f"{s} * {c}" for c, s in zip(counters, steps, strict=True) if c != "0"]
    return " + ".join(terms) or "0"


def _runs(operation: ir.Conv2D) -> bool:
    """Whether the pixels under a row of the kernel lie beside each other, channel by channel."""
    a = operation.a
    return operation.groups == 1 and operation.dilation == (1, 1) and a.strides[2:] == (a.shape[3], 1)


def _emit_conv2d_by_runs(context: Context, operation: ir.Conv2D, total: Sum) -> None:
    """Kernel row by kernel row, each one run of pixels beside one of weights; only the part inside the image is visited."""
    a, b, out = operation.a, operation.b, operation.out
    storage, writer = context.storage, context.writer
    kernel_width, channels = b.shape[2:4]
    images, height, width, filters = out.shape
    weights = storage.strides(b)
    straight = weights[3] == 1 and weights[2] == channels
    outer = [("i0", images), ("i1", height)]
    with writer.loops(outer, scope=True) as (image, y):
        rows = _part(context, operation, 0, y, "row")
        with writer.loops([("i2", width)], scope=True) as (x,):
            columns = _part(context, operation, 1, x, "column")
            with writer.loops([("i3", filters)], scope=True) as (channel,):
                total.start()
                with writer.block(f"for (kt_index ky = {rows[0]}; ky < {rows[1]}; ky++)"):
                    moves = [(image, a.strides[0]), (_place(y, "ky", operation, 0), a.strides[1])]
                    moves += [(_place(x, columns[0], operation, 1), a.strides[2])]
                    writer.line(f"{storage.pointer(a, moves, 'p0', False)};")
                    run = f"{columns[1]} - {columns[0]}" if columns[0] != "0" else columns[1]
                    if straight:
                        moves = [(channel, weights[4]), ("ky", weights[1]), (columns[0], weights[2])]
                        writer.line(f"{storage.pointer(b, moves, 'p1', False)};")
                        count = str(kernel_width * channels) if run.isdigit() else f"{channels} * ({run})"
                        counter = "uint_fast8_t" if kernel_width * channels < 256 else "kt_index"
                        with writer.block(f"for ({counter} n = ({counter})({count}); n != 0; n--)"):
                            _add_next(context, operation, total, storage.next(b, "p1"))
                    else:
                        columns_loop = writer.block(f"for (kt_index kx = {columns[0]}; kx < {columns[1]}; kx++)")
                        with columns_loop, writer.loops([("k", channels)]) as (k,):
                            weight = visit(context, b, ("0", "ky", "kx", k, channel), weights)
                            _add_next(context, operation, total, weight.text)
                target = storage.element(out, _output_moves(operation, (image, y, x, "0", channel)))
                total.store(target.text, target.bits)


def _add_next(context: Context, operation: ir.Conv2D, total: Sum, weight: str) -> None:
    storage, a, b = context.storage, operation.a, operation.b
    context.writer.line(f"const {storage.type_of(a.variable)} v0 = {storage.next(a, 'p0')};")
    context.writer.line(f"const {storage.type_of(b.variable)} v1 = {weight};")
    total.add(Value("v0", storage.bits[a.variable]), Value("v1", storage.bits[b.variable]), "0")


def _place(position: str, offset: str, operation: ir.Conv2D, axis: int) -> str:
    """The row (column) of the image under a row (column) of the kernel, as an expression in parentheses."""
    stride, before = operation.stride[axis], operation.padding[2 * axis]
    terms = [] if position == "0" else [position if stride == 1 else f"{position} * {stride}"]
    terms += [offset] if offset != "0" else []
    text = " + ".join(terms) + (f" - {before}" if before else "")
    return f"({text})" if terms else "0" if not before else f"({-before})"


def _part(context: Context, operation: ir.Conv2D, axis: int, position: str, name: str) -> tuple[str, str]:
    """The first row (column) of the kernel inside the image, and the one after the last."""
    stride, before = operation.stride[axis], operation.padding[2 * axis]
    extent, kernel = operation.a.shape[1 + axis], operation.b.shape[1 + axis]
    greatest = (operation.out.shape[1 + axis] - 1) * stride - before
    start = f"(kt_index)({before} - {position if stride == 1 else f'{position} * {stride}'})"
    first, last = "0", str(kernel)
    if before:
        first = f"{name}_first"
        text = start if position != "0" else str(before)
        context.writer.line(f"kt_index {first} = {text};")
        context.writer.line(f"if ({first} < 0) {first} = 0;")
    if greatest + kernel > extent:
        last = f"{name}_end"
        text = f"(kt_index)({extent + before} - {position if stride == 1 else f'{position} * {stride}'})"
        context.writer.line(f"kt_index {last} = {text if position != '0' else str(extent + before)};")
        context.writer.line(f"if ({last} > {kernel}) {last} = {kernel};")
    return first, last


def _emit_sparse(context: Context, operation: ir.MatMul, row: Row) -> None:
    """Row by row over the values that are stored; `next` walks through the lists of columns.

    SeeDot's Algorithm 2 goes column by column, which takes a sum for every row in RAM. Both add the same terms.
    """
    a, b, out = operation.a, operation.b, operation.out
    writer, storage, matrix = context.writer, context.storage, context.storage.names[operation.a.variable]
    bits, kind, load = storage.bits[a.variable], storage.type_of(a.variable), 8 if a.shape[1] < 256 else 16
    total = context.arithmetic.sum(context, row, a.shape[1])
    with writer.loops([("i1", b.shape[1])], scope=True) as (j,):
        writer.line(f"const {kind} *value = {matrix}_values;")
        writer.line(f"const uint{load}_t *next = {matrix}_columns;")
        with writer.loops([("i0", a.shape[0])], scope=True) as (i,):
            total.start()
            writer.line(f"uint{load}_t k;")
            with writer.block(f"while ((k = KT_NEXT_PLACE{load}(next)) != 0)"):
                writer.line(f"const {kind} v0 = {storage.next(a, 'value')};")
                at = visit(context, b, ("(k - 1)", j), b.strides)
                writer.line(f"const {storage.type_of(b.variable)} v1 = {at.text};")
                total.add(Value("v0", bits), Value("v1", at.bits), "")
            target = visit(context, out, (i, j), out.strides)
            total.store(target.text, target.bits)
