"""Constants of an ONNX graph: initialisers in every encoding, and the operators that make constants of constants."""

from __future__ import annotations

import os.path
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.graph import check_size


def decode(tensor: Any, folder: str) -> Array:
    """The elements of a TensorProto: raw_data, the typed fields, or a file beside the model (`folder`).

    float16 and bfloat16 become float32. ValueError "expected X, found Y" for truncated data, strings and complex numbers.
    """
    from onnx import TensorProto, numpy_helper

    kind = TensorProto.DataType.Name(tensor.data_type)
    if kind in ("STRING", "COMPLEX64", "COMPLEX128", "UNDEFINED"):
        raise ValueError(f"expected real numbers, found {kind.lower()}")
    if any(extent < 0 for extent in tensor.dims):
        raise ValueError(f"expected extents from 0, found {'x'.join(map(str, tensor.dims))}")
    check_size(tensor.dims)  # before anything is read or reserved
    try:
        with warnings.catch_warnings(action="ignore"):  # of keys that onnx does not know, in lines of its own source
            array = np.asarray(numpy_helper.to_array(tensor, base_dir=folder))
        array = array.astype(np.float32) if array.dtype.kind not in "fiub" or array.dtype == np.float16 else array
    except Exception as error:  # onnx raises whatever its own checks and NumPy raise
        size = "x".join(str(d) for d in tensor.dims) or "one"
        external = tensor.data_location == TensorProto.EXTERNAL
        found = "data of another size"
        if external:
            reason = str(error).partition("\n")[0]
            place = next((str(entry.value) for entry in tensor.external_data if entry.key == "location"), "")
            reason = (
                reason
                if os.path.isfile(os.path.join(folder, place))
                else f"there is no file {place!r} beside the model"
            )
            found = f"an external file without them ({reason})"
        raise ValueError(f"expected {size} elements of type {kind.lower()}, found {found}") from None
    return array


def _axes(attributes: Mapping[str, Any], operands: Sequence[Array]) -> tuple[int, ...]:
    given = operands[1].tolist() if len(operands) > 1 else attributes.get("axes", ())
    return tuple(int(axis) for axis in given)


def _constant(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if name in attributes:
            values = np.asarray(attributes[name])
            if values.dtype.kind == "O":
                raise ValueError(f"expected a numeric value, found {type(attributes[name]).__name__}")
            return values
    raise ValueError("expected a numeric value, found none")


def _filled(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    value = np.asarray(attributes.get("value", np.zeros(1, np.float32))).reshape(-1)[0]
    shape = [int(d) for d in operands[0]]
    check_size(shape)
    return np.broadcast_to(value, shape)  # a view: filled weights of a large network cost nothing


def _unsqueeze(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    return np.expand_dims(operands[0], _axes(attributes, operands))


def _squeeze(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    return np.squeeze(operands[0], _axes(attributes, operands) or None)


def _transpose(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    return np.transpose(operands[0], attributes.get("perm"))


def _reshape(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    target = [operands[0].shape[i] if d == 0 else int(d) for i, d in enumerate(operands[1])]
    return operands[0].reshape(target)


def _cast(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    from onnx import helper

    return operands[0].astype(helper.tensor_dtype_to_np_dtype(attributes["to"]))


def _gather(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    return np.take(operands[0], operands[1], int(attributes.get("axis", 0)))


def _slice(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    given = [a.tolist() for a in operands[1:]]
    starts, ends = given[:2] if given else (list(attributes["starts"]), list(attributes["ends"]))
    axes = given[2] if len(given) > 2 else list(attributes.get("axes", range(len(starts))))
    steps = given[3] if len(given) > 3 else [1] * len(starts)
    where = [slice(None)] * operands[0].ndim
    for axis, *part in zip(axes, starts, ends, steps, strict=True):
        where[axis] = slice(*part)
    return np.asarray(operands[0][tuple(where)])


def _divided(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    first, second = operands
    if first.dtype.kind not in "iu":
        return np.asarray(first / second)
    if not second.all():
        raise ValueError("expected a divisor, found 0")
    quotient = np.sign(first) * np.sign(second) * (np.abs(first) // np.abs(second))
    return np.asarray(quotient, first.dtype)


def _of_blocks(given: Array, block: int, axis: int, shape: tuple[int, ...]) -> Array:
    """Each number for a block of elements, as an array of `shape`. ValueError for numbers of another shape."""
    if not -len(shape) <= axis < len(shape) or block < 1 or given.ndim != len(shape):
        raise ValueError(f"expected scales for blocks of {'x'.join(map(str, shape))}, found shape {list(given.shape)}")
    axis, extent = axis % len(shape), shape[axis]
    if given.shape != (*shape[:axis], -(-extent // block), *shape[axis + 1 :]):
        raise ValueError(f"expected a scale for each {block} elements of axis {axis}, found shape {list(given.shape)}")
    return np.take(given, np.arange(extent) // block, axis)


def _dequantised(attributes: Mapping[str, Any], operands: Sequence[Array]) -> Array:
    integers, scale = operands[0].astype(np.int64), operands[1]
    zero = operands[2].astype(np.int64) if len(operands) > 2 else np.zeros_like(scale, np.int64)
    block = int(attributes.get("block_size", 0))
    if block:  # each scale is that of so many elements along the axis
        scale, zero = (_of_blocks(a, block, int(attributes.get("axis", 1)), integers.shape) for a in (scale, zero))
        return np.asarray((integers - zero) * scale, np.float32)
    tail = (1,) * (integers.ndim - 1 - int(attributes.get("axis", 1)) % max(1, integers.ndim)) if scale.size > 1 else ()
    scale, zero = (np.reshape(a, (-1, *tail)) if a.size > 1 else a.reshape(()) for a in (scale, zero))
    return np.asarray((integers - zero) * scale, np.float32)


FOLDED: Mapping[str, Callable[[Mapping[str, Any], Sequence[Array]], Array]] = MappingProxyType(
    {
        "Constant": _constant,
        "ConstantOfShape": _filled,
        "Identity": lambda _, operands: operands[0],
        "Unsqueeze": _unsqueeze,
        "Squeeze": _squeeze,
        "Transpose": _transpose,
        "Reshape": _reshape,
        "Cast": _cast,
        "Shape": lambda attributes, operands: np.asarray(
            operands[0].shape[slice(attributes.get("start"), attributes.get("end"))], np.int64
        ),
        "Gather": _gather,
        "Slice": _slice,
        "Concat": lambda attributes, operands: np.concatenate(operands, int(attributes["axis"])),
        "Add": lambda _, operands: np.asarray(operands[0] + operands[1]),
        "Sub": lambda _, operands: np.asarray(operands[0] - operands[1]),
        "Mul": lambda _, operands: np.asarray(operands[0] * operands[1]),
        "Div": _divided,
        "Floor": lambda _, operands: np.floor(operands[0]),
        "Ceil": lambda _, operands: np.ceil(operands[0]),
        "DequantizeLinear": _dequantised,
    }
)
"""Operators computed at import when all their inputs are constants."""
