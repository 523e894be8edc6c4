"""How operands must lie for their products to be taken by rows of weights in a call, or channel by channel."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.schedule import window_axes
from kilotune.codegen.emit.storage import VariableStorage

MOST_TAPS = 25
"""Taps that are written out; larger filters stay loops."""


def rows_of_matrices(storage: VariableStorage, operation: ir.MatMul) -> int | None:
    """The number of the operand whose rows lie one after the other; None where neither does, or has one row only.

    Results are written row by row, as `in_place` takes it: all rows of the first operand at once are columns, of which there may be one.
    """
    (a0, _), (_, b1) = (storage.strides(view) for view in (operation.a, operation.b))
    height, width, length = operation.a.shape[0], operation.b.shape[1], operation.taps
    if b1 == length and width > 1:
        return 1
    return 0 if a0 == length and height > 1 and width == 1 else None


def filters_lie_beside(storage: VariableStorage, operation: ir.Conv2D) -> bool:
    """Whether there are several filters, and each one's weights follow on those of the one before."""
    steps = storage.strides(operation.b)
    height, width, channels = operation.b.shape[1:4]
    inner = [(height, steps[1], width * channels), (width, steps[2], channels), (channels, steps[3], 1)]
    whole = all(extent == 1 or step == wanted for extent, step, wanted in inner)
    return whole and steps[4] == operation.taps and operation.b.shape[4] > 1


def channels_lie_beside(storage: VariableStorage, operation: ir.Conv2D) -> bool:
    """Whether every channel is a group with one filter, few taps and no gaps, and the channels of a pixel are neighbours in RAM."""
    a, b, steps = operation.a, operation.b, storage.strides(operation.b)
    groups, height, width, inputs, outputs = b.shape
    alone = groups > 1 and inputs == outputs == 1 and height * width <= MOST_TAPS and operation.dilation == (1, 1)
    pixels = a.strides[2] == groups and a.strides[3] == 1 and a.strides[1] > 0 and not storage.in_flash(a.variable)
    weights = [(height, steps[1], width), (width, steps[2], 1)]
    overlap = all(axis.overlaps for axis in window_axes(operation))
    return alone and pixels and overlap and all(extent == 1 or step == wanted for extent, step, wanted in weights)


def axis_of_rows(storage: VariableStorage, operation: ir.Operation) -> int | None:
    """The axis of a product's result along which the rows of weights are that a call may take together; None where there are none."""
    if isinstance(operation, ir.MatMul):
        return rows_of_matrices(storage, operation)
    return 3 if isinstance(operation, ir.Conv2D) and filters_lie_beside(storage, operation) else None
