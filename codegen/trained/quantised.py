"""Operators of quantised files, whose integers are kept, as operations of a program (`codegen.ir.requantisation`).

Images have their channels last. A converter raises ValueError "expected X, found Y"; who calls it adds file and node.
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
from kilotune.codegen.trained.elementwise import aligned_operands, unary
from kilotune.codegen.trained.model import TrainedNode

CONVOLUTION, MATRIX, SUM, PRODUCT = "quantised Conv", "quantised MatMul", "quantised Sum", "quantised Product"
LARGEST, AVERAGE, PADDING, LOOKUP = "quantised MaxPool", "quantised AveragePool", "quantised Pad", "quantised Lookup"
MEAN = "quantised Mean"
"""Kinds of nodes, which no file has under these names."""


def _convolution(builder: Builder, node: TrainedNode) -> None:
    """Filters (outputs, height, width, channels), or (1, height, width, outputs) for a channel each."""
    image, weights = builder.view(builder.tensor(node.inputs[0])), builder.weights(node.inputs[1], "weights")
    if len(image.shape) != 4 or weights.ndim != 4 or not weights.size:
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
        filters = weights.reshape(groups, outputs // groups, *weights.shape[1:]).transpose(0, 2, 3, 4, 1)
    window = read_window(node.attributes, weights.shape[1:3], 4, (channels, *image.shape[1:3]))
    out = builder.temporary((image.shape[0], *window.output_size(*image.shape[1:3]), outputs), node.output)
    stored = builder.parameter(node.inputs[1], np.ascontiguousarray(filters))
    builder.emit(
        ir.Conv2D(
            out, builder.location, image, stored, window.stride, _padding(window), window.dilation, groups,
            node.attributes["completion"], node.attributes["outside"],
        )
    )  # fmt: skip
    builder.bind(node.output, out)


def _padding(window: Window) -> tuple[int, int, int, int]:
    top, left, bottom, right = window.pads
    return top, bottom, left, right


def _matrix(builder: Builder, node: TrainedNode) -> None:
    """Weights (outputs, inputs)."""
    tensor, weights = builder.tensor(node.inputs[0]), builder.weights(node.inputs[1], "weights")
    if weights.ndim != 2 or not weights.size or math.prod(tensor.shape) % weights.shape[1]:
        raise ValueError(f"expected weights for {list(tensor.shape)}, found shape {list(weights.shape)}")
    outputs, inputs = weights.shape
    rows = math.prod(tensor.shape) // inputs
    features = reshaped(builder.view(tensor), (rows, inputs))
    if features is None:
        raise ValueError(f"expected rows that lie beside one another, found shape {list(tensor.shape)}")
    out = builder.temporary((rows, outputs), node.output)
    stored = builder.parameter(node.inputs[1], np.ascontiguousarray(weights.T))
    builder.emit(ir.MatMul(out, builder.location, features, stored, completion=node.attributes["completion"]))
    builder.bind(node.output, out)


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


def _window_of(builder: Builder, node: TrainedNode) -> tuple[View, Window]:
    image, kernel = builder.view(builder.tensor(node.inputs[0])), tuple(node.attributes["kernel_shape"])
    if len(image.shape) != 4 or image.shape[0] != 1:
        raise ValueError(f"expected one image, found shape {list(image.shape)}")
    return image, read_window(node.attributes, kernel, 4, (image.shape[3], *image.shape[1:3]))


def _largest(builder: Builder, node: TrainedNode) -> None:
    image, window = _window_of(builder, node)
    out = builder.temporary((1, *window.output_size(*image.shape[1:3]), image.shape[3]), node.output)
    builder.emit(ir.MaxPool(out, builder.location, image, window.kernel, window.stride, _padding(window)))
    least, most = node.attributes["least"], node.attributes["most"]
    if (least, most) == (LEAST, MOST):
        builder.bind(node.output, out)
        return
    held = builder.temporary(out.shape, node.output)
    entries = tuple(int(v) for v in np.clip(np.arange(LEAST, MOST + 1), least, most))
    builder.emit(ir.Lookup(held, builder.location, out, entries))
    builder.bind(node.output, held)


def _average(builder: Builder, node: TrainedNode) -> None:
    """Every channel as an image of its own, and one filter of ones for all of them."""
    image, window = _window_of(builder, node)
    counted = divisors(window, (image.shape[3], image.shape[1], image.shape[2]), None)
    if (counted != math.prod(window.kernel)).any():
        raise ValueError(
            "expected windows that lie in the image, found one over padding, of which averages leave out what is outside"
        )
    filters = builder.parameter("ones", np.ones((1, *window.kernel, 1, 1)))
    out = builder.temporary((1, *window.output_size(*image.shape[1:3]), image.shape[3]), node.output)
    completion = ir.Averaging(math.prod(window.kernel), node.attributes["least"], node.attributes["most"])
    channels, target = (permuted(view, (3, 1, 2, 0)) for view in (image, out))
    builder.emit(
        ir.Conv2D(target, builder.location, channels, filters, window.stride, (0, 0, 0, 0), (1, 1), 1, completion)
    )
    builder.bind(node.output, out)


def _mean(builder: Builder, node: TrainedNode) -> None:
    """Every channel as an image of its own, under a filter of ones as large as it."""
    image = builder.view(builder.tensor(node.inputs[0]))
    kernel = image.shape[1], image.shape[2]
    filters = builder.parameter("ones", np.ones((1, *kernel, 1, 1)))
    out = builder.temporary((1, 1, 1, image.shape[3]), node.output)
    channels, target = (permuted(view, (3, 1, 2, 0)) for view in (image, out))
    builder.emit(ir.Conv2D(target, builder.location, channels, filters, completion=node.attributes["completion"]))
    result = reshaped(out, node.attributes["shape"])
    if result is None or image.shape[0] != 1:
        raise ValueError(f"expected one image and the mean of each channel, found {node.attributes['shape']}")
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
    unary(builder, node, lambda out, a: ir.Lookup(out, builder.location, a, entries))


QUANTISED_CONVERTERS: Mapping[str, Callable[[Builder, TrainedNode], None]] = MappingProxyType(
    {
        CONVOLUTION: _convolution,
        MATRIX: _matrix,
        SUM: _elementwise(ir.QuantisedSum),
        PRODUCT: _elementwise(ir.QuantisedProduct),
        LARGEST: _largest,
        AVERAGE: _average,
        PADDING: _pad,
        MEAN: _mean,
        LOOKUP: _lookup,
    }
)
"""By the kinds of nodes."""
