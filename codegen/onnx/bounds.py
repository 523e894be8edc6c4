"""Between what integers the tensors of a quantised network lie: what a wire or a memory cell must be able to hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ChannelPadNode,
    ClipNode,
    ConvNode,
    Node,
    PadNode,
    ProductNode,
    ReluNode,
    ShiftNode,
    TableNode,
    TensorShape,
    known,
)
from kilotune.codegen.onnx.reference import rounded_shift

Bounds = tuple[int, int]
"""The smallest and the largest integer, both possible at most."""


def bits_of(bounds: Bounds) -> int:
    """Bits of an element: without a sign where none is negative, at least 1."""
    low, high = bounds
    return max(1, high.bit_length() if low >= 0 else max(high.bit_length(), (-low - 1).bit_length()) + 1)


def hull(several: Sequence[Bounds]) -> Bounds:
    """The tightest bounds of all."""
    return min(low for low, _ in several), max(high for _, high in several)


def result_bounds(node: Node, operands: Sequence[Bounds], shape: TensorShape) -> Bounds:
    """The bounds of what a node of an integer graph computes from operands in these bounds, the first of `shape`."""
    if isinstance(node, ConvNode):
        weight = known(node.weight).reshape(len(known(node.weight)), -1)
        return product_bounds(weight, operands[0], known(node.bias))
    if isinstance(node, AffineNode):
        return product_bounds(known(node.scale)[:, None], operands[0], known(node.offset))
    if isinstance(node, AddNode):
        shifts = node.shifts or (0,) * len(operands)
        ends = [[int(rounded_shift(np.asarray(end), s)) for end in o] for o, s in zip(operands, shifts, strict=True)]
        if node.subtracts:
            ends[1:] = [[-high, -low] for low, high in ends[1:]]
        return sum(low for low, _ in ends), sum(high for _, high in ends)
    if isinstance(node, ProductNode):
        ends_of_all = [int(math.prod(ends)) for ends in product(*operands)]
        return min(ends_of_all), max(ends_of_all)
    if isinstance(node, TableNode):
        table = known(node.table)
        return int(table.min()), int(table.max())
    if isinstance(node, ShiftNode):
        return node.low, node.high  # what its wires have, whether sums come that far or not
    return _kept_bounds(node, hull(operands), shape)


def _kept_bounds(node: Node, bounds: Bounds, shape: TensorShape) -> Bounds:
    """The bounds of a node that chooses or averages."""
    if isinstance(node, ArgMaxNode):
        return 0, shape[0] - 1
    if isinstance(node, AveragePoolNode):
        return bounds[0] << node.left, bounds[1] << node.left
    if isinstance(node, ReluNode):
        return max(bounds[0], 0), max(bounds[1], 0)
    if isinstance(node, ClipNode):
        low, high = (round(min(max(end, node.low), node.high)) for end in bounds)
        return low, high
    if isinstance(node, PadNode):
        return hull((bounds, (round(node.value),) * 2))
    return hull((bounds, (0, 0))) if isinstance(node, ChannelPadNode) else bounds


def product_bounds(rows: np.ndarray, operand: Bounds, bias: np.ndarray | int = 0) -> Bounds:
    """The bounds of rows of integer weights times vectors in the bounds `operand` or 0, plus a bias a row, and of every partial sum."""
    low, high = min(operand[0], 0), max(operand[1], 0)
    positive, negative = (np.asarray(np.maximum(sign * rows, 0).sum(axis=1, dtype=np.int64)) for sign in (1, -1))
    lowest, highest = positive * low - negative * high, positive * high - negative * low
    return int((lowest + np.minimum(bias, 0)).min(initial=0)), int((highest + np.maximum(bias, 0)).max(initial=0))


def partial_sum_bits(operand: Bounds, weight_bits: int, rows: int) -> int:
    """Bits of a sum of `rows` products of operands in these bounds and of weights that have `weight_bits` with their sign: what a
    wire must hold whatever the weights are."""
    magnitude = max(abs(operand[0]), abs(operand[1])).bit_length()
    return magnitude + weight_bits + math.ceil(math.log2(max(1, rows)))
