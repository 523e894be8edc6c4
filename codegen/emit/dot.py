"""C of everything that multiplies and sums: MatMul, sparse MatMul, Conv2D."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.blocks import (
    emit_conv2d_by_windows,
    emit_matmul_by_rows,
    takes_rows,
    takes_windows,
)
from kilotune.codegen.emit.common_windows import WindowNumbers, window_numbers
from kilotune.codegen.emit.context import Context, OperationRow, SumOfProducts, visit
from kilotune.codegen.emit.depthwise import emit_by_channels, takes_channels
from kilotune.codegen.emit.fusion import share_bytes
from kilotune.codegen.emit.operators import CExpression, constant
from kilotune.codegen.emit.packing import decoded, walk_next, walk_start, walks
from kilotune.codegen.emit.row_factors import FinishedSum, take_out_factors
from kilotune.codegen.emit.row_layout import rows_of_matrices
from kilotune.codegen.emit.row_pointers import count_rows, point_at_rows
from kilotune.codegen.emit.row_tails import written_by
from kilotune.codegen.emit.runs import (
    RowsForm,
    add_rows,
    add_run,
    add_unpacking,
    add_window,
    codebook_argument,
    kind_of,
    takes_steps,
)
from kilotune.codegen.emit.schedule import Convolution, DenseProduct, SparseProduct, schedule_product
from kilotune.codegen.emit.unrolled import divisor
from kilotune.codegen.emit.walk import LoopNestWriter
from kilotune.codegen.emit.windows import (
    image_place,
    inside,
    name_places,
    output_moves,
    part_inside,
    walked,
    walks_over,
)


def emit_product(
    context: Context,
    operation: ir.Product,
    row: OperationRow,
    then: Callable[[SumOfProducts, Sequence[str]], None] | None = None,
) -> None:
    """One sum of products for every element of the result. `then` takes sums on, at counters of the result, instead of their storing."""
    whole = context.arithmetic.sum(context, operation, row)
    context, finish = take_out_factors(context, operation, whole)
    total = FinishedSum(whole, finish, then, context.arithmetic.completing(context, operation, row))
    schedule = schedule_product(operation, context.storage)
    by_rows = takes_rows(context, operation, total)
    match operation, schedule:
        case ir.MatMul(), SparseProduct():
            _emit_sparse(context, operation, schedule, total)
        case ir.MatMul(), DenseProduct(beside=True) if (
            by_rows and rows_of_matrices(context.storage, operation) is not None
        ):
            emit_matmul_by_rows(context, operation, total, row)
        case ir.MatMul(), DenseProduct(beside=True) if not whole.numbered:
            _emit_matmul_by_runs(context, operation, schedule, total, row)
        case ir.MatMul(), DenseProduct():
            _emit_matmul(context, schedule, total)
        case ir.Conv2D(), Convolution(beside=True) if takes_windows(context, operation, total):
            emit_conv2d_by_windows(context, operation, schedule, total, row)
        case ir.Conv2D(), Convolution(beside=True) if not (
            whole.numbered or operation.pads_with_numbers or _overwrites_for_next_filter(context, operation, row)
        ):
            _emit_conv2d_by_runs(context, operation, schedule, total, row.number)
        case ir.Conv2D(), Convolution() if takes_channels(context, operation, total):
            emit_by_channels(context, operation, schedule, total, row)
        case ir.Conv2D(), Convolution():
            _emit_conv2d(context, operation, schedule, total, row.number)
        case _:
            raise TypeError(f"{type(operation).__name__} has another schedule than {type(schedule).__name__}")


def _emit_matmul_by_runs(
    context: Context, operation: ir.MatMul, schedule: DenseProduct, total: FinishedSum, row: OperationRow
) -> None:
    out = operation.out
    context = point_at_rows(context, [(operation, row)])
    with context.writer.loops(list(schedule.nest.loops[:2]), scope=True) as (i, j):
        count_rows(context, (i, j))
        target = visit(context, out, (i, j), out.strides)
        _emit_run(context, operation, total, (i, j), target.text)


def _emit_run(context: Context, operation: ir.MatMul, total: FinishedSum, at: Sequence[str], target: str) -> None:
    """The sum of one element, by a run, and its storing."""
    a, b, (i, j) = operation.a, operation.b, at
    (a0, _), (_, b1) = context.storage.strides(a), context.storage.strides(b)
    total.sum.start()
    add_run(context, total.sum, (a, [(i, a0)]), (b, [(j, b1)]), operation.taps)
    total.store((i, j), target, context.storage.bits[operation.out.variable], at)


def emit_run(context: Context, operation: ir.MatMul, row: OperationRow, at: Sequence[str], target: str) -> None:
    """The element at counters `at` of a product in order whose terms lie beside each other, written to an lvalue."""
    whole = context.arithmetic.sum(context, operation, row)
    context, finish = take_out_factors(context, operation, whole)
    _emit_run(context, operation, FinishedSum(whole, finish), at, target)


def _emit_matmul(context: Context, schedule: DenseProduct, total: FinishedSum) -> None:
    counted = (("k",) if total.sum.numbered else ()) + (("i0", "i1") if total.by_rows else ())
    walk = LoopNestWriter(context, schedule.nest, counted)
    with walk.inside(0, 2):
        total.sum.start()
        with walk.inside(2, 3):
            left, right = walk.values
            total.sum.add(left, right, walk.counter("k"))
        at = walk.counter("i0"), walk.counter("i1")
        total.store(at, walk.target, walk.target_bits, at)


def _emit_conv2d(context: Context, operation: ir.Conv2D, schedule: Convolution, total: FinishedSum, row: int) -> None:
    """A sum over kernel rows, columns and the input channels of the group; padding counts as zeros."""
    a, b, out = operation.a, operation.b, operation.out
    groups, kernel_height, kernel_width, group_in, group_out = b.shape
    images, height, width = out.shape[:3]
    storage, writer, (rows, columns) = context.storage, context.writer, schedule.axes
    outer, inner = [("i0", images), ("i1", height), ("i2", width), ("i3", groups)], [("i4", group_out)]
    with (
        writer.loops(outer, backward=row in context.backward) as (image, y, x, group),
        writer.loops(inner, scope=True) as (channel,),
    ):
        total.sum.start()
        kernel = [("i5", kernel_height), ("i6", kernel_width), ("k", group_in)]
        with writer.loops(kernel) as (ky, kx, k):
            moves = [(image, a.strides[0]), ("row", a.strides[1]), ("column", a.strides[2])]
            moves += [(group, group_in * a.strides[3]), (k, a.strides[3])]
            pixel = storage.element(a, moves)
            weight = visit(context, b, (group, ky, kx, k, channel), storage.strides(b))
            number = _tap_number((ky, kx, k), b.shape[1:4])
            condition = inside([("row", rows), ("column", columns)])
            name_places(context, pixel.text + condition, [("row", rows, y, ky), ("column", columns, x, kx)])
            if condition and operation.outside:
                kind, outside = storage.type_of(a.variable), constant(operation.outside).text
                pixel = CExpression(f"({kind})({condition} ? {pixel.text} : {outside})", pixel.bits)
                condition = ""
            total.sum.add(pixel, weight, number, condition)
        target = context.storage.element(out, output_moves(operation, (image, y, x, group, channel)))
        channels = _tap_number((group, channel), (groups, group_out))
        total.store((image, channels), target.text, target.bits, (image, y, x, f"({channels})"))


def _tap_number(counters: Sequence[str], extents: tuple[int, ...]) -> str:
    steps = ir.row_major_strides(extents)
    terms = [c if s == 1 else f"{s} * {c}" for c, s in zip(counters, steps, strict=True) if c != "0"]
    return " + ".join(terms) or "0"


def _emit_conv2d_by_runs(
    context: Context, operation: ir.Conv2D, schedule: Convolution, total: FinishedSum, row: int
) -> None:
    """The part of the kernel inside the image, row by row, each one run of pixels beside one of weights.

    Weights that are packed in codes are unpacked into RAM, one filter at a time, and then meet the whole image.
    """
    b, filters = operation.b, operation.out.shape[3]
    lines = [("i0", operation.out.shape[0]), ("i1", operation.out.shape[1])]
    numbers = window_numbers(context, operation)
    if context.storage.packing(b.variable) is None:
        backward = row in context.backward
        stored = total.then is None and total.complete is None and not backward
        over = operation.out if stored and walks_over(context, operation, operation.out) else None
        with (
            walked(context, over) as target,
            context.writer.loops(lines, scope=True, backward=backward) as (image, y),
        ):
            if numbers is None:
                _emit_image_row(context, operation, schedule, total, (image, y, None), target, backward=backward)
            else:
                at = image, y, None
                _emit_windows(context, operation, schedule, total, at, numbers, target, backward=backward)
        return
    with context.writer.loops([("i3", filters)], scope=True) as (channel,):
        buffer = _emit_unpacking(context, b, channel, row)
        unpacked = dataclasses.replace(context, storage=context.storage.of_buffer(b.variable, buffer))
        with context.writer.loops(lines, scope=True) as (image, y):
            if numbers is None:
                _emit_image_row(unpacked, operation, schedule, total, (image, y, channel))
            else:
                _emit_windows(unpacked, operation, schedule, total, (image, y, channel), numbers)


def _overwrites_for_next_filter(context: Context, operation: ir.Conv2D, row: OperationRow) -> bool:
    """Whether a filter's results would lie over what the next filter reads: those that are unpacked meet the whole image one by one, and
    results in place are written place by place (`codegen.in_place`)."""
    packed = context.storage.packing(operation.b.variable) is not None
    names = written_by(context, row.number, operation).variable, operation.a.variable
    return packed and share_bytes(context.storage, context.offsets, *names)


def _emit_unpacking(context: Context, weights: ir.View, channel: str, row: int) -> str:
    """Lines that unpack one filter into an array in RAM; its name."""
    storage = context.storage
    bits, (_, height, width, channels, _) = storage.bits[weights.variable], weights.shape
    buffer = context.scratch(row, bits, height * width * channels)
    steps = storage.strides(weights)
    nest = [("ky", height), ("k", width * channels)]
    if steps[1] == width * channels:
        nest = [("ky", 1), ("k", height * width * channels)]
    if nest[0][1] == 1 and nest[1][1] < 256 and _unpacks_alike(context, weights.variable) > 1:
        codes = add_unpacking(context, weights.variable)
        first = storage.address(weights, [(channel, steps[4])])
        table = codebook_argument(context, weights.variable)
        array, count = storage.array(weights.variable), nest[1][1]
        context.writer.line(f"{codes}({buffer}, {array}, {first}{table}, {count});")
        return buffer
    with context.writer.loops(nest) as (ky, k):
        element = storage.element(weights, [(channel, steps[4]), (ky, steps[1]), (k, 1)])
        place = k if ky == "0" else f"{width * channels} * {ky} + {k}"
        context.writer.line(f"{buffer}[{place}] = {element.text};")
    return buffer


def _unpacks_alike(context: Context, name: str) -> int:
    """How many convolutions have weights stored as those are, where code is to be short; 0 elsewhere."""
    storage = context.storage
    others = [o.b.variable for o in ir.operations(storage.program.body) if isinstance(o, ir.Conv2D)]
    return sum(kind_of(context, other) == kind_of(context, name) for other in others) if context.shape.shared else 0


def _emit_image_row(
    context: Context,
    operation: ir.Conv2D,
    schedule: Convolution,
    total: FinishedSum,
    at: tuple[str, str, str | None],
    target: str = "",
    *,
    backward: bool = False,
) -> None:
    """A row of results, of one filter where that is known and its weights lie in a buffer, of all filters otherwise; `target`: of each."""
    a, b, out = operation.a, operation.b, operation.out
    storage, writer = context.storage, context.writer
    (image, y, known), channels, axes = at, b.shape[3], schedule.axes
    row, rows = part_inside(context, axes[0], y, "row")
    with writer.loops([("i2", out.shape[2])], scope=True, backward=backward) as (x,):
        column, columns = part_inside(context, axes[1], x, "column")
        count = columns if channels == 1 else f"{channels} * {columns}"
        moves = [(image, a.strides[0]), (image_place(y, row, axes[0]), a.strides[1])]
        moves += [(image_place(x, column, axes[1]), a.strides[2])]
        writer.line(f"{storage.pointer(a, moves, 'pixels', False)};")
        with writer.loops([] if known else [("i3", out.shape[3])], scope=True) as filters:
            channel = known or filters[0]
            steps = storage.strides(b) if known is None else (0, b.shape[2] * channels, channels, 1, 0)
            origin = b if known is None else dataclasses.replace(b, offset=ir.Affine())
            total.sum.start()
            weights = storage.address(origin, [(channel, steps[4]), (row, steps[1]), (column, steps[2])])
            pair = a.variable, b.variable
            steps_a_round = divisor(context.shape.unroll, channels) if takes_steps(context, pair) else 0
            rounds = channels // steps_a_round if steps_a_round else channels
            counted = columns if rounds == 1 else f"{rounds} * {columns}"
            sizes = [rows, counted, f"{a.strides[1]} - {count}", f"{steps[1]} - {count}"]
            long, tall = max(channels * b.shape[2], a.strides[1], steps[1]) > 255, b.shape[1] > 255
            extent = ", ".join(
                text if text.isdigit() else f"(uint_fast{16 if (long if number else tall) else 8}_t)({text})"
                for number, text in enumerate(sizes)
            )
            add_rows(context, total.sum, ("pixels", weights), (a, b), extent, RowsForm(long, tall, steps_a_round))
            element = storage.element(out, output_moves(operation, (image, y, x, "0", channel)))
            total.store((image, channel), target or element.text, element.bits, (image, y, x, channel))


def _emit_windows(
    context: Context,
    operation: ir.Conv2D,
    schedule: Convolution,
    total: FinishedSum,
    at: tuple[str, str, str | None],
    numbers: WindowNumbers,
    target: str = "",
    *,
    backward: bool = False,
) -> None:
    """As `_emit_image_row`, by the function that convolutions have in common."""
    a, b, out = operation.a, operation.b, operation.out
    storage, writer, (image, y, known) = context.storage, context.writer, at
    rows, columns = schedule.axes
    origin, step = (b, storage.strides(b)[4]) if known is None else (dataclasses.replace(b, offset=ir.Affine()), 0)
    filters = [] if known else [("i3", out.shape[3])]
    with (
        writer.loops([("i2", out.shape[2])], scope=not filters, backward=backward) as (x,),
        writer.loops(filters, scope=bool(filters)) as at_filter,
    ):
        channel = known or at_filter[0]
        total.sum.start()
        places = storage.address(a, [(image, a.strides[0])]), storage.address(origin, [(channel, step)])
        first = image_place(y, "0", rows), image_place(x, "0", columns)
        add_window(context, total.sum, places, (a.variable, b.variable), first, numbers)
        element = storage.element(out, output_moves(operation, (image, y, x, "0", channel)))
        total.store((image, channel), target or element.text, element.bits, (image, y, x, channel))


def _emit_sparse(context: Context, operation: ir.MatMul, schedule: SparseProduct, total: FinishedSum) -> None:
    """Row by row over the values that are stored; `next` walks through the lists of columns.

    SeeDot's Algorithm 2 goes column by column, which takes a sum for every row in RAM. Both add the same terms.
    """
    a, b, out = operation.a, operation.b, operation.out
    writer, storage, matrix = context.writer, context.storage, context.storage.names[operation.a.variable]
    bits, kind, load = storage.bits[a.variable], storage.type_of(a.variable), 8 if a.shape[1] < 256 else 16
    with writer.loops([schedule.columns], scope=True) as (j,):
        for line in _first_value(context, a):
            writer.line(line)
        writer.line(f"const uint{load}_t *next = {matrix}_columns;")
        with writer.loops([schedule.rows], scope=True) as (i,):
            total.sum.start()
            writer.line(f"uint{load}_t k;")
            with writer.block(f"while ((k = KT_NEXT_PLACE{load}(next)) != 0)"):
                writer.line(f"const {kind} v0 = {_next_value(context, a)};")
                at = visit(context, b, ("(k - 1)", j), storage.strides(b))
                writer.line(f"const {storage.type_of(b.variable)} v1 = {at.text};")
                total.sum.add(CExpression("v0", bits), CExpression("v1", at.bits), "")
            target = visit(context, out, (i, j), out.strides)
            total.store((i, j), target.text, target.bits, (i, j))


def _first_value(context: Context, matrix: ir.View) -> list[str]:
    """Declarations of what walks through the stored values of a sparse matrix."""
    storage = context.storage
    packing, array = storage.packing(matrix.variable), storage.array(matrix.variable)
    if packing is None:
        return [f"const {storage.type_of(matrix.variable)} *value = {array};"]
    start = walk_start(packing.width, "value")
    return [f"const uint8_t *value = {array};", *start] if walks(packing.width) else start


def _next_value(context: Context, matrix: ir.View) -> str:
    """The expression of the next stored value; lines that it needs are written."""
    storage = context.storage
    packing = storage.packing(matrix.variable)
    if packing is None:
        return storage.next(matrix, "value")
    lines, code = walk_next(packing.width, storage.array(matrix.variable), "value")
    for line in lines:
        context.writer.line(line)
    return decoded(code, packing, storage.bits[matrix.variable], storage.codebook(matrix.variable))
