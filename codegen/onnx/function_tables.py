"""Functions of a quantised network: a table of what every integer argument gives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.onnx.bounds import Bounds
from kilotune.codegen.onnx.functions import SHIFTED_POWER, apply_function
from kilotune.codegen.onnx.graph import FunctionNode, TableNode

MOST_ARGUMENTS = 1 << 12

PLACES_IN_A_STEP = 64
"""Points between two arguments at which a steep function is looked at."""


def function_values(node: FunctionNode, operand: Bounds, exponent: int, channels: int) -> FloatArray:
    """What the function gives for every argument in these bounds, of that exponent: [arguments], or [channels, arguments] where
    a parameter differs by channel. ValueError for more than MOST_ARGUMENTS, and for a function that is nowhere finite."""
    low, high = operand
    if high - low >= MOST_ARGUMENTS:
        raise ValueError(f"{node.output!r}: a table of {high - low + 1} arguments, from {low} to {high}, is too large")
    arguments = np.ldexp(np.arange(low, high + 1, dtype=np.float64), exponent)
    parameters = [p if isinstance(p, float) else np.asarray(p, np.float64)[:, None] for p in node.parameters]
    if any(not isinstance(p, float) for p in parameters):
        arguments = np.broadcast_to(arguments, (channels, len(arguments)))
    if node.function == SHIFTED_POWER:
        return _mean_over_steps(arguments, float(np.ldexp(1.0, exponent)), *node.parameters)
    return _finite(node, apply_function(node.function, arguments, parameters, node.gated))


def _mean_over_steps(arguments: FloatArray, step: float, *parameters: object) -> FloatArray:
    """A power of a sum of squares, averaged over what rounds to each argument, where values count by their arguments: whatever is
    multiplied with the power is one of what was squared, so its square, and that of the error, grows with the sum. At the argument
    itself the power of 0 would stand for all sums below half a step, and be larger than that of any."""
    within = (np.arange(PLACES_IN_A_STEP) + 0.5) / PLACES_IN_A_STEP - 0.5
    sums = np.maximum(arguments[:, None] + step * within, 0.0)
    weights = np.where(sums.any(axis=1, keepdims=True), sums, 1.0)  # no sum is negative; a table may begin there
    return np.average(apply_function(SHIFTED_POWER, sums, parameters), axis=1, weights=weights)


def _finite(node: FunctionNode, values: FloatArray) -> FloatArray:
    """Arguments of which the function is not finite, and which no sensible image leads to, count as the nearest one of which it is."""
    there = np.isfinite(values)
    if there.all():
        return values
    if not there.any(axis=-1).all():
        raise ValueError(f"{node.output!r}: {node.function} is finite for none of its arguments")
    places = np.arange(values.shape[-1])
    distances = np.where(there[..., None, :], np.abs(places[:, None] - places), len(places))
    return np.take_along_axis(values, distances.argmin(axis=-1), axis=-1)


def table_of(node: FunctionNode, values: FloatArray, operand: Bounds, target: int, limits: Bounds) -> TableNode:
    """The values as integers of the exponent `target`: rounded to nearest, saturated."""
    integers: NDArray[np.int64] = np.clip(np.rint(np.ldexp(values, -target)), *limits).astype(np.int64)
    return TableNode(node.inputs, node.output, operand[0], integers)
