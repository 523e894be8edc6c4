"""Products whose sums are taken for all rows of weights in one call: the operand they meet is a run of its own.

A matrix product has such an operand as it is. A convolution copies what lies under the window into a buffer first, so that padding
counts as zeros and all filters meet one run.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, OperationRow, visit
from kilotune.codegen.emit.copied_windows import WindowPart, copy_windows
from kilotune.codegen.emit.fusion import share_bytes
from kilotune.codegen.emit.iteration import moves_along
from kilotune.codegen.emit.pairs import MACRO, blocks_for, row_sums
from kilotune.codegen.emit.row_factors import FinishedSum
from kilotune.codegen.emit.row_layout import filters_lie_beside, rows_of_matrices
from kilotune.codegen.emit.row_results import SUM_BITS, UNCHANGED, RowCall, RowResult, result_kinds
from kilotune.codegen.emit.row_tails import row_tail, written_by
from kilotune.codegen.emit.runs import add_run_at, kind_of, pointed, takes_steps
from kilotune.codegen.emit.schedule import Convolution
from kilotune.codegen.emit.unrolled import divisor
from kilotune.codegen.emit.vectors import MACRO as VECTORS
from kilotune.codegen.emit.windows import image_place, output_moves, part_inside

_PAIRED = (8, 16)


def takes_rows(context: Context, operation: ir.Product, total: FinishedSum) -> bool:
    """Whether such calls were asked for, and the products can be taken so."""
    storage = context.storage
    if not (context.shape.rows and total.sum.plain):
        return False
    names = [view.variable for view in (operation.a, operation.b)]
    return all(storage.packing(name) is None and storage.bits[name] in _PAIRED for name in names)


def takes_windows(context: Context, operation: ir.Conv2D, total: FinishedSum) -> bool:
    """Whether a convolution copies what lies under its window, and each filter's weights are a run."""
    names, shape = (operation.a.variable, operation.b.variable), context.shape
    short = takes_steps(context, names) and not divisor(shape.unroll, operation.b.shape[3])
    wanted = takes_rows(context, operation, total) or (short and not total.sum.numbered)
    packed = context.storage.packing(operation.b.variable) is not None
    wanted = wanted or operation.pads_with_numbers
    return bool(wanted) and not packed and filters_lie_beside(context.storage, operation)


def emit_matmul_by_rows(context: Context, operation: ir.MatMul, total: FinishedSum, row: OperationRow) -> None:
    """For each run of one operand, all rows of the other."""
    number = rows_of_matrices(context.storage, operation)
    assert number is not None
    a, b, out = operation.a, operation.b, written_by(context, row.number, operation)
    (a0, _), (_, b1) = (context.storage.strides(view) for view in (a, b))
    rows, others = (a.shape[0], b.shape[1]) if number == 0 else (b.shape[1], a.shape[0])
    result = result_of_rows(context, total, number, operation.out, row.number)
    sums = context.scratch(row.number, 32, rows) if result == UNCHANGED else ""
    with context.writer.loops([("i1", others)], scope=True) as (other,):
        weights, operand = (a, b) if number == 0 else (b, a)
        step = b1 if number == 0 else a0
        places = context.storage.address(weights, []), context.storage.address(operand, [(other, step)])
        at = ("0", other) if number == 0 else (other, "0")
        to = sums or context.storage.address(out, moves_along(out, operation.out, at))
        _call(context, ([to], result), (weights.variable, operand.variable), places, (operation.taps, rows))
        if sums:
            with context.writer.loops([("i0", rows)]) as (here,):
                at = (here, other) if number == 0 else (other, here)
                target = visit(context, operation.out, at, operation.out.strides)
                _finish(context, total, sums, here, at, (target.text, target.bits), at)


def result_of_rows(context: Context, total: FinishedSum, weights: int, out: ir.View, row: int) -> RowResult:
    """What a call makes of the sum of a row of operand number `weights`; `UNCHANGED` where another rule makes the result, beside it. `out`:
    the result of the operation in that row of the program."""
    narrowing, finish = total.sum.narrowing, total.finish
    bits, step = context.storage.bits[out.variable], out.strides[3 if len(out.shape) == 4 else weights]
    if narrowing is None or total.complete is not None or narrowing.bits != bits:
        return UNCHANGED
    tail = row_tail(context, row)
    if tail is None and row in context.chains:
        return UNCHANGED
    others = [number for number, _ in finish.rows if number != weights]
    if (tail is None and step != 1) or others or finish.most >= narrowing.sum_bits:
        return UNCHANGED
    room, factors = SUM_BITS - narrowing.sum_bits, finish.rows[0][1] if finish.rows else None
    return RowResult(finish.shift + room, narrowing.shift + room, bits, factors, *(tail or ()))


def lies_in_one_run(operation: ir.Conv2D, schedule: Convolution) -> bool:
    """Whether what lies under the window is one run of the image wherever the window is."""
    return operation.kernel[0] == 1 and not any(axis.checks for axis in schedule.axes)


def places_at_once(context: Context, operation: ir.Conv2D, total: FinishedSum) -> int:
    """How many places of the window meet the filters in one call, in most of the calls."""
    return min(context.shape.places if takes_rows(context, operation, total) else 1, operation.out.shape[2])


def emit_conv2d_by_windows(
    context: Context, operation: ir.Conv2D, schedule: Convolution, total: FinishedSum, row: OperationRow
) -> None:
    """For each place of the window, or each two neighbours, all filters. What lies under it is copied unless it is one run inside the
    image, and of neighbours one run behind the other."""
    a, out, places = operation.a, operation.out, places_at_once(context, operation, total)
    written = written_by(context, row.number, operation)
    bits, filters = context.storage.bits[a.variable], operation.b.shape[4]
    in_the_image = lies_in_one_run(operation, schedule) and (
        places == 1 or _read_in_the_image(context, operation, written)
    )
    result = None
    if takes_rows(context, operation, total):
        result = result_of_rows(context, total, 1, out, row.number)
    words = 0 if in_the_image else -(-places * operation.taps * bits // 32)
    size = words + (places * filters if result == UNCHANGED else 0)
    scratch = context.scratch(row.number, 32, size) if size else ""
    sums = f"({scratch} + {words})" if words else scratch
    together, left = divmod(out.shape[2], places)
    lines, backward = [("i0", out.shape[0]), ("i1", out.shape[1])], row.number in context.backward
    with context.writer.loops(lines, scope=True, backward=backward) as (image, y):
        rows = part_inside(context, schedule.axes[0], y, "row")

        def emit(columns: Sequence[str]) -> None:
            windows = [
                _window(context, operation, schedule, (image, y, x), rows, name)
                for x, name in zip(columns, ("column", "next"), strict=False)
            ]
            operands = [window.pixels for window in windows]
            if not in_the_image:
                operands = copy_windows(context, operation, windows, (scratch, words))
            _emit_filters(
                context, operation, total, (operands[0], sums, result, written), [(image, y, x) for x in columns]
            )

        def emit_last() -> None:
            if left:
                with context.writer.block(""):
                    emit([str(out.shape[2] - 1)])

        if backward:
            emit_last()
        with context.writer.loops([("i2", together)], scope=True, backward=backward) as (x,):
            emit([x] if places == 1 else ["0", "1"] if x == "0" else [f"(2 * {x})", f"(2 * {x} + 1)"])
        if not backward:
            emit_last()


def follows(operation: ir.Conv2D) -> bool:
    """Whether what lies under the window, where that is one run of the image, begins where that of the place before ends."""
    return operation.stride[1] * operation.a.strides[2] == operation.taps


def _read_in_the_image(context: Context, operation: ir.Conv2D, written: ir.View) -> bool:
    """Whether two neighbouring windows can be met in the image: what is written while both are read must lie elsewhere."""
    names = written.variable, operation.a.variable
    return follows(operation) and not share_bytes(context.storage, context.offsets, *names)


def _window(
    context: Context,
    operation: ir.Conv2D,
    schedule: Convolution,
    place: tuple[str, str, str],
    rows: tuple[str, str],
    name: str,
) -> WindowPart:
    """What lies under the window at a place; `rows`: of it that are inside the image. Lines that it needs are written."""
    (image, y, x), a, axes = place, operation.a, schedule.axes
    columns = part_inside(context, axes[1], x, name)
    moves = [(image, a.strides[0]), (image_place(y, rows[0], axes[0]), a.strides[1])]
    moves += [(image_place(x, columns[0], axes[1]), a.strides[2])]
    return WindowPart(context.storage.address(a, moves), rows, columns)


def _emit_filters(
    context: Context,
    operation: ir.Conv2D,
    total: FinishedSum,
    arrays: tuple[str, str, RowResult | None, ir.View],
    places: Sequence[tuple[str, str, str]],
) -> None:
    """All results at one place, or two. `arrays`: expressions of what lies under the first window, and of one for the sums of all filters,
    what a call for all of them makes of these (None for a call a filter), and where it writes that."""
    operand, sums, result, written = arrays
    names, storage, taps = (operation.a.variable, operation.b.variable), context.storage, operation.taps
    filters = operation.b.shape[4]
    waiting = [sums, *(f"{sums} + {filters * number}" for number in range(1, len(places)))]
    if result is not None:
        to = [storage.address(written, moves_along(written, operation.out, (*place, "0"))) for place in places]
        targets = waiting if result == UNCHANGED else to
        _call(context, (targets, result), names[::-1], (storage.address(operation.b, []), operand), (taps, filters))
    if result not in (None, UNCHANGED):
        return
    for (image, y, x), array in zip(places, waiting, strict=True):
        with context.writer.loops([("i3", filters)], scope=result is None) as (channel,):
            target = storage.element(operation.out, output_moves(operation, (image, y, x, "0", channel)))
            if result is not None:
                at = (image, y, x, channel)
                _finish(context, total, f"({array})", channel, (image, channel), (target.text, target.bits), at)
                continue
            total.sum.start()
            weights = storage.address(operation.b, [(channel, taps)])
            add_run_at(context, total.sum, names, (operand, weights), taps)
            total.store((image, channel), target.text, target.bits, (image, y, x, channel))


def _call(
    context: Context,
    target: tuple[Sequence[str], RowResult],
    names: tuple[str, str],
    places: Sequence[str],
    extents: tuple[int, int],
) -> None:
    """The line that makes results of sums of all rows. `target`: where they are written, those of each operand, and what they are;
    `names`: of weights and operand, `extents`: terms and rows."""
    storage, operators, (targets, result) = context.storage, context.operators, target
    weights, operand = names
    call = RowCall((kind_of(context, weights), kind_of(context, operand)), extents, result, len(targets))
    calls = [other for other in context.row_calls if other.function == call.function]
    tails = list(dict.fromkeys(other.result.tail for other in context.row_calls if other.result.tail is not None))
    results = result_kinds([other.result for other in calls], tails)
    operators.require("kt_pairs", MACRO)
    if context.shape.vectors:
        operators.require("kt_vectors", VECTORS)
    for function in results.functions(operators.rounding):
        operators.require(*function)
    kind = storage.type_of(weights) if storage.in_flash(weights) else f"kt_int{storage.bits[weights]}"
    following = f"KT_NEXT{storage.suffix(weights)}(w)" if storage.in_flash(weights) else "*w++"
    load = f"KT_LOAD{storage.suffix(operand)}" if storage.in_flash(operand) else "*"
    operators.require(
        call.function,
        row_sums(
            call.function,
            (storage.bits[weights], kind, following),
            (storage.bits[operand], pointed(context, operand).removeprefix("const "), load),
            blocks_for(
                context.shape.rows,
                [other.extents for other in calls],
                call.places,
                interleaved=weights in storage.interleaved,
                vectors=context.shape.vectors,
            ),
            results,
        ),
    )
    arguments = [f"({pointed(context, n)} *)({p})" for n, p in zip(names, places, strict=True)]
    arguments += [str(extent) for extent in extents]
    context.writer.line(f"{call.function}({', '.join([*targets, *arguments, *results.arguments(result)])});")


def _finish(
    context: Context,
    total: FinishedSum,
    sums: str,
    number: str,
    rows: tuple[str, str],
    target: tuple[str, int],
    at: Sequence[str],
) -> None:
    """Write the result of one sum, of these rows of both operands, or what becomes of it at these counters."""
    context.writer.line(f"{total.sum.kind} sum = ({total.sum.kind}){sums}[{number}];")
    total.store(rows, *target, at)
