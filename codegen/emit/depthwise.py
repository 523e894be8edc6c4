"""Convolutions of each channel with filters of its own (depthwise): all taps of a sum stand one after the other.

What lies under the window is met in the image itself, with as many elements between two rows as the image has, and only where
padding is under it in a buffer in which padding counts as zeros. So no tap is asked whether it is in the image.
"""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.blocks import takes_rows
from kilotune.codegen.emit.context import Context, OperationRow, visit
from kilotune.codegen.emit.copied_windows import WindowPart, copy_windows
from kilotune.codegen.emit.operators import CExpression
from kilotune.codegen.emit.row_factors import FinishedSum
from kilotune.codegen.emit.row_layout import channels_lie_beside
from kilotune.codegen.emit.runs import pointed
from kilotune.codegen.emit.schedule import Convolution
from kilotune.codegen.emit.windows import image_place, output_moves, part_inside


def takes_channels(context: Context, operation: ir.Conv2D, total: FinishedSum) -> bool:
    """Whether a convolution is written so: where code is to be fast, and its sums are of whole products."""
    return takes_rows(context, operation, total) and channels_lie_beside(context.storage, operation)


def emit_by_channels(
    context: Context, operation: ir.Conv2D, schedule: Convolution, total: FinishedSum, row: OperationRow
) -> None:
    """For each place of the window, the sums of all channels."""
    a, b, out, writer, storage = operation.a, operation.b, operation.out, context.writer, context.storage
    groups, height, width = b.shape[:3]
    padded = any(axis.checks for axis in schedule.axes)
    words = -(-operation.taps * groups * storage.bits[a.variable] // 32)
    scratch = context.scratch(row.number, 32, words) if padded else ""
    kind = f"{pointed(context, a.variable)} *"
    backward = row.number in context.backward
    with writer.loops([("i0", out.shape[0]), ("i1", out.shape[1])], scope=True, backward=backward) as (image, y):
        first_row, rows = part_inside(context, schedule.axes[0], y, "row")
        with writer.loops([("i2", out.shape[2])], scope=True, backward=backward) as (x,):
            first_column, columns = part_inside(context, schedule.axes[1], x, "column")
            moves = [(image, a.strides[0]), (image_place(y, first_row, schedule.axes[0]), a.strides[1])]
            moves += [(image_place(x, first_column, schedule.axes[1]), a.strides[2])]
            writer.line(f"{kind}pixels = ({kind})({storage.address(a, moves)});")
            step = str(a.strides[1])
            partly = [f"{n} != {whole}" for n, whole in ((rows, height), (columns, width)) if not n.isdigit()]
            if partly:
                step = "step"
                if height > 1:
                    writer.line(f"uint_fast16_t step = {a.strides[1]};")
                with writer.block(f"if ({' || '.join(partly)})"):
                    window = WindowPart("pixels", (first_row, rows), (first_column, columns))
                    writer.line(f"pixels = {copy_windows(context, operation, [window], (scratch, words))[0]};")
                    if height > 1:
                        writer.line(f"step = {width * groups};")
            with writer.loops([("i3", groups)], scope=True, backward=backward) as (channel,):
                total.sum.start()
                writer.line(f"{kind}p = pixels + {channel};")
                for ky in range(height):
                    for kx in range(width):
                        pixel = CExpression(f"p[{kx * groups}]", storage.bits[a.variable])
                        weight = visit(context, b, (channel, str(ky), str(kx)), storage.strides(b)[:3])
                        total.sum.add(pixel, weight, str(ky * width + kx))
                    if ky + 1 < height:
                        writer.line(f"p += {step};")
                target = storage.element(out, output_moves(operation, (image, y, x, channel, "0")))
                total.store((image, channel), target.text, target.bits, (image, y, x, channel))
