"""Layers larger than a crossbar: column blocks share the output channels, row blocks the rows of a column block's matrix.

A core's crossbars hold all columns of a block next to one another, as many rows of it as there is room for then.

The matrix of a convolution has a row for every input channel and kernel position, channel by channel, and a column for
every output channel. Row blocks add up: all but the last send their partial sums to the last one, which adds the bias; or each
adds its own to what the one before sends, in a chain.
Weights of more bits than a pair of cells has take several columns each, which stay together on one crossbar.
A grouped convolution's matrix is block-diagonal; a column block takes as many whole groups as fit, or part of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from kilotune.codegen.onnx.converters import ColumnBlock, ColumnConverter, slice_count
from kilotune.codegen.onnx.graph import ConvNode


@dataclass(frozen=True)
class Crossbar:
    """rows, columns of one; `per_core` of them on a core are stacked, or stand side by side where a matrix is wider than one. cell_bits: of
    a weight's magnitude in a pair of cells, the next bits of which are in the columns beside it; 0: all."""

    rows: int = 256
    columns: int = 256
    per_core: int = 1
    cell_bits: int = 0

    def weights_in_a_row(self, weight_bits: int) -> int:
        """How many weights of so many bits stand side by side in one, each with all of its slices."""
        return self.columns // slice_count(weight_bits, self.cell_bits)


def column_blocks(node: ConvNode, crossbar: Crossbar) -> tuple[ColumnBlock, ...]:
    """The blocks of a convolution, as equal as they can be."""
    outputs, inner = node.weight.shape[:2]
    taps = node.window.kernel[0] * node.window.kernel[1]
    per_group = outputs // node.groups
    height = crossbar.rows * crossbar.per_core
    wide = crossbar.weights_in_a_row(node.weight_bits)
    together = min(height // (inner * taps), wide // per_group) if node.groups > 1 else 0
    found = []
    if together >= 1:
        for low, high in spans(node.groups, -(-node.groups // together)):
            rows = (high - low) * inner * taps
            found.append(ColumnBlock(low * per_group, high * per_group, low * inner, high * inner, (0, rows)))
        return tuple(found)
    rows = inner * taps
    for group in range(node.groups):
        for low, high in spans(per_group, -(-per_group // (wide * crossbar.per_core))):
            side_by_side = -(-(high - low) // wide)
            stacked = crossbar.per_core // side_by_side * crossbar.rows
            bounds = (0, *(high for _, high in spans(rows, -(-rows // stacked))))
            start = group * per_group
            found.append(ColumnBlock(start + low, start + high, group * inner, (group + 1) * inner, bounds))
    return tuple(found)


def converter_behind(node: ConvNode, crossbar: Crossbar, bits: int, piece_bits: int) -> ColumnConverter:
    """The converter of so many bits behind the columns of a layer's crossbars, with a step of 1. piece_bits: of an operand, that enter at
    once; 0: all."""
    return ColumnConverter(bits, column_blocks(node, crossbar), crossbar.cell_bits, piece_bits)


def input_channels(node: ConvNode, block: ColumnBlock, row_block: int) -> tuple[int, int]:
    """Input channels [first, last) that some row of a row block reads."""
    taps = node.window.kernel[0] * node.window.kernel[1]
    low, high = block.row_bounds[row_block], block.row_bounds[row_block + 1]
    return block.first_input + low // taps, block.first_input + -(-high // taps)


def spans(total: int, parts: int) -> list[tuple[int, int]]:
    """`parts` consecutive ranges [first, last) of `total`, as equal as they can be."""
    edges = [total * k // parts for k in range(parts + 1)]
    return list(pairwise(edges))
