"""Factors and offsets of the features that a recurrent operator reads go into its weights and biases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.builder import FOLDED_NAME
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.recurrent import GATES


def scaled_sequence(
    node: TrainedNode, constants: Mapping[str, Array], factor: RealArray, offset: RealArray
) -> tuple[TrainedNode, dict[str, Array]] | None:
    """The operator for a sequence that is not multiplied by `factor` and moved by `offset` before it, and its new constants.

    factor, offset: one number for all, or one for each feature, along the last axis. None where they are others, and for operators that
    are none of `GATES`.
    """
    weights = constants.get(node.inputs[1]) if node.kind in GATES and len(node.inputs) > 2 else None
    if weights is None or weights.ndim != 3 or weights.dtype.kind != "f":
        return None
    features = weights.shape[2]
    by_feature = [_by_feature(values, features) for values in (factor, offset)]
    named = node.inputs[3] if len(node.inputs) > 3 else ""
    bias = constants.get(named) if named else np.zeros((weights.shape[0], 2 * weights.shape[1]))
    if (
        by_feature[0] is None
        or by_feature[1] is None
        or bias is None
        or bias.shape != (weights.shape[0], 2 * weights.shape[1])
    ):
        return None
    moved = np.array(bias, dtype=np.float64)
    moved[:, : weights.shape[1]] += weights @ by_feature[1]
    written = next(name for name in node.outputs if name)
    names = [f"{name.partition(FOLDED_NAME)[0]}{FOLDED_NAME}{written}" for name in (node.inputs[1], named or "bias")]
    reads = (node.inputs[0], names[0], node.inputs[2], names[1], *node.inputs[4:])
    return replace(node, inputs=reads), {names[0]: weights * by_feature[0], names[1]: moved}


def _by_feature(values: RealArray, features: int) -> RealArray | None:
    """One number for each feature; None where the values change along other axes."""
    if values.size == 1:
        return np.full(features, float(values.reshape(-1)[0]))
    return values.reshape(-1) if values.shape[-1] == features == values.size else None
