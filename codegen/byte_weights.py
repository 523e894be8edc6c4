"""Parameters as 8-bit integers times one real number each, as TensorFlow Lite's hybrid kernels store them: floats everywhere else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray

LARGEST_CODE = 127
"""Codes are symmetric: -127 to 127."""


def byte_step(values: FloatArray) -> float:
    """What a code of 1 is worth: the largest magnitude is a code of 127. 1 where all values are zero."""
    return float(np.abs(values).max()) / LARGEST_CODE or 1.0


def byte_codes(values: FloatArray, step: float) -> IntArray:
    """The nearest codes, of ties the even one."""
    return np.round(values / step).astype(np.int64)


def eight_bit_weights(parameters: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Every parameter at the nearest of 255 multiples of its largest magnitude over 127: what a hybrid program computes with."""
    steps = {name: byte_step(values) for name, values in parameters.items()}
    return {name: np.multiply(byte_codes(values, steps[name]), steps[name]) for name, values in parameters.items()}


def stored_as_bytes(program: ir.Program) -> set[str]:
    """The parameters that may lie in flash as codes: those of more than one element that only products and elementwise operations read,
    and that are no result."""
    kept = {v.name for v in program.variables if v.role is ir.Role.PARAMETER and v.size > 1}
    for operation in ir.operations(program.body):
        if not isinstance(operation, ir.Product | ir.Elementwise):
            kept -= {operand.variable for operand in operation.operands if isinstance(operand, ir.View)}
    return kept - {program.result.variable}
