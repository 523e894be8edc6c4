"""Convolutions on crossbars: the matrix of a core, and what comes out of all cores of a layer when converters read their columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.converters import ColumnBlock, ColumnConverter, digits
from kilotune.codegen.onnx.graph import ConvNode, known

PIXELS_AT_ONCE = 1 << 12
"""As many as a processor's cache holds with all pieces and slices."""


def matrix(node: ConvNode, block: ColumnBlock, row_block: int) -> NDArray[np.float64]:
    """The block's weights [columns, rows]: what is written into the crossbars, transposed; integers in float64.

    ValueError for a weightless graph's.
    """
    outputs, inner = node.weight.shape[:2]
    per_group = outputs // node.groups
    taps = node.window.kernel[0] * node.window.kernel[1]
    full = np.zeros((block.last - block.first, block.last_input - block.first_input, taps))
    weight = known(node.weight).reshape(outputs, inner, taps)
    for group in range(block.first // per_group, (block.last - 1) // per_group + 1):
        low, high = max(block.first, group * per_group), min(block.last, (group + 1) * per_group)
        start = group * inner - block.first_input
        full[low - block.first : high - block.first, start : start + inner] = weight[low:high]
    flat = full.reshape(block.last - block.first, -1)
    return np.ascontiguousarray(flat[:, block.row_bounds[row_block] : block.row_bounds[row_block + 1]])


def converted_convolution(node: ConvNode, converter: ColumnConverter, gathered: Array) -> Array:
    """The sums of all cores, without the bias, int64 [outputs, pixels ...]. gathered: what every pixel's window reads, integers
    [channels, kernel rows, kernel columns, pixels ...]."""
    pixels = gathered.shape[3:]
    total = np.zeros((node.weight.shape[0], math.prod(pixels)), np.int64)
    for block in converter.blocks:
        operand = gathered[block.first_input : block.last_input].reshape(-1, total.shape[1]).astype(np.int32)
        for row in range(block.row_blocks):
            low, high = block.row_bounds[row], block.row_bounds[row + 1]
            slices = converter.slices(matrix(node, block, row).astype(np.int64))
            for start in range(0, total.shape[1], PIXELS_AT_ONCE):
                some = slice(start, start + PIXELS_AT_ONCE)
                total[block.first : block.last, some] += converter.products(slices, operand[low:high, some])
    return total.reshape(-1, *pixels)


def core_slices(node: ConvNode, converter: ColumnConverter) -> Iterator[tuple[int, Array]]:
    """For each row block and each slice the slice's place, and its digits in the shape of the weights, those of other row blocks 0."""
    weight = known(node.weight).astype(np.int64)
    for row in range(max(block.row_blocks for block in converter.blocks)):
        yield from digits(np.where(_of_row_block(node, converter.blocks, row), weight, 0), converter.cell_bits)


def _of_row_block(node: ConvNode, blocks: Sequence[ColumnBlock], row: int) -> NDArray[np.bool_]:
    """Which weights are in row block `row` of their column block."""
    outputs, inner = node.weight.shape[:2]
    taps, per_group = math.prod(node.window.kernel), outputs // node.groups
    found = np.zeros((outputs, inner * taps), bool)
    for block in (block for block in blocks if row < block.row_blocks):
        for output in range(block.first, block.last):
            first = (
                output // per_group * inner - block.first_input
            ) * taps  # the matrix's row of the channel's first weight
            places = first + np.arange(inner * taps)
            found[output] = (places >= block.row_bounds[row]) & (places < block.row_bounds[row + 1])
    return found.reshape(node.weight.shape)
