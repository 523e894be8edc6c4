"""Operators of quantised files, whose integers are kept, as operations of a program (`codegen.ir.requantisation`).

Images have their channels last, or second where a node says so; sequences are then images of one row. A converter raises ValueError
"expected X, found Y"; who calls it adds file and node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.ir import View
from kilotune.codegen.language.views import permuted, reshaped
from kilotune.codegen.onnx.attributes import divisors, read_window
from kilotune.codegen.onnx.graph import Window
from kilotune.codegen.quantisation_grid import LEAST, MOST
from kilotune.codegen.trained.builder import Builder, inverse
from kilotune.codegen.trained.elementwise import aligned_operands, check_axes, unary
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.products import as_image, channels_second, in_memory_order
from kilotune.codegen.trained.rearranging import without_axis

CONVOLUTION, MATRIX, SUM, PRODUCT = "quantised Conv", "quantised MatMul", "quantised Sum", "quantised Product"
LARGEST, AVERAGE, PADDING, LOOKUP = "quantised MaxPool", "quantised AveragePool", "quantised Pad", "quantised Lookup"
MEAN, SUM_OF_EVEN = "quantised Mean", "quantised Sum, halves to even"
"""Kinds of nodes, which no file has under these names."""

RESCALING = "rescaling"
"""The `function` of a table that takes integers to another grid."""


def _image(builder: Builder, node: TrainedNode) -> tuple[View, int]:
    """The first operand (batch, height, width, channels), and how many axes it has in the file."""
    view = builder.view(builder.tensor(node.inputs[0]))
    rank = len(view.shape)
    if rank not in (3, 4):
        raise ValueError(f"expected an image or a sequence, found shape {list(view.shape)}")
    if node.attributes.get("channels_second"):
        return as_image(view), rank
    if rank == 3:
        (count, *rest), (step, *steps) = view.shape, view.strides
        view = View(view.variable, (count, 1, *rest), (step, rest[0] * steps[0], *steps), view.offset)
    return view, rank


def _bind_image(builder: Builder, node: TrainedNode, image: View, rank: int) -> None:
    """The result of the node, as the file has it."""
    if node.attributes.get("channels_second"):
        builder.bind(node.output, channels_second(image, rank))
    else:
        builder.bind(node.output, without_axis(image, 1) if rank == 3 else image)


def _convolution(builder: Builder, node: TrainedNode) -> None:
    """Filters (outputs, height, width, channels), or (1, height, width, outputs) for a channel each."""
    (image, rank), weights = _image(builder, node), builder.weights(node.inputs[1], "weights")
    if weights.ndim != 4 or not weights.size or (rank == 3 and weights.shape[1] != 1):
        raise ValueError(f"expected an image and filters for it, found {list(image.shape)} and {list(weights.shape)}")
    channels = image.shape[3]
    if node.attributes["depthwise"]:
        groups, outputs = channels, weights.shape[3]
        if outputs % groups or weights.shape[0] != 1:
            raise ValueError(f"expected filters for {channels} channels, found shape {list(weights.shape)}")
        filters = weights.reshape(*weights.shape[1:3], 1, groups, outputs // groups).transpose(3, 0, 1, 2, 4)
    else:
        groups, outputs = channels // max(1, weights.shape[3]), weights.shape[0]
        if weights.shape[3] * groups != channels or outputs % groups:
            raise ValueError(f"expected filters for {channels} channels, found shape {list(weights.shape)}")
        declared = node.integer("groups", groups)
        if declared != groups:
            expected = f"filters for {channels} channels in {declared} groups"
            raise ValueError(f"expected {expected}, found those of {weights.shape[3]} channels each")
        filters = weights.reshape(groups, outputs // groups, *weights.shape[1:]).transpose(0, 2, 3, 4, 1)
    kernel = weights.shape[5 - rank : 3]
    window = read_window(node.attributes, kernel, rank, (channels, image.shape[1], image.shape[2]))
    out = builder.temporary((image.shape[0], *window.output_size(*image.shape[1:3]), outputs), node.output)
    stored = builder.parameter(node.inputs[1], np.ascontiguousarray(filters))
    builder.emit(
        ir.Conv2D(
            out, builder.location, image, stored, window.stride, _padding(window), window.dilation, groups,
            node.attributes["completion"], node.attributes["outside"],
        )
    )  # fmt: skip
    _bind_image(builder, node, out, rank)


def _padding(window: Window) -> tuple[int, int, int, int]:
    top, left, bottom, right = window.pads
    return top, bottom, left, right


def _matrix(builder: Builder, node: TrainedNode) -> None:
    """Weights (outputs, inputs). The result has rows and columns, or with `keeps_axes` all axes of the operand but the last one."""
    tensor, weights = builder.tensor(node.inputs[0]), builder.weights(node.inputs[1], "weights")
    if weights.ndim != 2 or not weights.size or math.prod(tensor.shape) % weights.shape[1]:
        raise ValueError(f"expected weights for {list(tensor.shape)}, found shape {list(weights.shape)}")
    outputs, inputs = weights.shape
    rows, places = math.prod(tensor.shape) // inputs, np.arange(inputs)
    features = None
    if rows == 1:  # weights in the order in which elements lie spare a copy
        view, found = in_memory_order(tensor.view)
        features = reshaped(view, (1, inputs))
        places = places if features is None else found
    if features is None:
        features = reshaped(builder.view(tensor), (rows, inputs))
    if features is None:
        raise ValueError(f"expected rows that lie beside one another, found shape {list(tensor.shape)}")
    out = builder.temporary((rows, outputs), node.output)
    stored = builder.parameter(node.inputs[1], np.ascontiguousarray(weights[:, places].T))
    builder.emit(ir.MatMul(out, builder.location, features, stored, completion=node.attributes["completion"]))
    kept = tensor.shape[:-1] if node.attributes.get("keeps_axes") else (rows,)
    if kept != (rows,) and tensor.shape[-1] != inputs:
        raise ValueError(f"expected {inputs} features along the last axis, found shape {list(tensor.shape)}")
    builder.bind(node.output, out, (*kept, outputs))


def _elementwise(make: Callable[..., ir.QuantisedElements]) -> Callable[[Builder, TrainedNode], None]:
    """The converter of an operator of two operands that broadcast."""

    def convert(builder: Builder, node: TrainedNode) -> None:
        values = [
            builder.weights(name, "constants") if name in builder.constants else builder.view(builder.tensor(name))
            for name in node.inputs
        ]
        constant = next((name for name in node.inputs if name in builder.constants), "")
        (a, b), shape, order = aligned_operands(builder, values[0], values[1], constant)
        out = builder.temporary(tuple(shape[axis] for axis in order), node.output)
        builder.emit(make(out, builder.location, a, b, **node.attributes))
        builder.bind(node.output, permuted(out, inverse(order)))

    return convert


def _window_of(builder: Builder, node: TrainedNode) -> tuple[View, int, Window]:
    (image, rank), kernel = _image(builder, node), tuple(node.attributes["kernel_shape"])
    if image.shape[0] != 1 or len(kernel) != rank - 2:
        raise ValueError(f"expected one image and a window for it, found {list(image.shape)} and {list(kernel)}")
    return image, rank, read_window(node.attributes, kernel, rank, (image.shape[3], image.shape[1], image.shape[2]))


def _largest(builder: Builder, node: TrainedNode) -> None:
    image, rank, window = _window_of(builder, node)
    if window.dilation != (1, 1):
        raise ValueError(f"expected a window without gaps, found dilations {list(window.dilation)}")
    out = builder.temporary((1, *window.output_size(*image.shape[1:3]), image.shape[3]), node.output)
    builder.emit(ir.MaxPool(out, builder.location, image, window.kernel, window.stride, _padding(window)))
    least, most = node.attributes["least"], node.attributes["most"]
    if (least, most) == (LEAST, MOST):
        _bind_image(builder, node, out, rank)
        return
    held = builder.temporary(out.shape, node.output)
    entries = tuple(int(v) for v in np.clip(np.arange(LEAST, MOST + 1), least, most))
    builder.emit(ir.Lookup(held, builder.location, out, entries))
    _bind_image(builder, node, held, rank)


def _average(builder: Builder, node: TrainedNode) -> None:
    """Every channel as an image of its own, and one filter of ones for all of them."""
    image, rank, window = _window_of(builder, node)
    if window.dilation != (1, 1):
        raise ValueError(f"expected a window without gaps, found dilations {list(window.dilation)}")
    shape, within = (image.shape[3], image.shape[1], image.shape[2]), None
    if node.attributes.get("count_include_pad", 0):
        within = read_window({**node.attributes, "ceil_mode": 0}, window.kernel[4 - rank :], rank, shape).pads
    counted = divisors(window, shape, within)
    if (counted != math.prod(window.kernel)).any():
        raise ValueError(
            "expected windows that lie in the image, found one over padding, of which averages leave out what is outside"
        )
    filters = builder.parameter("ones", np.ones((1, *window.kernel, 1, 1)))
    out = builder.temporary((1, *window.output_size(*image.shape[1:3]), image.shape[3]), node.output)
    completion, outside = node.attributes["completion"], node.attributes["outside"]
    channels, target = (permuted(view, (3, 1, 2, 0)) for view in (image, out))
    builder.emit(
        ir.Conv2D(
            target, builder.location, channels, filters, window.stride, _padding(window), (1, 1), 1, completion, outside
        )
    )
    _bind_image(builder, node, out, rank)


def _mean(builder: Builder, node: TrainedNode) -> None:
    """Every channel as an image of its own, under a filter of ones as large as it."""
    image, rank = _image(builder, node)
    spatial = tuple(range(2, rank)) if node.attributes.get("channels_second") else tuple(range(1, rank - 1))
    axes = node.attributes["axes"]
    if axes is not None and tuple(sorted(axis % rank for axis in axes)) != spatial:
        raise ValueError(f"expected the mean over all places of an image, found axes {list(axes)} of {rank}")
    kernel = image.shape[1], image.shape[2]
    filters = builder.parameter("ones", np.ones((1, *kernel, 1, 1)))
    out = builder.temporary((1, 1, 1, image.shape[3]), node.output)
    channels, target = (permuted(view, (3, 1, 2, 0)) for view in (image, out))
    completion = node.attributes["completion_of"](math.prod(kernel))
    builder.emit(ir.Conv2D(target, builder.location, channels, filters, completion=completion))
    ones = [1] * (rank - 2)
    shape = [1, image.shape[3]]
    if node.attributes["keepdims"]:
        shape = [1, image.shape[3], *ones] if spatial[0] == 2 else [1, *ones, image.shape[3]]
    result = reshaped(out, tuple(shape))
    if result is None or image.shape[0] != 1:
        raise ValueError(f"expected one image and the mean of each channel, found a batch of {image.shape[0]}")
    builder.bind(node.output, result)


def _pad(builder: Builder, node: TrainedNode) -> None:
    view, widths = builder.view(builder.tensor(node.inputs[0])), node.attributes["widths"]
    if len(widths) != len(view.shape) or min(map(min, widths)) < 0:
        raise ValueError(f"expected two widths for each axis of {list(view.shape)}, found {widths}")
    shape = tuple(extent + sum(both) for extent, both in zip(view.shape, widths, strict=True))
    out = builder.temporary(shape, node.output)
    builder.emit(ir.Fill(out, builder.location, float(node.attributes["value"])))
    start = sum(before * step for (before, _), step in zip(widths, out.strides, strict=True))
    inner = View(out.variable, view.shape, out.strides, out.offset + ir.Affine(start))
    builder.emit(ir.Copy(inner, builder.location, view))
    builder.bind(node.output, out)


def _lookup(builder: Builder, node: TrainedNode) -> None:
    entries = node.attributes["entries"]
    check_axes(node.attributes.get("axes", 0), len(builder.tensor(node.inputs[0]).shape))
    unary(builder, node, lambda out, a: ir.Lookup(out, builder.location, a, entries))


QUANTISED_CONVERTERS: Mapping[str, Callable[[Builder, TrainedNode], None]] = MappingProxyType(
    {
        CONVOLUTION: _convolution,
        MATRIX: _matrix,
        SUM: _elementwise(ir.QuantisedSum),
        SUM_OF_EVEN: _elementwise(ir.EvenSum),
        PRODUCT: _elementwise(ir.QuantisedProduct),
        LARGEST: _largest,
        AVERAGE: _average,
        PADDING: _pad,
        MEAN: _mean,
        LOOKUP: _lookup,
    }
)
"""By the kinds of nodes."""
