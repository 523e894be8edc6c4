"""From a TensorFlow Lite file to a `TrainedGraph`: its operators in ONNX's vocabulary, quantised ones as the real numbers that they stand
for. Images keep their channels last; a convolution stands between two transpositions, which become views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.tflite.model_file import TfliteModel, TfliteOperator, TfliteTensor, read_model
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

ELEMENT_TYPES = MappingProxyType(
    {
        "FLOAT32": np.float32, "FLOAT16": np.float16, "FLOAT64": np.float64, "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16,
        "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    }
)  # fmt: skip
"""What constants are made of, by the schema's names."""

ACTIVATIONS: Mapping[int, tuple[str, dict[str, float]]] = MappingProxyType(
    {
        1: ("Relu", {}),
        2: ("Clip", {"min": -1.0, "max": 1.0}),
        3: ("Clip", {"min": 0.0, "max": 6.0}),
        4: ("Tanh", {}),
    }
)
"""By the numbers of the schema's ActivationFunctionType; 0 is none."""

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Orders that put the channels of an image last, and behind the batch."""


@dataclass
class _Translation:
    """The nodes so far. `constants`: by the name of their tensor, real numbers."""

    model: TfliteModel
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[TrainedNode] = field(default_factory=list)

    def name(self, number: int) -> str:
        """What a tensor is called: as in the file, with its number, since names there need not differ."""
        return f"{self.model.tensors[number].name or 'tensor'}#{number}"

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape that the file states."""
        return self.model.tensors[number].shape

    def constant(self, number: int, what: str) -> Array:
        """A constant operand. ValueError for one that is computed."""
        name = self.name(number)
        if name not in self.constants:
            raise ValueError(f"expected constant {what}, found {name!r}, which is computed from the features")
        return self.constants[name]

    def whole_numbers(self, number: int, what: str) -> list[int]:
        """A constant operand as whole numbers."""
        return [int(value) for value in self.constant(number, what).reshape(-1)]

    def add(self, operator: TfliteOperator, kind: str, reads: Sequence[str], write: str, **attributes: Any) -> str:
        """One node; what it writes."""
        self.nodes.append(TrainedNode(kind, tuple(reads), (write,), place_of(self, operator), attributes))
        return write

    def constant_of(self, operator: TfliteOperator, label: str, values: Array) -> str:
        """A new constant of an operator; its name."""
        name = f"{self.name(operator.writes[0])}_{label}"
        self.constants[name] = values
        return name


def read_tflite(path: Path) -> TrainedGraph:
    """The model of a TensorFlow Lite file. InputError, one sentence, for a file that is none, and for inputs and outputs other than one."""
    model = read_model(path)
    if len(model.inputs) != 1 or not model.outputs:
        found = f"{len(model.inputs)} and {len(model.outputs)}"
        raise InputError(str(path), subject="inputs and outputs", expected="one and one", found=found)
    translation = _Translation(model)
    for tensor in model.tensors:
        if tensor.data is not None:
            translation.constants[translation.name(tensor.number)] = _values(tensor, str(path))
    for operator in model.operators:
        _translate(translation, operator)
    given = model.tensors[model.inputs[0]]
    return TrainedGraph(
        str(path),
        tuple(translation.nodes),
        translation.constants,
        translation.name(given.number),
        given.shape or (1,),
        tuple(translation.name(number) for number in model.outputs),
    )


def _values(tensor: TfliteTensor, path: str) -> Array:
    """The elements of a constant, quantised ones as real numbers."""
    place = f"tensor {tensor.number} {tensor.name!r}"
    kind = ELEMENT_TYPES.get(tensor.element_type)
    if kind is None:
        raise InputError(path, place=place, expected="numbers of 8 to 64 bits", found=tensor.element_type)
    assert tensor.data is not None
    wanted = int(np.prod(tensor.shape, dtype=np.int64)) * np.dtype(kind).itemsize
    if tensor.data.size != wanted:
        raise InputError(path, place=place, expected=f"{wanted} bytes", found=str(tensor.data.size))
    integers = np.frombuffer(tensor.data.tobytes(), dtype=np.dtype(kind).newbyteorder("<")).reshape(tensor.shape)
    quantised = tensor.quantisation
    if quantised is None or np.dtype(kind).kind == "f":
        return integers
    shape = [1] * len(tensor.shape)
    if quantised.scales.size > 1:
        if not 0 <= quantised.axis < len(shape) or tensor.shape[quantised.axis] != quantised.scales.size:
            raise InputError(
                path, place=place, expected=f"scales along an axis of {list(tensor.shape)}", found="others"
            )
        shape[quantised.axis] = -1
    zero, scale = quantised.zero_points.reshape(-1), quantised.scales.reshape(shape)
    zeros = zero.reshape(shape) if zero.size > 1 else zero[0]
    return np.asarray(((integers.astype(np.int64) - zeros) * scale).reshape(tensor.shape))


def place_of(translation: _Translation, operator: TfliteOperator) -> str:
    """Which operator of the file it is, for messages."""
    written = f" that writes {translation.model.tensors[operator.writes[0]].name!r}" if operator.writes else ""
    return f"operator {operator.number} ({operator.kind}{written})"


def _translate(translation: _Translation, operator: TfliteOperator) -> None:
    """Append the nodes of an operator. One that cannot be translated becomes a node with its refusal."""
    before = len(translation.nodes)
    translator = TRANSLATORS.get(operator.kind)
    if translator is None:
        known = ", ".join(sorted(TRANSLATORS))
        _refuse(translation, operator, f"expected a supported operator ({known}), found {operator.kind}")
        return
    try:
        translator(translation, operator)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        del translation.nodes[before:]
        found = str(error) if isinstance(error, ValueError) else "others"
        refusal = (
            found if found.startswith("expected ") else f"expected operands and options of its kind, found {found}"
        )
        _refuse(translation, operator, refusal)


def _refuse(translation: _Translation, operator: TfliteOperator, why: str) -> None:
    reads = tuple(translation.name(number) if number >= 0 else "" for number in operator.reads)
    writes = tuple(translation.name(number) for number in operator.writes) or ("nothing",)
    place = place_of(translation, operator)
    translation.nodes.append(TrainedNode(operator.kind, reads, writes, place, refusal=why))


def _finish(translation: _Translation, operator: TfliteOperator, before: str) -> None:
    """The activation that is part of an operator, and the operator's result."""
    number = _option(operator, "FusedActivationFunction", 0)
    result = translation.name(operator.writes[0])
    if number == 0:
        translation.add(operator, "Identity", [before], result)
        return
    if number not in ACTIVATIONS:
        raise ValueError(f"expected no activation, or Relu, Relu6 or Tanh, found number {number}")
    kind, attributes = ACTIVATIONS[number]
    translation.add(operator, kind, [before], result, **attributes)


def _option(operator: TfliteOperator, name: str, default: int) -> int:
    value = operator.options.get(name, default)
    return int(value) if isinstance(value, int | float) else default


def _convolution(translation: _Translation, operator: TfliteOperator) -> None:
    image, weights = operator.reads[:2]
    filters = translation.constant(weights, "weights")
    if filters.ndim != 4 or len(translation.shape(image)) != 4:
        raise ValueError(f"expected an image and filters for it, found {list(filters.shape)}")
    depthwise = operator.kind == "DEPTHWISE_CONV_2D"
    turned = filters.transpose(3, 0, 1, 2) if depthwise else filters.transpose(0, 3, 1, 2)
    channels = translation.shape(image)[3]
    groups = channels if depthwise else channels // max(1, turned.shape[1])
    reads = [translation.constant_of(operator, "weights", turned)]
    reads += [translation.name(number) for number in operator.reads[2:3] if number >= 0]
    attributes = {**_window(operator), "group": groups}
    attributes["dilations"] = [_option(operator, "DilationHFactor", 1), _option(operator, "DilationWFactor", 1)]
    _on_image(translation, operator, "Conv", reads, attributes)


def _pool(translation: _Translation, operator: TfliteOperator) -> None:
    kind = "MaxPool" if operator.kind == "MAX_POOL_2D" else "AveragePool"
    kernel = [_option(operator, "FilterHeight", 0), _option(operator, "FilterWidth", 0)]
    _on_image(translation, operator, kind, [], {**_window(operator), "kernel_shape": kernel})


def _window(operator: TfliteOperator) -> dict[str, Any]:
    same = _option(operator, "Padding", 0) == 0
    strides = [_option(operator, "StrideH", 1), _option(operator, "StrideW", 1)]
    return {"auto_pad": "SAME_UPPER" if same else "VALID", "strides": strides}


def _on_image(
    translation: _Translation, operator: TfliteOperator, kind: str, reads: Sequence[str], attributes: Mapping[str, Any]
) -> None:
    """An operator that wants the channels behind the batch."""
    stem = translation.name(operator.writes[0])
    turned = translation.add(
        operator, "Transpose", [translation.name(operator.reads[0])], f"{stem}_in", perm=list(FIRST)
    )
    made = translation.add(operator, kind, [turned, *reads], f"{stem}_out", **attributes)
    _finish(translation, operator, translation.add(operator, "Transpose", [made], f"{stem}_last", perm=list(LAST)))


def _fully_connected(translation: _Translation, operator: TfliteOperator) -> None:
    given, weights = operator.reads[:2]
    stem, matrix = translation.name(operator.writes[0]), translation.constant(weights, "weights")
    shape = translation.shape(given)
    name = translation.name(given)
    if not operator.options.get("KeepNumDims") and (len(shape) != 2 or shape[-1] != matrix.shape[-1]):
        wanted = translation.constant_of(operator, "shape", np.array([-1, matrix.shape[-1]]))
        name = translation.add(operator, "Reshape", [name, wanted], f"{stem}_rows")
    reads = [
        name,
        translation.name(weights),
        *(translation.name(number) for number in operator.reads[2:3] if number >= 0),
    ]
    _finish(translation, operator, translation.add(operator, "Gemm", reads, f"{stem}_out", transB=1))


def _elementwise(kind: str) -> Callable[[_Translation, TfliteOperator], None]:
    def translate(translation: _Translation, operator: TfliteOperator) -> None:
        reads = [translation.name(number) for number in operator.reads]
        made = translation.add(operator, kind, reads, f"{translation.name(operator.writes[0])}_out")
        _finish(translation, operator, made)

    return translate


def _function(kind: str, **attributes: float) -> Callable[[_Translation, TfliteOperator], None]:
    def translate(translation: _Translation, operator: TfliteOperator) -> None:
        reads = [translation.name(number) for number in operator.reads]
        translation.add(operator, kind, reads, translation.name(operator.writes[0]), **attributes)

    return translate


def _leaky_relu(translation: _Translation, operator: TfliteOperator) -> None:
    slope = operator.options.get("Alpha", 0.0)
    reads = [translation.name(operator.reads[0])]
    translation.add(operator, "LeakyRelu", reads, translation.name(operator.writes[0]), alpha=slope)


def _softmax(translation: _Translation, operator: TfliteOperator) -> None:
    reads = [translation.name(operator.reads[0])]
    translation.add(operator, "Softmax", reads, translation.name(operator.writes[0]), axis=-1)


def _reshape(translation: _Translation, operator: TfliteOperator) -> None:
    """To the shape that the file states for the result."""
    result = operator.writes[0]
    wanted = translation.constant_of(operator, "shape", np.array(translation.shape(result), dtype=np.int64))
    translation.add(operator, "Reshape", [translation.name(operator.reads[0]), wanted], translation.name(result))


def _transpose(translation: _Translation, operator: TfliteOperator) -> None:
    order = translation.whole_numbers(operator.reads[1], "order of axes")
    translation.add(
        operator, "Transpose", [translation.name(operator.reads[0])], translation.name(operator.writes[0]), perm=order
    )


def _reduction(kind: str) -> Callable[[_Translation, TfliteOperator], None]:
    def translate(translation: _Translation, operator: TfliteOperator) -> None:
        axes = np.array(translation.whole_numbers(operator.reads[1], "axes"), dtype=np.int64)
        reads = [translation.name(operator.reads[0]), translation.constant_of(operator, "axes", axes)]
        keep = int(bool(operator.options.get("KeepDims", False)))
        translation.add(operator, kind, reads, translation.name(operator.writes[0]), keepdims=keep)

    return translate


def _pad(translation: _Translation, operator: TfliteOperator) -> None:
    widths = translation.constant(operator.reads[1], "widths").astype(np.int64)
    if widths.ndim != 2 or widths.shape[1] != 2:
        raise ValueError(f"expected two widths an axis, found shape {list(widths.shape)}")
    reads = [translation.name(operator.reads[0]), translation.constant_of(operator, "pads", widths.T.reshape(-1))]
    reads += [translation.name(number) for number in operator.reads[2:3]]
    translation.add(operator, "Pad", reads, translation.name(operator.writes[0]))


def _concatenation(translation: _Translation, operator: TfliteOperator) -> None:
    reads = [translation.name(number) for number in operator.reads]
    stem = translation.name(operator.writes[0])
    _finish(
        translation,
        operator,
        translation.add(operator, "Concat", reads, f"{stem}_out", axis=_option(operator, "Axis", 0)),
    )


def _split(translation: _Translation, operator: TfliteOperator) -> None:
    """SPLIT reads the axis first, SPLIT_V sizes and the axis behind the value."""
    several = operator.kind == "SPLIT_V"
    value, axis = (operator.reads[0], operator.reads[2]) if several else (operator.reads[1], operator.reads[0])
    where = translation.whole_numbers(axis, "axis")[0]
    extent = translation.shape(value)[where]
    sizes = translation.whole_numbers(operator.reads[1], "sizes") if several else []
    sizes = sizes or [extent // len(operator.writes)] * len(operator.writes)
    rest = extent - sum(size for size in sizes if size >= 0)
    parts = np.array([rest if size < 0 else size for size in sizes], dtype=np.int64)
    reads = (translation.name(value), translation.constant_of(operator, "sizes", parts))
    writes = tuple(translation.name(number) for number in operator.writes)
    translation.nodes.append(TrainedNode("Split", reads, writes, place_of(translation, operator), {"axis": where}))


def _unpack(translation: _Translation, operator: TfliteOperator) -> None:
    given, axis = translation.name(operator.reads[0]), _option(operator, "Axis", 0)
    for place, number in enumerate(operator.writes):
        chosen = translation.constant_of(operator, f"place{place}", np.array(place))
        translation.add(operator, "Gather", [given, chosen], translation.name(number), axis=axis)


def _pack(translation: _Translation, operator: TfliteOperator) -> None:
    axis, stem = _option(operator, "Axis", 0), translation.name(operator.writes[0])
    where = translation.constant_of(operator, "axis", np.array([axis]))
    parts = [
        translation.add(operator, "Unsqueeze", [translation.name(number), where], f"{stem}_part{place}")
        for place, number in enumerate(operator.reads)
    ]
    translation.add(operator, "Concat", parts, stem, axis=axis)


def _strided_slice(translation: _Translation, operator: TfliteOperator) -> None:
    value = operator.reads[0]
    shape = translation.shape(value)
    begin, end, steps = (translation.whole_numbers(number, "spans") for number in operator.reads[1:4])
    if _option(operator, "EllipsisMask", 0) or _option(operator, "NewAxisMask", 0):
        raise ValueError("expected a span for every axis, found an ellipsis or a new axis")
    without, shrunk = _option(operator, "BeginMask", 0), _option(operator, "ShrinkAxisMask", 0)
    to_the_end, axes = _option(operator, "EndMask", 0), range(len(begin))
    least, most = -(1 << 31) - 1, 1 << 31
    ends = []
    for axis in axes:
        if shrunk >> axis & 1:
            ends.append(begin[axis] + 1 if begin[axis] != -1 else shape[axis])
        elif to_the_end >> axis & 1:
            ends.append(most if steps[axis] > 0 else least)
        else:
            ends.append(end[axis])
    starts = [
        (0 if steps[a] > 0 else shape[a] - 1) if without >> a & 1 and not shrunk >> a & 1 else begin[a] for a in axes
    ]
    parts = {"starts": starts, "ends": ends, "axes": list(axes), "steps": steps}
    reads = [translation.constant_of(operator, label, np.array(numbers)) for label, numbers in parts.items()]
    stem = translation.name(operator.writes[0])
    cut = translation.add(operator, "Slice", [translation.name(value), *reads], f"{stem}_span")
    gone = [axis for axis in axes if shrunk >> axis & 1]
    if gone:
        translation.add(operator, "Squeeze", [cut, translation.constant_of(operator, "gone", np.array(gone))], stem)
    else:
        translation.add(operator, "Identity", [cut], stem)


def _slice(translation: _Translation, operator: TfliteOperator) -> None:
    value = operator.reads[0]
    begin, sizes = (translation.whole_numbers(number, "spans") for number in operator.reads[1:3])
    ends = [
        extent if size < 0 else b + size for b, size, extent in zip(begin, sizes, translation.shape(value), strict=True)
    ]
    reads = [translation.constant_of(operator, label, np.array(n)) for label, n in (("starts", begin), ("ends", ends))]
    translation.add(operator, "Slice", [translation.name(value), *reads], translation.name(operator.writes[0]))


def _gather(translation: _Translation, operator: TfliteOperator) -> None:
    reads = [translation.name(number) for number in operator.reads[:2]]
    axis = _option(operator, "Axis", 0)
    translation.add(operator, "Gather", reads, translation.name(operator.writes[0]), axis=axis)


def _arg_max(translation: _Translation, operator: TfliteOperator) -> None:
    axis = translation.whole_numbers(operator.reads[1], "axis")[0]
    reads = [translation.name(operator.reads[0])]
    translation.add(operator, "ArgMax", reads, translation.name(operator.writes[0]), axis=axis, keepdims=0)


TRANSLATORS: Mapping[str, Callable[[_Translation, TfliteOperator], None]] = MappingProxyType(
    {
        "CONV_2D": _convolution,
        "DEPTHWISE_CONV_2D": _convolution,
        "FULLY_CONNECTED": _fully_connected,
        "MAX_POOL_2D": _pool,
        "AVERAGE_POOL_2D": _pool,
        "MEAN": _reduction("ReduceMean"),
        "SUM": _reduction("ReduceSum"),
        "ADD": _elementwise("Add"),
        "SUB": _elementwise("Sub"),
        "MUL": _elementwise("Mul"),
        "DIV": _elementwise("Div"),
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
        "HARD_SWISH": _function("HardSwish"),
        "SOFTMAX": _softmax,
        "LOG_SOFTMAX": _function("LogSoftmax"),
        "QUANTIZE": _function("Identity"),
        "DEQUANTIZE": _function("Identity"),
        "RESHAPE": _reshape,
        "SQUEEZE": _reshape,
        "EXPAND_DIMS": _reshape,
        "TRANSPOSE": _transpose,
        "PAD": _pad,
        "PADV2": _pad,
        "CONCATENATION": _concatenation,
        "SPLIT": _split,
        "SPLIT_V": _split,
        "UNPACK": _unpack,
        "PACK": _pack,
        "STRIDED_SLICE": _strided_slice,
        "SLICE": _slice,
        "GATHER": _gather,
        "ARG_MAX": _arg_max,
    }
)
"""By the schema's names of operators."""
