"""Which parameters have rows that are the weights of one sum each, so that each row can have a scale of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.arithmetic import get_scale
from kilotune.codegen.fixed.encoding import RowShifts

ROW_BITS = 16
"""The width that programs compute with where rows have shifts: it holds codes of 8 bits and fewer with what they are multiplied by."""


@dataclass(frozen=True)
class RowScales:
    """The shifts of a parameter's rows, and the scale of the finest of them."""

    shifts: RowShifts
    finest: int


def parameter_rows(program: ir.Program) -> dict[str, tuple[int, ...]]:
    """The axes that number the rows, by the name of each parameter that one product alone reads, whole.

    Rows of a left operand, columns of a right one, and output channels of a convolution's weights. A parameter of one row has a scale
    of its own anyway.
    """
    operations = tuple(ir.operations(program.body))
    readers = Counter(v.variable for o in operations for v in o.operands if isinstance(v, ir.View))
    parameters = {v.name: v for v in program.variables if v.role is ir.Role.PARAMETER}
    found: dict[str, tuple[int, ...]] = {}
    for operation in operations:
        if not isinstance(operation, ir.Product):
            continue
        right = (0, 4) if isinstance(operation, ir.Conv2D) else (1,)
        for view, axes in ((operation.a, (0,)), (operation.b, right)):
            variable = parameters.get(view.variable)
            if variable is None or readers[view.variable] != 1 or view != ir.whole(variable):
                continue
            if view is operation.a and isinstance(operation, ir.Conv2D):
                continue
            if program.result.variable != variable.name and ir.count_elements(_extents(variable, axes)) > 1:
                found[variable.name] = axes
    return found


def row_scales(variable: ir.Variable, axes: tuple[int, ...], values: FloatArray, width: int) -> RowScales | None:
    """Scales at which each row's largest value fits `width` bits; None where all rows have the same.

    Rows so small that the integers of the largest one would not fit ROW_BITS keep to the finest scale at which those do.
    """
    others = tuple(axis for axis in range(len(variable.shape)) if axis not in axes)
    largest = np.abs(values.reshape(variable.shape)).max(axis=others).reshape(-1)
    scales = [get_scale(float(magnitude), width) if magnitude else None for magnitude in largest]
    known = [scale for scale in scales if scale is not None] or [0]
    finest = min(max(known), min(known) + ROW_BITS - max(width, 2))
    shifts = tuple(0 if scale is None else max(finest - scale, 0) for scale in scales)
    return RowScales(RowShifts(axes, shifts), finest) if any(shifts) else None


def all_row_scales(
    program: ir.Program, parameters: Mapping[str, FloatArray], widths: tuple[int, ...]
) -> dict[str, dict[int, RowScales]]:
    """By parameter and width, the scales of its rows, where they differ."""
    found: dict[str, dict[int, RowScales]] = {}
    for name, axes in parameter_rows(program).items():
        variable = program.variable(name)
        by_width = {
            width: row_scales(variable, axes, parameters[name], width)
            for width in widths
            if not (variable.sparse and width == 1)
        }
        found[name] = {width: scales for width, scales in by_width.items() if scales is not None}
    return found


def _extents(variable: ir.Variable, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(variable.shape[axis] for axis in axes)
