"""TensorFlow Lite's operators that compute, in ONNX's vocabulary. Images keep their channels last; a convolution stands between two
transpositions, which become views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.tflite.model_file import TfliteOperator
from kilotune.codegen.trained.tflite_translation import Translation, Translator, option

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Orders that put the channels of an image last, and behind the batch."""


def _convolution(translation: Translation, operator: TfliteOperator) -> None:
    image, weights = operator.reads[:2]
    filters = translation.constant(weights, "weights")
    if filters.ndim != 4 or len(translation.shape(image)) != 4:
        raise ValueError(f"expected an image and filters for it, found {list(filters.shape)}")
    depthwise = operator.kind == "DEPTHWISE_CONV_2D"
    turned = filters.transpose(3, 0, 1, 2) if depthwise else filters.transpose(0, 3, 1, 2)
    channels = translation.shape(image)[3]
    groups = channels if depthwise else channels // max(1, turned.shape[1])
    reads = [translation.constant_of(operator, "weights", turned)]
    reads += _bias(translation, operator)
    attributes = {**_window(operator), "group": groups}
    attributes["dilations"] = [option(operator, "DilationHFactor", 1), option(operator, "DilationWFactor", 1)]
    _on_image(translation, operator, "Conv", reads, attributes)


def _bias(translation: Translation, operator: TfliteOperator) -> list[str]:
    """The name of the bias where an operator has one. ValueError for integers of which the file does not say what they are worth."""
    numbers = [number for number in operator.reads[2:3] if number >= 0]
    for tensor in map(translation.model.tensors.__getitem__, numbers):
        if tensor.quantisation is None and tensor.element_type.startswith("INT"):
            raise ValueError(
                f"expected a bias of real numbers, or with a scale, found {tensor.element_type} without one"
            )
    return [translation.name(number) for number in numbers]


def _pool(translation: Translation, operator: TfliteOperator) -> None:
    kind = "MaxPool" if operator.kind == "MAX_POOL_2D" else "AveragePool"
    kernel = [option(operator, "FilterHeight", 0), option(operator, "FilterWidth", 0)]
    _on_image(translation, operator, kind, [], {**_window(operator), "kernel_shape": kernel})


def _window(operator: TfliteOperator) -> dict[str, Any]:
    same = option(operator, "Padding", 0) == 0
    strides = [option(operator, "StrideH", 1), option(operator, "StrideW", 1)]
    return {"auto_pad": "SAME_UPPER" if same else "VALID", "strides": strides}


def _on_image(
    translation: Translation, operator: TfliteOperator, kind: str, reads: Sequence[str], attributes: Mapping[str, Any]
) -> None:
    """An operator that wants the channels behind the batch."""
    stem = translation.name(operator.writes[0])
    turned = translation.add(
        operator, "Transpose", [translation.name(operator.reads[0])], f"{stem}_in", perm=list(FIRST)
    )
    made = translation.add(operator, kind, [turned, *reads], f"{stem}_out", **attributes)
    translation.finish(operator, translation.add(operator, "Transpose", [made], f"{stem}_last", perm=list(LAST)))


def _fully_connected(translation: Translation, operator: TfliteOperator) -> None:
    given, weights = operator.reads[:2]
    stem, matrix = translation.name(operator.writes[0]), translation.constant(weights, "weights")
    shape = translation.shape(given)
    name = translation.name(given)
    if not operator.options.get("KeepNumDims") and (len(shape) != 2 or shape[-1] != matrix.shape[-1]):
        wanted = translation.constant_of(operator, "shape", np.array([-1, matrix.shape[-1]]))
        name = translation.add(operator, "Reshape", [name, wanted], f"{stem}_rows")
    reads = [name, translation.name(weights), *_bias(translation, operator)]
    translation.finish(operator, translation.add(operator, "Gemm", reads, f"{stem}_out", transB=1))


def _elementwise(kind: str) -> Translator:
    def translate(translation: Translation, operator: TfliteOperator) -> None:
        reads = [translation.name(number) for number in operator.reads]
        made = translation.add(operator, kind, reads, f"{translation.name(operator.writes[0])}_out")
        translation.finish(operator, made)

    return translate


def _function(kind: str, **attributes: float) -> Translator:
    def translate(translation: Translation, operator: TfliteOperator) -> None:
        reads = [translation.name(number) for number in operator.reads]
        translation.add(operator, kind, reads, translation.name(operator.writes[0]), **attributes)

    return translate


def _leaky_relu(translation: Translation, operator: TfliteOperator) -> None:
    slope = operator.options.get("Alpha", 0.0)
    reads = [translation.name(operator.reads[0])]
    translation.add(operator, "LeakyRelu", reads, translation.name(operator.writes[0]), alpha=slope)


def _softmax(translation: Translation, operator: TfliteOperator) -> None:
    value, beta = translation.name(operator.reads[0]), operator.options.get("Beta", 0.0)
    if not (isinstance(beta, float) and 0.0 < beta < np.inf):
        raise ValueError(f"expected a Softmax whose beta is above 0, found {beta}")
    if beta != 1.0:
        factor = translation.constant_of(operator, "beta", np.array(beta))
        value = translation.add(operator, "Mul", [value, factor], f"{translation.name(operator.writes[0])}_scaled")
    translation.add(operator, "Softmax", [value], translation.name(operator.writes[0]), axis=-1)


def _reduction(kind: str) -> Translator:
    def translate(translation: Translation, operator: TfliteOperator) -> None:
        axes = np.array(translation.whole_numbers(operator.reads[1], "axes"), dtype=np.int64)
        reads = [translation.name(operator.reads[0]), translation.constant_of(operator, "axes", axes)]
        keep = int(bool(operator.options.get("KeepDims", False)))
        translation.add(operator, kind, reads, translation.name(operator.writes[0]), keepdims=keep)

    return translate


def _arg_max(translation: Translation, operator: TfliteOperator) -> None:
    axis = translation.whole_numbers(operator.reads[1], "axis")[0]
    reads = [translation.name(operator.reads[0])]
    translation.add(operator, "ArgMax", reads, translation.name(operator.writes[0]), axis=axis, keepdims=0)


def _dequantize(translation: Translation, operator: TfliteOperator) -> None:
    """Integers, or weights of 16-bit floats, as 32-bit floats: constants stay constants."""
    given, result = translation.name(operator.reads[0]), translation.name(operator.writes[0])
    if given in translation.constants:
        translation.constants[result] = translation.constants[given].astype(np.float64)
    else:
        translation.add(operator, "Identity", [given], result)


ARITHMETIC: Mapping[str, Translator] = MappingProxyType(
    {
        "CONV_2D": _convolution,
        "DEPTHWISE_CONV_2D": _convolution,
        "FULLY_CONNECTED": _fully_connected,
        "MAX_POOL_2D": _pool,
        "AVERAGE_POOL_2D": _pool,
        "MEAN": _reduction("ReduceMean"),
        "SUM": _reduction("ReduceSum"),
        "REDUCE_MAX": _reduction("ReduceMax"),
        "ADD": _elementwise("Add"),
        "SUB": _elementwise("Sub"),
        "MUL": _elementwise("Mul"),
        "DIV": _elementwise("Div"),
        "MAXIMUM": _elementwise("Max"),
        "MINIMUM": _elementwise("Min"),
        "RELU": _function("Relu"),
        "RELU6": _function("Clip", min=0.0, max=6.0),
        "RELU_N1_TO_1": _function("Clip", min=-1.0, max=1.0),
        "LEAKY_RELU": _leaky_relu,
        "PRELU": _function("PRelu"),
        "LOGISTIC": _function("Sigmoid"),
        "TANH": _function("Tanh"),
        "EXP": _function("Exp"),
        "ABS": _function("Abs"),
        "NEG": _function("Neg"),
        "ELU": _function("Elu"),
        "HARD_SWISH": _function("HardSwish"),
        "SOFTMAX": _softmax,
        "LOG_SOFTMAX": _function("LogSoftmax"),
        "QUANTIZE": _function("Identity"),
        "DEQUANTIZE": _dequantize,
        "ARG_MAX": _arg_max,
    }
)
"""By the schema's names of operators."""
