"""ONNX operators that normalise: with statistics of the training, or by what other channels have at the same pixel.

A converter raises ValueError "expected X, found Y"; the importer adds file and node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kilotune.codegen.counts import counted
from kilotune.codegen.onnx.functions import SHIFTED_POWER
from kilotune.codegen.onnx.graph import (
    AffineNode,
    ConvNode,
    FunctionNode,
    ProductNode,
    UnknownArray,
    Weights,
    Window,
    known,
)
from kilotune.codegen.onnx.imported import Imported, OnnxNode, as_float, spatial_operand


def batch_normalization(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0])
    channels = imported.shapes[value.tensor][0]
    statistics = [imported.weights(name, "statistics") for name in call.inputs[1:5]]
    scale, variance = statistics[0], statistics[-1]
    if value.flattened or {p.shape for p in statistics} != {(channels,)}:
        raise ValueError(
            f"expected statistics of {counted(channels, 'channel')}, found shapes {scale.shape} to {variance.shape}"
        )
    if call.attributes.get("training_mode", 0):
        raise ValueError("expected batch normalisation for inference, found training_mode")
    node = AffineNode((value.tensor,), call.output, *_normalisation(statistics, call.attributes.get("epsilon", 1e-5)))
    imported.emit(node, imported.shapes[value.tensor], value.shape)


def _normalisation(statistics: Sequence[Weights], epsilon: float) -> tuple[Weights, Weights]:
    """Factor and offset of each channel from scale, offset, mean and variance."""
    if any(isinstance(array, UnknownArray) for array in statistics):
        return statistics[0], statistics[1]
    scale, offset, mean, variance = map(known, statistics)
    with np.errstate(all="ignore"):  # what becomes of it is looked at
        factor = as_float(scale / np.sqrt(variance + float(epsilon)))
    return factor, as_float(offset - mean * factor)


def local_response_normalization(imported: Imported, call: OnnxNode) -> None:
    """LRN: x / (bias + alpha / size * the sum of the squares of the channels around)**beta.

    Squares from a table, their sums over channels from a matrix, the power from another table, and a product. The bias is part of the
    table: beside it, sums of small squares are nothing, and as one of them it would leave the matrix no bits.
    """
    value, shape = spatial_operand(imported, call)
    attributes = call.attributes
    size = int(attributes["size"])
    alpha, beta, bias = (float(attributes.get(k, d)) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    if size < 1 or not (0 < bias < math.inf and 0 <= alpha < math.inf and math.isfinite(beta)):
        raise ValueError(
            f"expected a size from 1, a bias above 0, an alpha from 0 and a beta, all finite, found {size}, {bias:g}, {alpha:g}, {beta:g}"
        )
    channels = np.arange(shape[0])
    before, after = (size - 1) // 2, size // 2
    distance = channels[None, :] - channels[:, None]
    band = np.where((-before <= distance) & (distance <= after), alpha / size, 0.0)[:, :, None, None]
    squares, sums, factors = (f"{call.output}/{part}" for part in ("squares", "sums", "factors"))
    imported.emit_part(FunctionNode((value.tensor,), squares, "Pow", (2.0,)), shape, call.output)
    imported.emit_part(ConvNode((squares,), sums, band, np.zeros(shape[0]), Window()), shape, call.output)
    imported.emit_part(FunctionNode((sums,), factors, SHIFTED_POWER, (bias, -beta)), shape, call.output)
    imported.emit(ProductNode((value.tensor, factors), call.output), shape, value.shape)
