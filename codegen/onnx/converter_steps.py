"""Converters of few bits behind the columns of an integer network's layers, with steps that suit calibration images.

A layer's step is a power of two, that with the least squared error of rounding and saturating over all sums of columns that some
calibration images give, those of higher slices and pieces counted at their places. Layers are taken in order, so that each sees what the
converters of those before it leave.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.converters import ColumnConverter
from kilotune.codegen.onnx.crossbar_products import matrix
from kilotune.codegen.onnx.graph import ConvNode, Node, ShiftNode
from kilotune.codegen.onnx.integer_weights import EXACT_LIMIT, ROUNDED_BITS
from kilotune.codegen.onnx.quantise import QuantisedGraph
from kilotune.codegen.onnx.reference import compute, patches

MOST_STEPPED_IMAGES = 32
"""As many calibration images are enough for a step: every pixel of a layer gives sums."""

MOST_COUNTED = 1 << 16
"""Sums below are counted by value, others sorted."""


def with_converters(
    quantised: QuantisedGraph, converter_of: Callable[[str, ConvNode], ColumnConverter | None], images: Array
) -> QuantisedGraph:
    """The network with converters behind its layers. converter_of: that of a layer, whose step is still open, by the tensor that the
    layer writes in the network of floats and by its node of integers; None: exact. images: integers [images, channels, height, width].

    ValueError where rounding might bring a sum to 2**24."""
    graph = quantised.graph
    shifts = {node.inputs[0]: node for node in graph.nodes if isinstance(node, ShiftNode)}
    tensors: dict[str, Array] = {graph.input: np.moveaxis(images[:MOST_STEPPED_IMAGES], 0, 1)}
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = [tensors[name] for name in node.inputs]
        shift = shifts.get(node.output)
        if isinstance(node, ConvNode) and shift is not None:
            node = _converted(quantised, node, shift, converter_of(shift.output, node), operands[0])
        nodes.append(node)
        tensors[node.output] = compute(node, operands)
    return dataclasses.replace(quantised, graph=dataclasses.replace(graph, nodes=tuple(nodes)))


def _converted(
    quantised: QuantisedGraph, node: ConvNode, shift: ShiftNode, converter: ColumnConverter | None, tensor: Array
) -> ConvNode:
    """A layer with a converter whose step suits what it reads."""
    if converter is None:
        return node
    stepped = dataclasses.replace(converter, right=_step(node, converter, tensor))
    _check_exact(quantised, node, stepped, shift)
    return dataclasses.replace(node, converter=stepped)


def _step(node: ConvNode, converter: ColumnConverter, tensor: Array) -> int:
    """By how many bits its steps are coarser than 1."""
    gathered = patches(tensor, node.window, 0)
    counts: dict[int, float] = {}
    for block in converter.blocks:
        operand = gathered[block.first_input : block.last_input].reshape(block.row_bounds[-1], -1).astype(np.int32)
        for row in range(block.row_blocks):
            weights = matrix(node, block, row).astype(np.int64)
            own = operand[block.row_bounds[row] : block.row_bounds[row + 1]]
            slices = converter.slices(weights)
            for further, sums in converter.sums(slices, own):
                parts = np.split(np.abs(sums).astype(np.int64), len(slices))
                for (shift, _), part in zip(slices, parts, strict=True):
                    _count(counts, part, 4.0 ** (shift + further))
    magnitudes = np.array(sorted(counts), np.int64)
    weights = np.array([counts[magnitude] for magnitude in magnitudes.tolist()])
    most = max(0, int(magnitudes.max(initial=0)).bit_length() - converter.bits + 1)

    def squared_error(right: int) -> float:
        given = dataclasses.replace(converter, right=right).read(magnitudes)
        return float((np.square((given - magnitudes).astype(np.float64)) * weights).sum())

    return min(range(most, -1, -1), key=squared_error)


def _count(counts: dict[int, float], magnitudes: Array, weight: float) -> None:
    if magnitudes.max(initial=0) < MOST_COUNTED:
        found = np.bincount(magnitudes.reshape(-1))
        values = np.flatnonzero(found)
        found = found[values]
    else:
        values, found = np.unique(magnitudes, return_counts=True)
    for value, count in zip(values.tolist(), found.tolist(), strict=True):
        counts[value] = counts.get(value, 0.0) + weight * count


def _check_exact(quantised: QuantisedGraph, node: ConvNode, converter: ColumnConverter, shift: ShiftNode) -> None:
    low, high = quantised.bounds[node.output]
    operand = max(map(abs, quantised.bounds[node.inputs[0]]))
    rounding = np.clip(np.asarray(shift.right), 0, ROUNDED_BITS).max()
    largest = max(-low, high) + converter.slack(node.weight_bits, operand.bit_length()) + (1 << int(rounding) >> 1)
    if largest >= EXACT_LIMIT:
        raise ValueError(f"{shift.output!r}: steps of 2**{converter.right} may bring its sums to 2**24")
