"""TensorFlow Lite's operators that only move numbers, in ONNX's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from kilotune.codegen.tflite.model_file import TfliteOperator
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.tflite_translation import Translation, Translator, option


def _reshape(translation: Translation, operator: TfliteOperator) -> None:
    """To the shape that the file states for the result."""
    result = operator.writes[0]
    wanted = translation.constant_of(operator, "shape", np.array(translation.shape(result), dtype=np.int64))
    translation.add(operator, "Reshape", [translation.name(operator.reads[0]), wanted], translation.name(result))


def _transpose(translation: Translation, operator: TfliteOperator) -> None:
    order = translation.whole_numbers(operator.reads[1], "order of axes")
    translation.add(
        operator, "Transpose", [translation.name(operator.reads[0])], translation.name(operator.writes[0]), perm=order
    )


def _pad(translation: Translation, operator: TfliteOperator) -> None:
    widths = translation.constant(operator.reads[1], "widths").astype(np.int64)
    if widths.ndim != 2 or widths.shape[1] != 2:
        raise ValueError(f"expected two widths an axis, found shape {list(widths.shape)}")
    reads = [translation.name(operator.reads[0]), translation.constant_of(operator, "pads", widths.T.reshape(-1))]
    reads += [translation.name(number) for number in operator.reads[2:3]]
    translation.add(operator, "Pad", reads, translation.name(operator.writes[0]))


def _concatenation(translation: Translation, operator: TfliteOperator) -> None:
    reads = [translation.name(number) for number in operator.reads]
    stem = translation.name(operator.writes[0])
    translation.finish(
        operator,
        translation.add(operator, "Concat", reads, f"{stem}_out", axis=option(operator, "Axis", 0)),
    )


def _split(translation: Translation, operator: TfliteOperator) -> None:
    """SPLIT reads the axis first, SPLIT_V sizes and the axis behind the value."""
    several = operator.kind == "SPLIT_V"
    value, axis = (operator.reads[0], operator.reads[2]) if several else (operator.reads[1], operator.reads[0])
    where = translation.whole_numbers(axis, "axis")[0]
    extent = translation.shape(value)[where]
    sizes = translation.whole_numbers(operator.reads[1], "sizes") if several else []
    if not operator.writes:
        raise ValueError("expected outputs, found none")
    sizes = sizes or [extent // len(operator.writes)] * len(operator.writes)
    rest = extent - sum(size for size in sizes if size >= 0)
    whole = [rest if size < 0 else size for size in sizes]
    parts = np.array(
        [size for size in whole if size], dtype=np.int64
    )  # old converters write a part of nothing, which nobody reads
    reads = (translation.name(value), translation.constant_of(operator, "sizes", parts))
    writes = tuple(translation.name(number) for number, size in zip(operator.writes, whole, strict=True) if size)
    translation.nodes.append(TrainedNode("Split", reads, writes, translation.place_of(operator), {"axis": where}))


def _unpack(translation: Translation, operator: TfliteOperator) -> None:
    given, axis = translation.name(operator.reads[0]), option(operator, "Axis", 0)
    for place, number in enumerate(operator.writes):
        chosen = translation.constant_of(operator, f"place{place}", np.array(place))
        translation.add(operator, "Gather", [given, chosen], translation.name(number), axis=axis)


def _pack(translation: Translation, operator: TfliteOperator) -> None:
    axis, stem = option(operator, "Axis", 0), translation.name(operator.writes[0])
    where = translation.constant_of(operator, "axis", np.array([axis]))
    parts = [
        translation.add(operator, "Unsqueeze", [translation.name(number), where], f"{stem}_part{place}")
        for place, number in enumerate(operator.reads)
    ]
    translation.add(operator, "Concat", parts, stem, axis=axis)


def _strided_slice(translation: Translation, operator: TfliteOperator) -> None:
    value = operator.reads[0]
    shape = translation.shape(value)
    begin, end, steps = (translation.whole_numbers(number, "spans") for number in operator.reads[1:4])
    if option(operator, "EllipsisMask", 0) or option(operator, "NewAxisMask", 0):
        raise ValueError("expected a span for every axis, found an ellipsis or a new axis")
    without, shrunk = option(operator, "BeginMask", 0), option(operator, "ShrinkAxisMask", 0)
    to_the_end, axes = option(operator, "EndMask", 0), range(len(begin))
    least, most = -(1 << 31) - 1, 1 << 31
    starts = [(0 if steps[a] > 0 else shape[a] - 1) if without >> a & 1 else begin[a] for a in axes]
    ends = []
    for axis in axes:
        if shrunk >> axis & 1:
            ends.append(starts[axis] + 1 if starts[axis] != -1 else shape[axis])
        elif to_the_end >> axis & 1:
            ends.append(most if steps[axis] > 0 else least)
        elif option(operator, "Offset", 0):
            ends.append(end[axis] + starts[axis] + (shape[axis] if starts[axis] < 0 else 0))
        else:
            ends.append(end[axis])
    parts = {"starts": starts, "ends": ends, "axes": list(axes), "steps": steps}
    reads = [translation.constant_of(operator, label, np.array(numbers)) for label, numbers in parts.items()]
    stem = translation.name(operator.writes[0])
    cut = translation.add(operator, "Slice", [translation.name(value), *reads], f"{stem}_span")
    gone = [axis for axis in axes if shrunk >> axis & 1]
    if gone:
        translation.add(operator, "Squeeze", [cut, translation.constant_of(operator, "gone", np.array(gone))], stem)
    else:
        translation.add(operator, "Identity", [cut], stem)


def _slice(translation: Translation, operator: TfliteOperator) -> None:
    value = operator.reads[0]
    begin, sizes = (translation.whole_numbers(number, "spans") for number in operator.reads[1:3])
    ends = [
        extent if size < 0 else b + size for b, size, extent in zip(begin, sizes, translation.shape(value), strict=True)
    ]
    reads = [translation.constant_of(operator, label, np.array(n)) for label, n in (("starts", begin), ("ends", ends))]
    translation.add(operator, "Slice", [translation.name(value), *reads], translation.name(operator.writes[0]))


def _reverse(translation: Translation, operator: TfliteOperator) -> None:
    """Some axes from their last place on."""
    value = operator.reads[0]
    axes = translation.whole_numbers(operator.reads[1], "axes")
    least = -(1 << 31) - 1
    parts = {"starts": [-1] * len(axes), "ends": [least] * len(axes), "axes": axes, "steps": [-1] * len(axes)}
    reads = [translation.constant_of(operator, label, np.array(numbers)) for label, numbers in parts.items()]
    translation.add(operator, "Slice", [translation.name(value), *reads], translation.name(operator.writes[0]))


def _gather(translation: Translation, operator: TfliteOperator) -> None:
    reads = [translation.name(number) for number in operator.reads[:2]]
    axis = option(operator, "Axis", 0)
    translation.add(operator, "Gather", reads, translation.name(operator.writes[0]), axis=axis)


REARRANGING: Mapping[str, Translator] = MappingProxyType(
    {
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
        "REVERSE_V2": _reverse,
    }
)
"""By the schema's names of operators."""
