"""Whole-tensor evaluation of a graph: the plain definition of what every node computes, in floats or in integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.crossbar_products import converted_convolution
from kilotune.codegen.onnx.functions import apply_function
from kilotune.codegen.onnx.graph import (
    VIEWS,
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ClipNode,
    ConcatNode,
    ConvNode,
    ExpandNode,
    FunctionNode,
    Graph,
    MaxPoolNode,
    Node,
    PadNode,
    PermuteNode,
    ProductNode,
    ReluNode,
    ShiftNode,
    SubsampleNode,
    TableNode,
    View,
    Window,
    known,
)


def evaluate(graph: Graph, image: Array, integer: bool = False) -> dict[str, Array]:
    """Every tensor of the graph for one image (channels, height, width); int64 or float64.

    Integers are those of a quantised graph: its sums are below 2**24, so that products in float32 are exact.
    """
    kind = np.int64 if integer else np.float64
    tensors: dict[str, Array] = {graph.input: np.asarray(image, dtype=kind).reshape(graph.shapes[graph.input])}
    for node in graph.nodes:
        result = compute(node, [tensors[name] for name in node.inputs])
        assert result.shape == graph.shapes[node.output], node
        tensors[node.output] = result
    return tensors


def compute(node: Node, operands: list[Array]) -> Array:
    """One node on whole tensors: (channels, height, width), or (channels, images, height, width) of several images."""
    first = operands[0]
    if isinstance(node, ConvNode):
        return _convolve(node, first)
    if isinstance(node, MaxPoolNode):
        lowest = np.iinfo(np.int64).min if first.dtype.kind == "i" else -np.inf
        return np.asarray(patches(first, node.window, lowest).max(axis=(1, 2)))
    if isinstance(node, AveragePoolNode):
        return _average(node, first)
    if isinstance(node, PadNode):
        return patches(first, node.window, node.value)[:, 0, 0]
    if isinstance(node, ArgMaxNode):
        return np.asarray(first.argmax(axis=0)[None]).astype(first.dtype)
    return view(node, operands) if isinstance(node, VIEWS) else pointwise(node, operands)


def view(node: View, operands: list[Array]) -> Array:
    """What a node that only rearranges shows of its operands, whole tensors as of `compute`."""
    first = operands[0]
    if isinstance(node, ConcatNode):
        return np.concatenate(operands)
    if isinstance(node, PermuteNode):
        return np.asarray(first[list(node.order)])
    if isinstance(node, ExpandNode):
        return np.broadcast_to(first, (*first.shape[:-2], *node.size))
    if isinstance(node, SubsampleNode):
        return first[..., node.offset[0] :: node.stride[0], node.offset[1] :: node.stride[1]]
    return np.pad(first, ((node.before, node.after), *((0, 0),) * (first.ndim - 1)))


def _average(node: AveragePoolNode, tensor: Array) -> Array:
    total = patches(tensor, node.window, 0).sum(axis=(1, 2))
    if tensor.dtype.kind == "i":
        return rounded_quotient(total << node.left, node.divisors)
    return np.asarray(total / node.divisors.astype(tensor.dtype))


def pointwise(node: Node, operands: list[Array], channels: slice | Array = slice(None)) -> Array:
    """A pointwise node on operands whose first axis are the node's `channels`."""
    first = operands[0]
    match node:
        case ReluNode():
            return np.maximum(first, 0)
        case ClipNode():
            return np.asarray(np.clip(first, _like(node.low, first), _like(node.high, first)))
        case AffineNode():
            scale, offset = (_by_channel(known(a)[channels], first) for a in (node.scale, node.offset))
            return np.asarray(first * scale + offset)
        case AddNode():
            shifts = node.shifts or (0,) * len(operands)
            shifted = [rounded_shift(x, s) if s else x for x, s in zip(operands, shifts, strict=True)]
            others = [-x for x in shifted[1:]] if node.subtracts else shifted[1:]
            return np.asarray(sum(others, shifted[0]))
        case ProductNode():
            return np.asarray(first * operands[1])
        case FunctionNode():
            parameters = [p if isinstance(p, float) else _by_channel(p[channels], first) for p in node.parameters]
            return apply_function(node.function, first, parameters, node.gated)
        case TableNode():
            return _looked_up(node, first, channels)
        case ShiftNode():
            right = node.right if isinstance(node.right, int) else _by_channel(node.right[channels], first)
            return np.asarray(np.clip(rounded_shift(first, right), node.low, node.high))
    raise TypeError(f"{type(node).__name__} is not pointwise")


def _by_channel(values: Array, tensor: Array) -> Array:
    """A value for each channel of a tensor, in its type, to broadcast."""
    return values[(slice(None), *(None,) * (tensor.ndim - 1))].astype(tensor.dtype, copy=False)


def _looked_up(node: TableNode, arguments: Array, channels: slice | Array) -> Array:
    """Arguments outside the table, which only noise brings, count as its ends."""
    table = known(node.table)
    places = np.clip(arguments - node.first, 0, table.shape[-1] - 1)
    if table.ndim == 1:
        return np.asarray(table[places])
    rows = np.arange(len(table))[channels]
    return np.asarray(table[_by_channel(rows, places), places])


def rounded_shift(integers: Array, right: int | Array) -> Array:
    """floor(x / 2**right + 1/2), so to the nearest and halves upwards; x * 2**-right where `right` is negative."""
    down = np.maximum(right, 0)
    half = np.left_shift(1, down) >> 1
    return np.asarray(((integers + half) >> down) << np.maximum(np.negative(right), 0))


def rounded_quotient(totals: Array, divisors: Array) -> Array:
    """floor(total / divisor + 1/2) of integers."""
    return np.asarray((2 * totals + divisors) // (2 * divisors))


def _like(bound: float, array: Array) -> Any:
    if array.dtype.kind == "f":
        return bound
    limits = np.iinfo(np.int64)
    return (
        np.int64(max(min(bound, float(2**62)), float(-(2**62))))
        if np.isfinite(bound)
        else (limits.min if bound < 0 else limits.max)
    )


def patches(tensor: Array, window: Window, fill: float) -> Array:
    """What every output pixel reads, [channels, kernel rows, kernel columns, (images,) output rows, output columns], of a
    tensor [channels, (images,) rows, columns]."""
    *leading, high, wide = tensor.shape
    top, left, bottom, right = window.pads
    apart_y, apart_x = window.spread
    spread_high, spread_wide = (high - 1) * apart_y + 1, (wide - 1) * apart_x + 1
    padded = np.full((*leading, spread_high + top + bottom, spread_wide + left + right), fill, dtype=tensor.dtype)
    padded[..., top : top + spread_high : apart_y, left : left + spread_wide : apart_x] = tensor
    (stride_y, stride_x), (step_y, step_x) = window.stride, window.dilation
    *outer, down, across = padded.strides
    shape = (leading[0], *window.kernel, *leading[1:], *window.output_size(high, wide))
    strides = (outer[0], down * step_y, across * step_x, *outer[1:], down * stride_y, across * stride_x)
    return np.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)


def _convolve(node: ConvNode, tensor: Array) -> Array:
    """In the tensor's precision; integers of a quantised graph in float32, which holds them and their sums exactly."""
    integer = tensor.dtype.kind == "i"
    if integer and node.converter is not None:
        sums = converted_convolution(node, node.converter, patches(tensor, node.window, 0))
        return np.asarray(sums + _by_channel(known(node.bias), sums))
    kind = np.float32 if integer else tensor.dtype
    gathered = patches(tensor.astype(kind, copy=False), node.window, 0.0)
    weight = known(node.weight).astype(kind, copy=False)
    outputs, inner = weight.shape[0], weight.shape[1]
    pixels = gathered.shape[3:]
    parts = []
    for group in range(node.groups):
        matrix = weight[group * outputs // node.groups : (group + 1) * outputs // node.groups]
        operand = gathered[group * inner : (group + 1) * inner].reshape(-1, int(np.prod(pixels)))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused by whoever asks
            parts.append(matrix.reshape(len(matrix), -1) @ operand)
    result = np.concatenate(parts).reshape(outputs, *pixels)
    if integer:
        result = result.astype(np.int64)
    return np.asarray(result + _by_channel(known(node.bias), result))
