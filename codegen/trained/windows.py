"""Pools, and sums and averages along axes.

A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.ir import View
from kilotune.codegen.language.views import permuted, reshaped
from kilotune.codegen.onnx.attributes import divisors, read_window
from kilotune.codegen.onnx.graph import Window
from kilotune.codegen.trained.builder import Builder
from kilotune.codegen.trained.elementwise import scale
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.products import as_image, channels_second
from kilotune.codegen.trained.rearranging import axis_of


def pool(builder: Builder, node: TrainedNode) -> None:
    """MaxPool or AveragePool of one or two dimensions."""
    view = builder.view(builder.tensor(node.inputs[0]))
    rank, kernel = len(view.shape), tuple(node.attributes.get("kernel_shape", ()))
    if rank not in (3, 4) or len(kernel) != rank - 2:
        raise ValueError(
            f"expected an image or a sequence and a kernel for it, found {list(view.shape)}, {list(kernel)}"
        )
    image = as_image(view)
    shape = (image.shape[3], image.shape[1], image.shape[2])
    window = read_window(node.attributes, kernel, rank, shape)
    inside = divisors(window, shape, None)
    if inside.min() < 1:
        raise ValueError("expected windows that hold some of the image, found one of padding only")
    if window.dilation != (1, 1) and node.text("auto_pad", "NOTSET").startswith("SAME"):
        raise ValueError("expected pads for a window with gaps, found auto_pad, of which executions of ONNX differ")
    if node.kind == "MaxPool":
        if window.dilation != (1, 1):
            raise ValueError(f"expected a window without gaps, found dilations {list(window.dilation)}")
        builder.bind(node.output, channels_second(largest_of_windows(builder, image, window, node.output), rank))
        return
    counted = inside
    if node.integer("count_include_pad", 0):
        within = read_window({**node.attributes, "ceil_mode": 0}, kernel, rank, shape).pads
        counted = divisors(window, shape, within)
    builder.bind(node.output, channels_second(_average(builder, image, window, counted, node.output), rank))


def largest_of_windows(builder: Builder, image: View, window: Window, name: str) -> View:
    """(batch, height', width', channels) of an image (batch, height, width, channels), the largest element of each window."""
    high, wide = window.output_size(image.shape[1], image.shape[2])
    out = builder.temporary((image.shape[0], high, wide, image.shape[3]), name)
    top, left, bottom, right = window.pads
    builder.emit(ir.MaxPool(out, builder.location, image, window.kernel, window.stride, (top, bottom, left, right)))
    return out


def _average(builder: Builder, image: View, window: Window, counted: np.ndarray, name: str) -> View:
    """(batch, height', width', channels): every channel as an image of its own, and one filter for all of them."""
    high, wide = window.output_size(image.shape[1], image.shape[2])
    if image.shape[0] != 1:
        raise ValueError(f"expected a batch of 1, found {image.shape[0]}")
    channels = permuted(image, (3, 1, 2, 0))
    equal = bool((counted == counted.reshape(-1)[0]).all())
    weight = 1.0 / float(counted.reshape(-1)[0]) if equal else 1.0 / math.prod(window.kernel)
    filters = builder.parameter("average", np.full((1, *window.kernel, 1, 1), weight))
    out = builder.temporary((1, high, wide, image.shape[3]), name)
    top, left, bottom, right = window.pads
    padding = (top, bottom, left, right)
    target = permuted(out, (3, 1, 2, 0))
    builder.emit(ir.Conv2D(target, builder.location, channels, filters, window.stride, padding, window.dilation, 1))
    if equal:
        return out
    factor = math.prod(window.kernel) / counted.reshape(1, high, wide, 1)
    return scale(builder, out, factor, "counted", name)


def global_pool(builder: Builder, node: TrainedNode) -> None:
    """The largest or the average over all of an image."""
    view = builder.view(builder.tensor(node.inputs[0]))
    rank = len(view.shape)
    if rank not in (3, 4):
        raise ValueError(f"expected an image or a sequence, found shape {list(view.shape)}")
    image = as_image(view)
    window = Window(kernel=(image.shape[1], image.shape[2]), stride=(image.shape[1], image.shape[2]))
    if node.kind == "GlobalMaxPool":
        builder.bind(node.output, channels_second(largest_of_windows(builder, image, window, node.output), rank))
        return
    averaged = _means(builder, view, tuple(range(2, rank)), node.output, mean=True)
    result = reshaped(averaged, (*view.shape[:2], *(1 for _ in range(rank - 2))))
    assert result is not None
    builder.bind(node.output, result)


def reduction(builder: Builder, node: TrainedNode) -> None:
    """ReduceMean, ReduceSum or ReduceMax over constant axes."""
    view = builder.view(builder.tensor(node.inputs[0]))
    rank = len(view.shape)
    given = builder.optional(node, 1)
    named = builder.whole_numbers(given, "axes") if given else tuple(node.attributes.get("axes", ()))
    if not named and node.integer("noop_with_empty_axes", 0):
        builder.bind(node.output, view)
        return
    axes = tuple(sorted({axis_of(axis, rank) for axis in named} or range(rank)))
    if node.kind == "ReduceMax":
        result = largest_of_rows(builder, _rows_over(builder, view, axes), node.output)
    else:
        result = _means(builder, view, axes, node.output, mean=node.kind == "ReduceMean")
    keep = node.integer("keepdims", 1)
    shape = tuple(1 if k in axes else extent for k, extent in enumerate(view.shape) if keep or k not in axes)
    shaped = reshaped(result, shape)
    assert shaped is not None
    builder.bind(node.output, shaped)


def _rows_over(builder: Builder, view: View, axes: tuple[int, ...]) -> View:
    """(elements of the other axes, elements of `axes`)."""
    kept = tuple(axis for axis in range(len(view.shape)) if axis not in axes)
    return rows_of(builder, permuted(view, (*kept, *axes)), math.prod(view.shape[axis] for axis in axes))


def rows_of(builder: Builder, view: View, count: int) -> View:
    """The elements as rows (rows, count), copied where strides cannot say that."""
    rows = reshaped(view, (view.size // count, count))
    if rows is not None:
        return rows
    copied = builder.temporary((view.size // count, count))
    written = View(copied.variable, view.shape, ir.row_major_strides(view.shape))
    builder.emit(ir.Copy(written, builder.location, view))
    return copied


def largest_of_rows(builder: Builder, rows: View, name: str) -> View:
    """The largest element of each row, as one axis."""
    left, count = rows.shape
    image = reshaped(rows, (1, left, count, 1))
    assert image is not None  # axes of extent 1 are added to any view
    result = reshaped(largest_of_windows(builder, image, Window(kernel=(1, count), stride=(1, count)), name), (left,))
    assert result is not None
    return result


def _means(builder: Builder, view: View, axes: tuple[int, ...], name: str, *, mean: bool) -> View:
    """What is left of the view, row-major, as one axis: the sums, or averages, over `axes`, by a product with equal weights."""
    matrix = _rows_over(builder, view, axes)
    left, count = matrix.shape
    weights = builder.parameter("mean" if mean else "ones", np.full((count, 1), 1.0 / count if mean else 1.0))
    out = builder.temporary((left, 1), name)
    builder.emit(ir.MatMul(out, builder.location, matrix, weights))
    result = reshaped(out, (left,))
    assert result is not None
    return result
