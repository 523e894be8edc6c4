"""Layers larger than a crossbar: column blocks share the output channels, row blocks the rows of a column block's matrix.

A core's crossbars hold all columns of a block next to one another, as many rows of it as there is room for then.

The matrix of a convolution has a row for every input channel and kernel position, channel by channel, and a column for
every output channel. Row blocks add up: all but the last send their partial sums to the last one, which adds the bias; or each
adds its own to what the one before sends, in a chain.
A grouped convolution's matrix is block-diagonal; a column block takes as many whole groups as fit, or part of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.onnx.graph import ConvNode, known


@dataclass(frozen=True)
class Crossbar:
    """rows, columns of one; `per_core` of them on a core are stacked, or stand side by side where a matrix is wider than one."""

    rows: int = 256
    columns: int = 256
    per_core: int = 1


@dataclass(frozen=True)
class ColumnBlock:
    """Output channels [first, last) computed from input channels [first_input, last_input).

    row_bounds: row block r holds rows [row_bounds[r], row_bounds[r + 1]) of the block's matrix.
    """

    first: int
    last: int
    first_input: int
    last_input: int
    row_bounds: tuple[int, ...]

    @property
    def row_blocks(self) -> int:
        """How many cores add up."""
        return len(self.row_bounds) - 1


def column_blocks(node: ConvNode, crossbar: Crossbar) -> tuple[ColumnBlock, ...]:
    """The blocks of a convolution, as equal as they can be."""
    outputs, inner = node.weight.shape[:2]
    taps = node.window.kernel[0] * node.window.kernel[1]
    per_group = outputs // node.groups
    height = crossbar.rows * crossbar.per_core
    together = min(height // (inner * taps), crossbar.columns // per_group) if node.groups > 1 else 0
    found = []
    if together >= 1:
        for low, high in spans(node.groups, -(-node.groups // together)):
            rows = (high - low) * inner * taps
            found.append(ColumnBlock(low * per_group, high * per_group, low * inner, high * inner, (0, rows)))
        return tuple(found)
    rows = inner * taps
    for group in range(node.groups):
        for low, high in spans(per_group, -(-per_group // (crossbar.columns * crossbar.per_core))):
            side_by_side = -(-(high - low) // crossbar.columns)
            stacked = crossbar.per_core // side_by_side * crossbar.rows
            bounds = (0, *(high for _, high in spans(rows, -(-rows // stacked))))
            start = group * per_group
            found.append(ColumnBlock(start + low, start + high, group * inner, (group + 1) * inner, bounds))
    return tuple(found)


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


def input_channels(node: ConvNode, block: ColumnBlock, row_block: int) -> tuple[int, int]:
    """Input channels [first, last) that some row of a row block reads."""
    taps = node.window.kernel[0] * node.window.kernel[1]
    low, high = block.row_bounds[row_block], block.row_bounds[row_block + 1]
    return block.first_input + low // taps, block.first_input + -(-high // taps)


def spans(total: int, parts: int) -> list[tuple[int, int]]:
    """`parts` consecutive ranges [first, last) of `total`, as equal as they can be."""
    edges = [total * k // parts for k in range(parts + 1)]
    return list(pairwise(edges))
