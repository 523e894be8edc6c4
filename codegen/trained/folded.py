"""Operators that are computed at once where all their inputs are constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.constants import FOLDED as SHARED
from kilotune.codegen.onnx.graph import check_size


def _expanded(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    shape = np.broadcast_shapes(operands[0].shape, tuple(int(extent) for extent in operands[1].reshape(-1)))
    check_size(shape)
    return np.broadcast_to(operands[0], shape)


def _counted(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    start, limit, delta = (float(operand.reshape(-1)[0]) for operand in operands)
    if not delta:
        raise ValueError("expected a step, found 0")
    check_size((max(0, int((limit - start) / delta) + 1),))
    return np.arange(start, limit, delta).astype(operands[0].dtype)


def _summed(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    given = operands[1].reshape(-1).tolist() if len(operands) > 1 else list(attributes.get("axes", ()))
    if not given and attributes.get("noop_with_empty_axes", 0):
        return operands[0]
    axes = tuple(given) or None
    return np.asarray(operands[0].sum(axis=axes, keepdims=bool(attributes.get("keepdims", 1)), dtype=operands[0].dtype))


FOLDED: Mapping[str, Callable[[Mapping[str, Any], Sequence[Array]], Array]] = MappingProxyType(
    {
        **SHARED,
        "Expand": _expanded,
        "Range": _counted,
        "Equal": lambda _, operands: np.asarray(operands[0] == operands[1]),
        "Where": lambda _, operands: np.where(operands[0].astype(bool), operands[1], operands[2]),
        "Neg": lambda _, operands: -operands[0],
        "Log": lambda _, operands: np.log(operands[0]),
        "Sqrt": lambda _, operands: np.sqrt(operands[0]),
        "Reciprocal": lambda _, operands: 1 / operands[0],
        "Pow": lambda _, operands: np.asarray(operands[0] ** operands[1], operands[0].dtype),
        "ReduceSum": _summed,
        "Flatten": lambda attributes, operands: _flattened(operands[0], int(attributes.get("axis", 1))),
    }
)
"""By ONNX's names."""


def _flattened(array: Array, axis: int) -> Array:
    return array.reshape(int(np.prod(array.shape[:axis])), -1)
