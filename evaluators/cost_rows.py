"""What calls for all rows of weights take (`codegen.emit.blocks`), counted for whole batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.emit.pairs import TERMS
from kilotune.codegen.emit.schedule import in_order, scales_terms
from kilotune.codegen.emit.shape import CodeShape
from kilotune.codegen.emit.vectors import lanes
from kilotune.codegen.fixed.table import Column
from kilotune.evaluators.cost_collector import Collector, CountedOperand, Mask
from kilotune.evaluators.cost_features import BLOCK_SIZES, number, width_position

_PAIRED = (8, 16)


def takes_rows(c: Collector, row: int, shape: CodeShape, factors: tuple[CountedOperand, CountedOperand]) -> Mask:
    """For which candidates the products of a row of the program are taken so, where operands lie as that needs."""
    scaled = scales_terms(*(c.column(row, column) for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)))
    found = in_order(c.column(row, Column.HALVINGS)) & ~scaled & bool(shape.rows)
    for place, factor in enumerate(factors):
        found = found & np.isin(c.bits(factor, row, place), _PAIRED) & ~c.is_packed(factor)
    return np.broadcast_to(found, (len(c),))


def writes_results(c: Collector, row: int, operation: ir.Product, taken: Mask) -> Mask:
    """For which candidates such calls divide and write what they sum themselves."""
    return taken & (c.column(row, Column.SHIFT_OUT) >= 0) & (operation.completion is None)


def count_calls(
    c: Collector,
    row: int,
    shape: CodeShape,
    pair: tuple[CountedOperand, CountedOperand],
    sizes: tuple[float, int, int],
    operands: int = 1,
) -> None:
    """`pair`: weights and operand; `sizes`: calls, the rows of each and the terms of a row; `operands`: how many meet the rows in a call.
    What becomes of a sum counts with its row, where the call does that (`writes_results`)."""
    (calls, rows, terms), (weights, operand) = sizes, pair
    widths = [width_position(c.bits(factor, row, place)) for place, factor in enumerate((weights, operand))]
    short = np.broadcast_to((widths[0] == 0) & (widths[1] == 0), (len(c),))
    c.add(calls, number("call"))
    c.add(calls * rows * operands, number("row"))
    for position, blocks in _blocks(shape.rows, rows, operands):
        c.add(calls * blocks, number("block", position))
        if shape.vectors:
            for some, width in ((short, 8), (~short, 16)):
                with c.only(some):
                    c.add(calls * blocks * -(-terms // lanes(width, width)), number("vector", position, *widths))
            continue
        c.add(calls * blocks * (terms // TERMS), number("step", position, *widths))
        c.add(calls * blocks * (terms % TERMS), number("tail", position, *widths))


def _blocks(most: int, rows: int, operands: int) -> Iterator[tuple[int, int]]:
    """Positions of sizes of blocks for so many operands, each with how many of them there are."""
    for position, (size, met) in enumerate(BLOCK_SIZES):
        if met == operands and size <= most:
            count, rows = divmod(rows, size)
            yield position, count
