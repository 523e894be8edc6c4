"""C of everything that multiplies and sums: MatMul, sparse MatMul, Conv2D."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, OperationRow, SumOfProducts, visit
from kilotune.codegen.emit.operators import CExpression
from kilotune.codegen.emit.runs import add_rows, add_run
from kilotune.codegen.emit.schedule import Convolution, DenseProduct, SparseProduct, WindowAxis, schedule_product
from kilotune.codegen.emit.walk import LoopNestWriter
from kilotune.codegen.emit.windows import inside, window_place


def emit_product(context: Context, operation: ir.Product, row: OperationRow) -> None:
    """One sum of products for every element of the result."""
    schedule = schedule_product(operation, context.storage)
    total = context.arithmetic.sum(context, row, operation.taps)
    match operation, schedule:
        case ir.MatMul(), SparseProduct():
            _emit_sparse(context, operation, schedule, total)
        case ir.MatMul(), DenseProduct(beside=True) if not total.numbered:
            _emit_matmul_by_runs(context, operation, schedule, total)
        case ir.MatMul(), DenseProduct():
            _emit_matmul(context, schedule, total)
        case ir.Conv2D(), Convolution(beside=True) if not total.numbered:
            _emit_conv2d_by_runs(context, operation, schedule, total)
        case ir.Conv2D(), Convolution():
            _emit_conv2d(context, operation, schedule, total)
        case _:
            raise TypeError(f"{type(operation).__name__} has another schedule than {type(schedule).__name__}")


def _emit_matmul_by_runs(context: Context, operation: ir.MatMul, schedule: DenseProduct, total: SumOfProducts) -> None:
    a, b, out = operation.a, operation.b, operation.out
    (a0, _), (_, b1) = context.storage.strides(a), context.storage.strides(b)
    with context.writer.loops(list(schedule.nest.loops[:2]), scope=True) as (i, j):
        total.start()
        add_run(context, total, (a, [(i, a0)]), (b, [(j, b1)]), operation.taps)
        target = visit(context, out, (i, j), out.strides)
        total.store(target.text, target.bits)


def _emit_matmul(context: Context, schedule: DenseProduct, total: SumOfProducts) -> None:
    walk = LoopNestWriter(context, schedule.nest, ("k",) if total.numbered else ())
    with walk.inside(0, 2):
        total.start()
        with walk.inside(2, 3):
            left, right = walk.values
            total.add(left, right, walk.counter("k"))
        total.store(walk.target, walk.target_bits)


def _emit_conv2d(context: Context, operation: ir.Conv2D, schedule: Convolution, total: SumOfProducts) -> None:
    """A sum over kernel rows, columns and the input channels of the group; padding counts as zeros."""
    a, b, out = operation.a, operation.b, operation.out
    groups, kernel_height, kernel_width, group_in, group_out = b.shape
    images, height, width = out.shape[:3]
    writer, (rows, columns) = context.writer, schedule.axes
    outer = [("i0", images), ("i1", height), ("i2", width), ("i3", groups), ("i4", group_out)]
    with writer.loops(outer, scope=True) as (image, y, x, group, channel):
        total.start()
        kernel = [("i5", kernel_height), ("i6", kernel_width), ("k", group_in)]
        with writer.loops(kernel) as (ky, kx, k):
            writer.line(f"const kt_index row = {window_place(rows, y, ky)};")
            writer.line(f"const kt_index column = {window_place(columns, x, kx)};")
            moves = [(image, a.strides[0]), ("row", a.strides[1]), ("column", a.strides[2])]
            moves += [(group, group_in * a.strides[3]), (k, a.strides[3])]
            pixel = context.storage.element(a, moves)
            weight = visit(context, b, (group, ky, kx, k, channel), context.storage.strides(b))
            number = _tap_number((ky, kx, k), b.shape[1:4])
            condition = inside([("row", rows), ("column", columns)])
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


def _emit_conv2d_by_runs(context: Context, operation: ir.Conv2D, schedule: Convolution, total: SumOfProducts) -> None:
    """The part of the kernel inside the image, row by row, each one run of pixels beside one of weights."""
    a, b, out = operation.a, operation.b, operation.out
    storage, writer = context.storage, context.writer
    channels = b.shape[3]
    images, height, width, filters = out.shape
    steps, axes = storage.strides(b), schedule.axes
    with writer.loops([("i0", images), ("i1", height)], scope=True) as (image, y):
        row, rows = _part(context, axes[0], y, "row")
        with writer.loops([("i2", width)], scope=True) as (x,):
            column, columns = _part(context, axes[1], x, "column")
            count = columns if channels == 1 else f"{channels} * {columns}"
            moves = [(image, a.strides[0]), (_place(y, row, axes[0]), a.strides[1])]
            moves += [(_place(x, column, axes[1]), a.strides[2])]
            writer.line(f"{storage.pointer(a, moves, 'pixels', False)};")
            with writer.loops([("i3", filters)], scope=True) as (channel,):
                total.start()
                weights = storage.address(b, [(channel, steps[4]), (row, steps[1]), (column, steps[2])])
                sizes = [rows, count, f"{a.strides[1]} - {count}", f"{steps[1]} - {count}"]
                extent = ", ".join(
                    text if text.isdigit() else f"(uint_fast{8 if number == 0 else 16}_t)({text})"
                    for number, text in enumerate(sizes)
                )
                add_rows(context, total, ("pixels", weights), (a, b), extent)
                target = storage.element(out, _output_moves(operation, (image, y, x, "0", channel)))
                total.store(target.text, target.bits)


def _place(position: str, offset: str, axis: WindowAxis) -> str:
    """The row (column) of the image under a row (column) of the kernel, as an expression in parentheses."""
    stride, before = axis.stride, axis.before
    terms = [] if position == "0" else [position if stride == 1 else f"{position} * {stride}"]
    terms += [offset] if offset != "0" else []
    text = " + ".join(terms) + (f" - {before}" if before else "")
    return f"({text})" if terms else "0" if not before else f"({-before})"


def _part(context: Context, axis: WindowAxis, position: str, name: str) -> tuple[str, str]:
    """The first row (column) of the kernel inside the image, and how many of them are; kernels overlap the image."""
    stride, before, extent, kernel = axis.stride, axis.before, axis.extent, axis.kernel
    moved = position if stride == 1 else f"{position} * {stride}"
    if not axis.checks:
        return "0", str(kernel)
    first, count, line = "0", f"{name}s", context.writer.line
    if before:
        first = f"{name}_first"
        line(f"const kt_index {first} = {moved} < {before} ? (kt_index)({before} - {moved}) : 0;")
    last = str(kernel)
    if axis.greatest >= extent:
        last = f"{name}_end"
        room = extent + before
        line(f"const kt_index {last} = {moved} > {room - kernel} ? (kt_index)({room} - {moved}) : {kernel};")
    line(f"const kt_index {count} = " + (f"(kt_index)({last} - {first});" if before else f"{last};"))
    return first, count


def _first_value(context: Context, matrix: ir.View) -> str:
    """The declaration of a pointer to the first stored value of a sparse matrix; of its number, where codes are packed."""
    storage = context.storage
    if storage.packing(matrix.variable) is not None:
        return "kt_place value = 0"
    return f"const {storage.type_of(matrix.variable)} *value = {storage.array(matrix.variable)}"


def _emit_sparse(context: Context, operation: ir.MatMul, schedule: SparseProduct, total: SumOfProducts) -> None:
    """Row by row over the values that are stored; `next` walks through the lists of columns.

    SeeDot's Algorithm 2 goes column by column, which takes a sum for every row in RAM. Both add the same terms.
    """
    a, b, out = operation.a, operation.b, operation.out
    writer, storage, matrix = context.writer, context.storage, context.storage.names[operation.a.variable]
    bits, kind, load = storage.bits[a.variable], storage.type_of(a.variable), 8 if a.shape[1] < 256 else 16
    with writer.loops([schedule.columns], scope=True) as (j,):
        writer.line(f"{_first_value(context, a)};")
        writer.line(f"const uint{load}_t *next = {matrix}_columns;")
        with writer.loops([schedule.rows], scope=True) as (i,):
            total.start()
            writer.line(f"uint{load}_t k;")
            with writer.block(f"while ((k = KT_NEXT_PLACE{load}(next)) != 0)"):
                writer.line(f"const {kind} v0 = {storage.next(a, 'value')};")
                at = visit(context, b, ("(k - 1)", j), storage.strides(b))
                writer.line(f"const {storage.type_of(b.variable)} v1 = {at.text};")
                total.add(CExpression("v0", bits), CExpression("v1", at.bits), "")
            target = visit(context, out, (i, j), out.strides)
            total.store(target.text, target.bits)
