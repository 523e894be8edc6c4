"""From a TensorFlow Lite file to a `TrainedGraph`: its operators in ONNX's vocabulary, quantised numbers as real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.layers import ROUNDED
from kilotune.codegen.onnx.obstacles import error_at
from kilotune.codegen.tflite.model_file import TfliteOperator, TfliteTensor, read_model, read_subgraphs
from kilotune.codegen.trained.model import KeptState, TrainedGraph, TrainedNode, check_features
from kilotune.codegen.trained.tflite_arithmetic import ARITHMETIC
from kilotune.codegen.trained.tflite_grids import ends_of_features, grids_of_ends
from kilotune.codegen.trained.tflite_loops import while_loop
from kilotune.codegen.trained.tflite_quantised import QUANTISED
from kilotune.codegen.trained.tflite_rearranging import REARRANGING
from kilotune.codegen.trained.tflite_recurrent import RECURRENT_OPERATORS
from kilotune.codegen.trained.tflite_translation import Translation, Translator
from kilotune.codegen.trained.tflite_variables import VARIABLES

ELEMENT_TYPES = MappingProxyType(
    {
        "FLOAT32": np.float32, "FLOAT16": np.float16, "FLOAT64": np.float64, "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16,
        "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    }
)  # fmt: skip
"""What constants are made of, by the schema's names."""


def read_tflite(path: Path, *, keep_quantisation: bool = False, rounding: bool = False) -> TrainedGraph:
    """The model of a TensorFlow Lite file, with `keep_quantisation` of its own integers, with `rounding` of real numbers with a
    QuantizeLinear behind every sum of products, sum and product whose results are integers. InputError, one sentence, for a file that is
    none, and for inputs and outputs other than one."""
    subgraphs = (read_model(path),) if keep_quantisation else read_subgraphs(path)
    model = subgraphs[0]
    if len(model.inputs) != 1 or not model.outputs:
        found = f"{len(model.inputs)} and {len(model.outputs)}"
        raise InputError(str(path), subject="inputs and outputs", expected="one and one", found=found)
    constants = _integers if keep_quantisation else _values
    translation = Translation(model, subgraphs)
    _add_constants(translation, constants)
    for operator in model.operators:
        _translate(translation, operator, QUANTISED if keep_quantisation else TRANSLATORS)
        if rounding:
            _round_result(translation, operator)
    given = model.tensors[model.inputs[0]]
    try:
        check_features(given.shape)
    except ValueError as error:
        raise error_at(str(path), f"input {given.name!r}", error) from None
    return TrainedGraph(
        str(path),
        tuple(translation.nodes),
        translation.constants,
        translation.name(given.number),
        given.shape or (1,),
        tuple(translation.name(number) for number in model.outputs),
        (),
        *(grids_of_ends(model) if keep_quantisation else (None, None)),
        kept=_kept_states(translation),
        feature_ends=None if keep_quantisation else ends_of_features(model),
        rounded=any(tensor.data is not None and tensor.quantisation is not None for tensor in model.tensors),
    )


def _kept_states(translation: Translation) -> tuple[KeptState, ...]:
    """The variables that are read and assigned; one that is only read is its first value. InputError, before the shape of samples is asked
    for, where what they are is not known."""
    for node in translation.nodes:
        if node.kind in VARIABLES and node.refusal:
            raise error_at(translation.model.path, node.place, ValueError(node.refusal))
    for state in translation.kept.values():
        if state.before and not state.behind:
            translation.constants[state.before] = translation.constants[state.first]
    return tuple(state for state in translation.kept.values() if state.before and state.behind)


def _add_constants(translation: Translation, values: Callable[[TfliteTensor, str], Array]) -> None:
    for tensor in translation.model.tensors:
        if tensor.data is not None:
            translation.constants[translation.name(tensor.number)] = values(tensor, translation.model.path)


def _while(translation: Translation, operator: TfliteOperator) -> None:
    """A loop over the places of a sequence, whose body is translated as the model is."""

    def body_of(number: int, within: str) -> Translation:
        body = Translation(translation.subgraphs[number], translation.subgraphs, within)
        _add_constants(body, _values)
        return body

    while_loop(translation, operator, body_of, lambda body, one: _translate(body, one, TRANSLATORS))


def _integers(tensor: TfliteTensor, path: str) -> Array:
    """The elements of a constant as they are stored."""
    place = f"tensor {tensor.number} {tensor.name!r}"
    kind = ELEMENT_TYPES.get(tensor.element_type)
    if kind is None:
        raise InputError(path, place=place, expected="numbers of 8 to 64 bits", found=tensor.element_type)
    assert tensor.data is not None
    wanted = int(np.prod(tensor.shape, dtype=np.int64)) * np.dtype(kind).itemsize
    if tensor.data.size != wanted:
        raise InputError(path, place=place, expected=f"{wanted} bytes", found=str(tensor.data.size))
    return np.frombuffer(tensor.data.tobytes(), dtype=np.dtype(kind).newbyteorder("<")).reshape(tensor.shape)


def _values(tensor: TfliteTensor, path: str) -> Array:
    """The elements of a constant, quantised ones as real numbers."""
    integers, quantised = _integers(tensor, path), tensor.quantisation
    place = f"tensor {tensor.number} {tensor.name!r}"
    if quantised is None or integers.dtype.kind == "f":
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


def _translate(translation: Translation, operator: TfliteOperator, translators: Mapping[str, Translator]) -> None:
    """Append the nodes of an operator. One that cannot be translated becomes a node with its refusal."""
    before = len(translation.nodes)
    translator = translators.get(operator.kind)
    if translator is None:
        known = ", ".join(sorted(translators))
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


def _round_result(translation: Translation, operator: TfliteOperator) -> None:
    """Behind an operator that may exceed the integers of its result, what makes these of real numbers."""
    if operator.kind not in ARITHMETIC or operator.kind == "DEQUANTIZE" or not operator.writes:
        return
    if operator.kind == "QUANTIZE" and translation.model.tensors[operator.reads[0]].quantisation is None:
        return  # the features' own, whose ends are known
    tensor, node = translation.model.tensors[operator.writes[0]], translation.nodes[-1]
    quantised, kind = tensor.quantisation, ELEMENT_TYPES.get(tensor.element_type)
    name = translation.name(tensor.number)
    if (
        quantised is None
        or quantised.scales.size != 1
        or kind not in (np.int8, np.uint8, np.int16)
        or node.output != name
    ):
        return
    exact = f"{name}/exact"
    scale = translation.constant_of(operator, "scale", quantised.scales.reshape(()))
    zero = translation.constant_of(operator, "zero", quantised.zero_points.reshape(()).astype(kind))
    translation.nodes[-1] = replace(node, outputs=(exact, *node.outputs[1:]))
    place = node.place + ROUNDED
    translation.nodes.append(TrainedNode("QuantizeLinear", (exact, scale, zero), (name,), place))


def _refuse(translation: Translation, operator: TfliteOperator, why: str) -> None:
    reads = tuple(translation.name(number) if number >= 0 else "" for number in operator.reads)
    writes = tuple(translation.name(number) for number in operator.writes) or ("nothing",)
    place = translation.place_of(operator)
    translation.nodes.append(TrainedNode(operator.kind, reads, writes, place, refusal=why))


TRANSLATORS: Mapping[str, Translator] = MappingProxyType(
    {**ARITHMETIC, **REARRANGING, **RECURRENT_OPERATORS, **VARIABLES, "WHILE": _while}
)
