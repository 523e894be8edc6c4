"""TensorFlow Lite's LSTM over a sequence, as converters before Keras 3 write it, in ONNX's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from kilotune.codegen.tflite.model_file import TfliteOperator
from kilotune.codegen.trained.recurrent import CELL_CLIP
from kilotune.codegen.trained.tflite_translation import Translation, Translator, option

TANH = 4
"""The schema's number of the activation."""

GATES_IN_ONNX = (0, 3, 1, 2)
"""Input, output, forget, cell: places of the gates in the operator's order, which is input, forget, cell, output."""

WEIGHTS, RECURRENT, PEEPHOLES, BIASES = range(1, 5), range(5, 9), range(9, 12), range(12, 16)
PROJECTION, NORMALISATION = range(16, 18), range(20, 24)
"""Places of the operands."""


def _lstm(translation: Translation, operator: TfliteOperator) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM with its state at zero, of the shape (batch, steps, ..) or, time-major, (steps, batch, ..)."""
    reads = operator.reads + (-1,) * (max(NORMALISATION) + 1 - len(operator.reads))
    for places, what in (
        (PEEPHOLES, "peepholes"),
        (PROJECTION, "a projection"),
        (NORMALISATION, "layer normalisation"),
    ):
        if any(reads[place] >= 0 for place in places):
            raise ValueError(f"expected a plain LSTM, found {what}")
    if (
        any(reads[place] < 0 for place in (*WEIGHTS, *RECURRENT))
        or option(operator, "FusedActivationFunction", 0) != TANH
    ):
        raise ValueError("expected weights for each of four gates and tanh, found others")
    w, r = (
        _stacked(translation, operator, [reads[p] for p in places], n)
        for places, n in ((WEIGHTS, "W"), (RECURRENT, "R"))
    )
    biases = _stacked(translation, operator, [reads[place] for place in BIASES], "B") if reads[BIASES[0]] >= 0 else ""
    stem, given = translation.name(operator.writes[0]), translation.name(reads[0])
    by_step = bool(option(operator, "TimeMajor", 0))
    if not by_step:
        given = translation.add(operator, "Transpose", [given], f"{stem}_steps", perm=(1, 0, 2))
    units = translation.constants[r].shape[2]
    states = translation.add(
        operator, "LSTM", [given, w, r, biases], f"{stem}_states", hidden_size=units, **_clip(operator)
    )
    axis = translation.constant_of(operator, "direction", np.array([1]))
    if by_step:
        translation.add(operator, "Squeeze", [states, axis], stem)
    else:
        row = translation.add(operator, "Squeeze", [states, axis], f"{stem}_by_step")
        translation.add(operator, "Transpose", [row], stem, perm=(1, 0, 2))


def _clip(operator: TfliteOperator) -> dict[str, float]:
    value = operator.options.get("CellClip", 0.0)
    return {CELL_CLIP: float(value)} if isinstance(value, int | float) and value > 0 else {}


def _stacked(translation: Translation, operator: TfliteOperator, numbers: list[int], letter: str) -> str:
    """The constants of four gates as ONNX has them: [1, rows of all gates, ..], biases of the input and, zeros, of the state."""
    parts = [translation.constant(numbers[place], "weights") for place in GATES_IN_ONNX]
    rows = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    values = rows if rows.ndim > 1 else np.concatenate([rows, np.zeros_like(rows)])
    return translation.constant_of(operator, letter, values[None])


RECURRENT_OPERATORS: Mapping[str, Translator] = MappingProxyType({"UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm})
"""By the schema's names of operators."""
