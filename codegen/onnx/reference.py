"""Whole-tensor evaluation of a graph: the plain definition of what every node computes, in floats or in integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ChannelPadNode,
    ClipNode,
    ConcatNode,
    ConvNode,
    Graph,
    MaxPoolNode,
    Node,
    PadNode,
    PermuteNode,
    ReluNode,
    ShiftNode,
    SubsampleNode,
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
    if isinstance(node, ConcatNode):
        return np.concatenate(operands)
    if isinstance(node, PermuteNode):
        return np.asarray(first[list(node.order)])
    if isinstance(node, SubsampleNode):
        return first[..., :: node.stride[0], :: node.stride[1]]
    if isinstance(node, ChannelPadNode):
        return np.pad(first, ((node.before, node.after), *((0, 0),) * (first.ndim - 1)))
    return pointwise(node, operands)


def _average(node: AveragePoolNode, tensor: Array) -> Array:
    total = patches(tensor, node.window, 0).sum(axis=(1, 2))
    if tensor.dtype.kind == "i":
        return rounded_quotient(total, node.divisors)
    return np.asarray(total / node.divisors.astype(tensor.dtype))


def pointwise(node: Node, operands: list[Array], channels: slice | Array = slice(None)) -> Array:
    """A pointwise node on operands whose first axis are the node's `channels`."""
    first = operands[0]
    if isinstance(node, ReluNode):
        return np.maximum(first, 0)
    if isinstance(node, ClipNode):
        return np.asarray(np.clip(first, _like(node.low, first), _like(node.high, first)))
    if isinstance(node, AffineNode):
        tail = (slice(None), *(None,) * (first.ndim - 1))
        scale, offset = (known(a)[channels][tail].astype(first.dtype, copy=False) for a in (node.scale, node.offset))
        return np.asarray(first * scale + offset)
    if isinstance(node, AddNode):
        shifts = node.shifts or (0,) * len(operands)
        shifted = [rounded_shift(x, s) if s else x for x, s in zip(operands, shifts, strict=True)]
        return np.asarray(sum(shifted[1:], shifted[0]))
    if isinstance(node, ShiftNode):
        right = node.right
        if not isinstance(right, int):
            right = right[channels][(slice(None), *(None,) * (first.ndim - 1))]
        return np.asarray(np.clip(rounded_shift(first, right), node.low, node.high))
    raise TypeError(f"{type(node).__name__} is not pointwise")


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
    padded = np.full((*leading, high + top + bottom, wide + left + right), fill, dtype=tensor.dtype)
    padded[..., top : top + high, left : left + wide] = tensor
    (stride_y, stride_x), (step_y, step_x) = window.stride, window.dilation
    *outer, down, across = padded.strides
    shape = (leading[0], *window.kernel, *leading[1:], *window.output_size(high, wide))
    strides = (outer[0], down * step_y, across * step_x, *outer[1:], down * stride_y, across * stride_x)
    return np.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)


def _convolve(node: ConvNode, tensor: Array) -> Array:
    """In the tensor's precision; integers of a quantised graph in float32, which holds them and their sums exactly."""
    integer = tensor.dtype.kind == "i"
    kind = np.float32 if integer else tensor.dtype
    gathered = patches(tensor.astype(kind, copy=False), node.window, 0.0)
    weight = known(node.weight).astype(kind, copy=False)
    outputs, inner = weight.shape[0], weight.shape[1]
    pixels = gathered.shape[3:]
    parts = []
    for group in range(node.groups):
        matrix = weight[group * outputs // node.groups : (group + 1) * outputs // node.groups]
        operand = gathered[group * inner : (group + 1) * inner].reshape(-1, int(np.prod(pixels)))
        parts.append(matrix.reshape(len(matrix), -1) @ operand)
    result = np.concatenate(parts).reshape(outputs, *pixels)
    if integer:
        result = result.astype(np.int64)
    bias = known(node.bias).astype(result.dtype, copy=False)
    return np.asarray(result + bias[(slice(None), *(None,) * len(pixels))])
