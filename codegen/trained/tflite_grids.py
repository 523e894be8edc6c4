"""On which grids integers of a quantised TensorFlow Lite file stand, and what is done at its ends.

ValueError "expected X, found Y" for tensors of other numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid
from kilotune.codegen.tflite.model_file import TfliteModel, TfliteOperator
from kilotune.codegen.trained.tflite_translation import Translation

INTEGER_LIMITS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"INT8": (LEAST, MOST), "UINT8": (0, 255), "INT16": (-(1 << 15), (1 << 15) - 1)}
)

UNSIGNED_SHIFT = 128
"""What a zero point without a sign is above the one with it."""


def grid_of(translation: Translation, number: int) -> QuantisationGrid:
    """Where the integers of a tensor of 8 bits stand. ValueError for another tensor."""
    tensor = translation.model.tensors[number]
    quantised = tensor.quantisation
    if tensor.element_type != "INT8" or quantised is None or quantised.scales.size != 1:
        found = tensor.element_type if tensor.element_type != "INT8" else "no scale, or several"
        raise ValueError(f"expected {tensor.name!r} of INT8 with one scale, found {found}")
    scale, zero = float(quantised.scales.reshape(-1)[0]), int(quantised.zero_points.reshape(-1)[0])
    if not (np.isfinite(scale) and scale > 0 and LEAST <= zero <= MOST):
        raise ValueError(f"expected a scale above 0 and a zero point of 8 bits, found {scale!r} and {zero}")
    return QuantisationGrid(scale, zero)


def is_end(translation: Translation, operator: TfliteOperator) -> bool:
    """Whether a QUANTIZE or DEQUANTIZE is one of the features, or of what the model returns, that its caller does: from or to real numbers,
    or integers without a sign that stand for the same. ValueError for such integers on another grid."""
    model = translation.model
    if operator.reads[0] not in model.inputs and operator.writes[0] not in model.outputs:
        return False
    given, made = (model.tensors[number] for number in (operator.reads[0], operator.writes[0]))
    kinds = {given.element_type, made.element_type}
    if kinds != {"INT8", "UINT8"}:
        return kinds == {"INT8", "FLOAT32"}
    numbers = [
        (one.quantisation.scales, one.quantisation.zero_points) if one.quantisation else None for one in (given, made)
    ]
    if numbers[0] is None or numbers[1] is None or (numbers[0][0] != numbers[1][0]).any():
        raise ValueError("expected integers with and without a sign on one grid, found two")
    sign = 1 if made.element_type == "UINT8" else -1
    if (numbers[1][1] - numbers[0][1] != sign * UNSIGNED_SHIFT).any():
        raise ValueError("expected integers with and without a sign on one grid, found two")
    return True


def grids_of_ends(model: TfliteModel) -> tuple[QuantisationGrid | None, QuantisationGrid | None]:
    """Those of the input and of the first output: their own where they are integers with a sign, else that of what QUANTIZE makes of
    the one and of what DEQUANTIZE or QUANTIZE takes for the other; None where there is no grid."""
    translation = Translation(model)
    after, before = model.inputs[0], model.outputs[0]
    signed = [model.tensors[number].element_type == "INT8" for number in (after, before)]
    for operator in model.operators:
        if operator.kind == "QUANTIZE" and model.inputs[0] in operator.reads and not signed[0]:
            after = operator.writes[0]
        if operator.kind in ("DEQUANTIZE", "QUANTIZE") and model.outputs[0] in operator.writes and not signed[1]:
            before = operator.reads[0]
    return _grid_if_any(translation, after), _grid_if_any(translation, before)


def ends_of_features(model: TfliteModel) -> tuple[float, float] | None:
    """Between which real numbers the integers are that the file has, or makes first, of the features; None where it has floats."""
    number = model.inputs[0]
    for operator in model.operators:
        if operator.kind == "QUANTIZE" and number in operator.reads and model.tensors[number].element_type == "FLOAT32":
            number = operator.writes[0]
            break
    tensor = model.tensors[number]
    quantised, limits = tensor.quantisation, INTEGER_LIMITS.get(tensor.element_type)
    if quantised is None or limits is None or quantised.scales.size != 1 or quantised.zero_points.size != 1:
        return None
    scale, zero = float(quantised.scales.reshape(-1)[0]), float(quantised.zero_points.reshape(-1)[0])
    return (limits[0] - zero) * scale, (limits[1] - zero) * scale


def _grid_if_any(translation: Translation, number: int) -> QuantisationGrid | None:
    try:
        return grid_of(translation, number)
    except ValueError:
        return None
