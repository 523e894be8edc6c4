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
    """Every tensor of the graph for one image (channels, height, width); int64 or float64."""
    kind = np.int64 if integer else np.float64
    tensors: dict[str, Array] = {graph.input: np.asarray(image, dtype=kind).reshape(graph.shapes[graph.input])}
    for node in graph.nodes:
        result = compute(node, [tensors[name] for name in node.inputs])
        assert result.shape == graph.shapes[node.output], node
        tensors[node.output] = result
    return tensors


def compute(node: Node, operands: list[Array]) -> Array:
    """One node on whole tensors."""
    first = operands[0]
    if isinstance(node, ConvNode):
        return _convolve(node, first)
    if isinstance(node, MaxPoolNode):
        lowest = np.iinfo(np.int64).min if first.dtype.kind == "i" else -np.inf
        return np.asarray(patches(first, node.window, lowest).max(axis=(1, 2)))
    if isinstance(node, AveragePoolNode):
        total = patches(first, node.window, 0).sum(axis=(1, 2))
        return np.asarray(total // node.divisors if first.dtype.kind == "i" else total / node.divisors)
    if isinstance(node, PadNode):
        return patches(first, node.window, node.value)[:, 0, 0]
    if isinstance(node, ArgMaxNode):
        return np.asarray(first.argmax(axis=0)[None]).astype(first.dtype)
    if isinstance(node, ConcatNode):
        return np.concatenate(operands)
    if isinstance(node, PermuteNode):
        return np.asarray(first[list(node.order)])
    if isinstance(node, SubsampleNode):
        return first[:, :: node.stride[0], :: node.stride[1]]
    if isinstance(node, ChannelPadNode):
        return np.pad(first, ((node.before, node.after), (0, 0), (0, 0)))
    return pointwise(node, operands)


def pointwise(node: Node, operands: list[Array], channels: slice | Array = slice(None)) -> Array:
    """A pointwise node on operands whose first axis are the node's `channels`."""
    first = operands[0]
    if isinstance(node, ReluNode):
        return np.maximum(first, 0)
    if isinstance(node, ClipNode):
        return np.asarray(np.clip(first, _like(node.low, first), _like(node.high, first)))
    if isinstance(node, AffineNode):
        tail = (slice(None), *(None,) * (first.ndim - 1))
        return np.asarray(first * known(node.scale)[channels][tail] + known(node.offset)[channels][tail])
    if isinstance(node, AddNode):
        shifted = [x >> s for x, s in zip(operands, node.shifts, strict=True)] if node.shifts else operands
        return np.asarray(sum(shifted[1:], shifted[0]))
    if isinstance(node, ShiftNode):
        return np.asarray(np.clip(first >> node.right, node.low, node.high))
    raise TypeError(f"{type(node).__name__} is not pointwise")


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
    """What every output pixel reads: (channels, kernel rows, kernel columns, output rows, output columns)."""
    channels, high, wide = tensor.shape
    top, left, bottom, right = window.pads
    padded = np.full((channels, high + top + bottom, wide + left + right), fill, dtype=tensor.dtype)
    padded[:, top : top + high, left : left + wide] = tensor
    rows, columns = window.output_size(high, wide)
    (stride_y, stride_x), (step_y, step_x) = window.stride, window.dilation
    size = padded.strides
    shape = (channels, *window.kernel, rows, columns)
    strides = (size[0], size[1] * step_y, size[2] * step_x, size[1] * stride_y, size[2] * stride_x)
    return np.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)


def _convolve(node: ConvNode, tensor: Array) -> Array:
    """Products in float64, which holds the integers of a quantised graph exactly (below 2**53)."""
    integer = tensor.dtype.kind == "i"
    gathered = patches(tensor.astype(np.float64), node.window, 0.0)
    weight = known(node.weight)
    outputs, inner = weight.shape[0], weight.shape[1]
    rows, columns = gathered.shape[3:]
    parts = []
    for group in range(node.groups):
        matrix = weight[group * outputs // node.groups : (group + 1) * outputs // node.groups]
        operand = gathered[group * inner : (group + 1) * inner].reshape(-1, rows * columns)
        parts.append(matrix.reshape(len(matrix), -1).astype(np.float64) @ operand)
    result = np.concatenate(parts).reshape(outputs, rows, columns)
    if integer:
        result = result.astype(np.int64)
    return np.asarray(result + known(node.bias)[:, None, None])
