"""C of the operations that look at a window or at everything at once: MaxPool, ArgMax."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kilotune.codegen import ir
from kilotune.codegen.emit.common_windows import pool_function, pool_numbers
from kilotune.codegen.emit.context import Context, OperationRow, counters_of, visit
from kilotune.codegen.emit.iteration import element_number, iterate
from kilotune.codegen.emit.operators import CExpression, cast
from kilotune.codegen.emit.schedule import WindowAxis, window_axes
from kilotune.codegen.emit.writer import counter_type
from kilotune.codegen.fixed.table import Column


def inside(places: Sequence[tuple[str, WindowAxis]]) -> str:
    """The condition that places, C expressions on axes of a window, lie in the image."""
    tests = []
    for place, axis in places:
        tests += [f"{place} >= 0"] if axis.least < 0 else []
        tests += [f"{place} < {axis.extent}"] if axis.greatest >= axis.extent else []
    return " && ".join(tests)


def walks_over(context: Context, operation: ir.Windowed, out: ir.View) -> bool:
    """Whether a pointer moves over the results, which are written to `out` in its order: short code, since their numbers need not be
    computed."""
    depends = isinstance(operation, ir.Conv2D) and (
        operation.groups > 1 or context.storage.packing(operation.b.variable) is not None
    )
    return context.shape.shared and not depends and out.strides == ir.row_major_strides(out.shape)


@contextmanager
def walked(context: Context, out: ir.View | None) -> Iterator[str]:
    """Inside `*to++` is the next element of a view; nothing of the kind without one."""
    if out is None:
        yield ""
        return
    with context.writer.block(""):
        context.writer.line(f"{context.storage.pointer(out, [], 'to', True)};")
        yield "*to++"


def emit_maxpool(context: Context, operation: ir.MaxPool, row: OperationRow) -> None:
    """The largest element under every position of the window; padded places never win."""
    writer, storage = context.writer, context.storage
    bits, kind = storage.bits[operation.a.variable], storage.type_of(operation.a.variable)
    numbers = (
        pool_numbers(context, operation)
        if storage.is_integer(operation.a.variable) and row[Column.SHIFT_OUT] == 0
        else None
    )
    if numbers is not None:
        pointed = f"kt_int{bits}"
        name = f"kt_pool{bits}"
        context.operators.require(name, pool_function(name, pointed, context.arithmetic.least(bits), numbers))
        places = storage.address(operation.a, []), storage.address(operation.out, [])
        writer.line(f"{name}((const {pointed} *)({places[0]}), {places[1]}{numbers.passed()});")
        return
    over = operation.out if walks_over(context, operation, operation.out) else None
    with walked(context, over) as target, _positions(context, operation, over is not None) as at:
        writer.line(f"{kind} largest = {context.arithmetic.least(bits)};")
        with writer.loops([("i4", operation.kernel[0]), ("i5", operation.kernel[1])]) as taps:
            value, condition = _under_window(context, operation, at, taps)
            test = f"{condition} && {value} > largest" if condition else f"{value} > largest"
            writer.line(f"if ({test}) largest = {value};")
        element = visit(context, operation.out, at, operation.out.strides)
        result = context.arithmetic.rescale(context, CExpression("largest", bits), row)
        writer.line(f"{target or element.text} = {cast(result, element.bits).text};")


@contextmanager
def _positions(context: Context, operation: ir.MaxPool, walks: bool) -> Iterator[list[str]]:
    """Loops over the positions of a window, inside which `window` points at the first element under it, if none is padding or in flash;
    `walks`: it moves on from position to position."""
    writer, storage, a, out = context.writer, context.storage, operation.a, operation.out
    outer = [(f"i{axis}", count) for axis, count in enumerate(out.shape)]
    points = not (any(axis.checks for axis in window_axes(operation)) or storage.in_flash(a.variable))
    if not (points and walks):
        with writer.loops(outer, scope=True) as at:
            if points:
                writer.line(f"{storage.pointer(a, _window_moves(operation, at), 'window', False)};")
            yield at
        return
    steps = [step for _, step in _window_moves(operation, [name for name, _ in outer])]
    steps_back = [*(step * count for step, (_, count) in zip(steps[1:], outer[1:], strict=True)), 0]
    writer.line(f"{storage.pointer(a, [], 'window', False)};")
    with ExitStack() as nest:
        at = []
        for loop, step, back in zip(outer, steps, steps_back, strict=True):
            at += nest.enter_context(writer.loops([loop]))
            if step != back:
                nest.callback(writer.line, "window++;" if step - back == 1 else f"window += {step - back};")
        if out.size == 1:  # no loop is left
            nest.enter_context(writer.block(""))
        yield at


def _window_moves(operation: ir.MaxPool, at: Sequence[str]) -> list[tuple[str, int]]:
    """Where the first element under the window is, for counters of the result."""
    steps = zip(operation.a.strides, (1, *operation.stride, 1), strict=True)
    return [(counter, step * by) for counter, (step, by) in zip(at, steps, strict=True)]


def _under_window(context: Context, operation: ir.MaxPool, at: Sequence[str], taps: Sequence[str]) -> tuple[str, str]:
    """(element under a place of the window, condition that it lies in the image); lines that they need are written."""
    storage, (rows, columns), a = context.storage, window_axes(operation), operation.a
    if rows.checks or columns.checks:
        value = visit(context, a, (at[0], "row", "column", at[3]), a.strides)
        condition = inside([("row", rows), ("column", columns)])
        names = [("row", rows, at[1], taps[0]), ("column", columns, at[2], taps[1])]
        name_places(context, value.text + condition, names)
        return value.text, condition
    moves = [(tap, a.strides[1 + axis] * operation.dilation[axis]) for axis, tap in enumerate(taps)]
    if storage.in_flash(a.variable):
        return storage.element(a, [*_window_moves(operation, at), *moves]).text, ""
    number = element_number(ir.Affine(), [move for move in moves if move[0] != "0"], {})
    return f"window[{number}]", ""


def name_places(context: Context, text: str, names: Sequence[tuple[str, WindowAxis, str, str]]) -> None:
    """Name the places under a window that C `text` reads: (name, axis, position of the window, offset in it). An image of one row has no
    row to name."""
    for name, axis, position, offset in names:
        if re.search(rf"\b{name}\b", text):
            context.writer.line(f"const kt_index {name} = {_window_place(axis, position, offset)};")


def _window_place(axis: WindowAxis, position: str, offset: str) -> str:
    """The C expression of the place under a window at `position`, `offset` places from its beginning."""
    terms = [
        f"{position} * {axis.stride}" if axis.stride != 1 else position,
        f"{offset} * {axis.dilation}" if axis.dilation != 1 else offset,
    ]
    terms = [term for term in terms if not term.startswith("0")] or ["0"]
    return f"(kt_index)({' + '.join(terms)}" + (f" - {axis.before})" if axis.before else ")")


def emit_argmax(context: Context, operation: ir.ArgMax) -> None:
    """Index, in row-major order, of the first largest element."""
    writer = context.writer
    loops = iterate([operation.a])
    steps = ir.row_major_strides(loops.extents)
    with writer.block(""):
        first = visit(context, operation.a, ["0"] * len(loops.extents), loops.strides[0])
        writer.line(f"{context.storage.type_of(operation.a.variable)} largest = {first.text};")
        writer.line(f"{_number_type(context, operation)} winner = 0;")
        with writer.loops(counters_of(loops)) as counters:
            value = visit(context, operation.a, counters, loops.strides[0])
            consider(context, operation, value.text, counters, steps)
        writer.line(f"{visit(context, operation.out, (), ()).text} = winner;")


@contextmanager
def chosen(context: Context, operation: ir.ArgMax) -> Iterator[None]:
    """What is written inside meets the elements in their order, each by `consider`; behind it stands the storing of the winner's number."""
    bits, writer = context.storage.bits[operation.a.variable], context.writer
    with writer.block(""):
        writer.line(f"{context.storage.type_of(operation.a.variable)} largest = {context.arithmetic.least(bits)};")
        writer.line(f"{_number_type(context, operation)} winner = 0;")
        yield
        writer.line(f"{visit(context, operation.out, (), ()).text} = winner;")


def _number_type(context: Context, operation: ir.ArgMax) -> str:
    """The C type of the winner's number: a byte where that has room for it, and code is to be short."""
    return "uint8_t" if context.shape.shared and operation.a.size <= 256 else "int16_t"


def consider(context: Context, operation: ir.ArgMax, value: str, at: Sequence[str], steps: Sequence[int]) -> None:
    """The element that an expression names, at counters each of which is so many elements a step, wins where it is larger than all before
    it."""
    place = " + ".join(c if s == 1 else f"{s} * {c}" for c, s in zip(at, steps, strict=True) if c != "0") or "0"
    with context.writer.block(f"if ({value} > largest)"):
        context.writer.line(f"largest = {value};")
        context.writer.line(f"winner = ({_number_type(context, operation)})({place});")


def output_moves(operation: ir.Conv2D, counters: tuple[str, str, str, str, str]) -> list[tuple[str, int]]:
    """Where a result is: image, row, column, group and channel, each with its step."""
    image, y, x, group, channel = counters
    strides, group_out = operation.out.strides, operation.b.shape[4]
    moves = [(image, strides[0]), (y, strides[1]), (x, strides[2])]
    return [*moves, (group, group_out * strides[3]), (channel, strides[3])]


def image_place(position: str, offset: str, axis: WindowAxis) -> str:
    """The row (column) of the image under a row (column) of the kernel, as an expression in parentheses."""
    stride, before = axis.stride, axis.before
    terms = [] if position == "0" else [position if stride == 1 else f"{position} * {stride}"]
    terms += [offset] if offset != "0" else []
    text = " + ".join(terms) + (f" - {before}" if before else "")
    return f"({text})" if terms else "0" if not before else f"({-before})"


def part_inside(context: Context, axis: WindowAxis, position: str, name: str) -> tuple[str, str]:
    """The first row (column) of the kernel inside the image, and how many are: at least one, as windows overlap the image."""
    stride, before, extent, kernel = axis.stride, axis.before, axis.extent, axis.kernel
    moved = position if stride == 1 else f"{position} * {stride}"
    if not axis.checks:
        return "0", str(kernel)
    first, count, line, kind = "0", f"{name}s", context.writer.line, counter_type(kernel)
    if before:
        first = f"{name}_first"
        line(f"const {kind} {first} = {moved} < {before} ? ({kind})({before} - {moved}) : 0;")
    last = str(kernel)
    if axis.greatest >= extent:
        last = f"{name}_end"
        room = extent + before
        cut = f"({kind})({room} - {moved})"
        whole = f"{moved} > {room - kernel} ? {cut} : {kernel}"
        line(
            f"const {kind} {last} = {whole if room >= kernel else cut};"
        )  # where no window is whole, gcc warns of asking
    line(f"const {kind} {count} = " + (f"({kind})({last} - {first});" if before else f"{last};"))
    return first, count
