"""ONNX operators, one converter each: what an operator means for a convolutional network, and what of it is refused.

A converter raises ValueError "expected X, found Y"; the importer adds file and node.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from kilotune.codegen.counts import counted
from kilotune.codegen.onnx.attributes import check_begins_at_first, divisors, read_window
from kilotune.codegen.onnx.constants import FOLDED
from kilotune.codegen.onnx.enlarging import enlargement, transposed_convolution
from kilotune.codegen.onnx.graph import (
    ArgMaxNode,
    AveragePoolNode,
    ConvNode,
    HostOperator,
    MaxPoolNode,
    TensorShape,
    UnknownArray,
    Weights,
    Window,
)
from kilotune.codegen.onnx.imported import (
    Imported,
    OnnxNode,
    as_float,
    bias_of,
    canonical_shape,
    onnx_shape,
    spatial_operand,
    whole_numbers,
)
from kilotune.codegen.onnx.normalising import batch_normalization, local_response_normalization
from kilotune.codegen.onnx.pointwise import POINTWISE
from kilotune.codegen.onnx.views import concat, cut, gather, pad, reshape, shape_of, split, transpose

DILATED_SINCE: Mapping[str, int] = MappingProxyType({"MaxPool": 10, "AveragePool": 19})
"""The version of ONNX from which a pooling has dilations."""


def _convolution(imported: Imported, call: OnnxNode) -> None:
    value, shape = spatial_operand(imported, call)
    weight = imported.weights(call.inputs[1], "weights")
    groups = int(call.attributes.get("group", 1))
    if len(weight.shape) != len(value.shape):
        raise ValueError(f"expected weights with {counted(len(value.shape), 'dimension')}, found {len(weight.shape)}")
    outputs = weight.shape[0]
    if groups < 1 or outputs % groups or weight.shape[1] * groups != shape[0]:
        expected = f"weights for {counted(shape[0], 'channel')} in {counted(groups, 'group')}"
        raise ValueError(f"expected {expected}, found shape {list(weight.shape)}")
    if not math.prod(weight.shape):
        raise ValueError(f"expected weights, found none in shape {list(weight.shape)}")
    declared = tuple(call.attributes.get("kernel_shape", weight.shape[2:]))
    if declared != weight.shape[2:]:
        raise ValueError(f"expected weights of kernel {list(declared)}, found shape {list(weight.shape)}")
    window = read_window(call.attributes, weight.shape[2:], len(value.shape), shape)
    check_begins_at_first(call.attributes, window, shape, 2)
    bias = bias_of(imported, call, outputs)
    result = (outputs, *window.output_size(shape[1], shape[2]))
    weight = _reshaped(weight, (outputs, weight.shape[1], *window.kernel))
    node = ConvNode((value.tensor,), call.output, weight, bias, window, groups)
    imported.emit(node, result, onnx_shape(value, result))


def _reshaped(weight: Weights, shape: tuple[int, ...]) -> Weights:
    return UnknownArray(shape) if isinstance(weight, UnknownArray) else weight.reshape(shape)


def _channels_first(weight: Weights, shape: tuple[int, int, int, int]) -> Weights:
    """Weights of `shape` with their channels, which are last, behind the outputs."""
    reshaped = _reshaped(weight, shape)
    if isinstance(reshaped, UnknownArray):
        return UnknownArray((shape[0], shape[3], *shape[1:3]))
    return np.moveaxis(reshaped, 3, 1)


def _pool(imported: Imported, call: OnnxNode) -> None:
    value, shape = spatial_operand(imported, call)
    rank = len(value.shape)
    kernel = tuple(call.attributes.get("kernel_shape", ()))
    if len(kernel) != rank - 2:
        raise ValueError(f"expected a kernel with {counted(rank - 2, 'dimension')}, found {list(kernel)}")
    window = read_window(call.attributes, kernel, rank, shape)
    _check_taken_alike(call, window, shape)
    result = (shape[0], *window.output_size(shape[1], shape[2]))
    if divisors(window, shape, None).min() < 1:
        raise ValueError("expected windows that hold some of the image, found one of padding only")
    if call.operator == "MaxPool":
        imported.emit(MaxPoolNode((value.tensor,), call.output, window), result, onnx_shape(value, result))
        return
    included = None
    if call.attributes.get("count_include_pad", 0):
        included = read_window({**call.attributes, "ceil_mode": 0}, kernel, rank, shape).pads
    node = AveragePoolNode((value.tensor,), call.output, window, divisors(window, shape, included))
    imported.emit(node, result, onnx_shape(value, result))


def _check_taken_alike(call: OnnxNode, window: Window, shape: TensorShape) -> None:
    """ValueError for a pooling that onnxruntime takes otherwise than the standard, or that the file's version of ONNX does not have."""
    if max(window.dilation) > 1:
        if call.opset < DILATED_SINCE[call.operator]:
            since = f"version {DILATED_SINCE[call.operator]} of ONNX or later for dilations {list(window.dilation)}"
            raise ValueError(f"expected {since}, found {call.opset}")
        if call.attributes.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
            raise ValueError(f"expected pads beside dilations {list(window.dilation)}, found auto_pad")
    check_begins_at_first(call.attributes, window, shape, 1)


def _global_pool(imported: Imported, call: OnnxNode) -> None:
    value, shape = spatial_operand(imported, call)
    window = Window(kernel=(shape[1], shape[2]))
    result = (shape[0], 1, 1)
    if call.operator == "GlobalMaxPool":
        imported.emit(MaxPoolNode((value.tensor,), call.output, window), result, onnx_shape(value, result))
        return
    node = AveragePoolNode((value.tensor,), call.output, window, divisors(window, shape, None))
    imported.emit(node, result, onnx_shape(value, result))


def _reduction(imported: Imported, call: OnnxNode) -> None:
    """ReduceMean or ReduceMax over height, width or both: a pooling."""
    value, shape = spatial_operand(imported, call)
    rank = len(value.shape)
    given = len(call.inputs) > 1 and call.inputs[1]
    named = whole_numbers(imported, call, 1) if given else call.attributes.get("axes", range(rank))
    axes = {int(a) % rank for a in named}
    if not axes or min(axes) < 2:
        raise ValueError(f"expected a reduction over height and width, found axes {sorted(axes)}")
    kernel = (shape[1] if rank == 4 and 2 in axes else 1, shape[2] if rank - 1 in axes else 1)
    window = Window(kernel, stride=kernel)
    result = (shape[0], shape[1] // kernel[0], shape[2] // kernel[1])
    keep = call.attributes.get("keepdims", 1)
    kept = tuple(1 if i in axes else d for i, d in enumerate(value.shape) if keep or i not in axes)
    if canonical_shape(kept) != result:
        raise ValueError(f"expected a reduction to an image, a sequence or a vector of channels, found {list(kept)}")
    if call.operator == "ReduceMax":
        imported.emit(MaxPoolNode((value.tensor,), call.output, window), result, kept)
        return
    node = AveragePoolNode((value.tensor,), call.output, window, divisors(window, shape, None))
    imported.emit(node, result, kept)


def _matrix_product(imported: Imported, call: OnnxNode) -> None:
    """Gemm or MatMul: a convolution whose kernel is the whole image that was flattened."""
    value = imported.value(call.inputs[0], any_order=True)
    weight = imported.weights(call.inputs[1], "weights")
    attributes = call.attributes
    if len(value.shape) != 2 or len(weight.shape) != 2 or attributes.get("transA", 0):
        raise ValueError(f"expected a vector times a matrix, found {list(value.shape)} times {list(weight.shape)}")
    outputs, inputs = weight.shape if attributes.get("transB", 0) else weight.shape[::-1]
    channels, high, wide = imported.shapes[value.tensor]
    if inputs != channels * high * wide:
        raise ValueError(
            f"expected weights for {counted(channels * high * wide, 'input')}, found shape {list(weight.shape)}"
        )
    matrix, bias = _factors(imported, call, weight, outputs)
    if value.channels_last and (high, wide) != (1, 1):
        imported.last_matrices.add(call.output)
        kernel = _channels_first(matrix, (outputs, high, wide, channels))
    else:
        kernel = _reshaped(matrix, (outputs, channels, high, wide))
    node = ConvNode((value.tensor,), call.output, kernel, bias, Window(kernel=(high, wide)))
    imported.emit(node, (outputs, 1, 1), (value.shape[0], outputs))


def _factors(imported: Imported, call: OnnxNode, weight: Weights, outputs: int) -> tuple[Weights, Weights]:
    """The matrix [outputs, inputs] and the bias [outputs] of a Gemm or MatMul, its own factors multiplied in."""
    if isinstance(weight, UnknownArray):
        return weight, UnknownArray((outputs,))
    attributes = call.attributes
    bias = as_float(imported.optional(call, 2, "bias", np.zeros(1))).reshape(-1) * attributes.get("beta", 1.0)
    if bias.size not in (1, outputs):
        raise ValueError(f"expected a bias of {counted(outputs, 'element')}, found {bias.size}")
    matrix = weight if attributes.get("transB", 0) else weight.T
    return matrix * attributes.get("alpha", 1.0), np.broadcast_to(bias, (outputs,)).copy()


def _softmax(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0], any_order=True)
    default = 1 if call.opset < 13 else -1
    operator = HostOperator(call.operator, int(call.attributes.get("axis", default)), call.inputs[0])
    imported.values[call.output] = dataclasses.replace(value, host=(operator,))


def _arg_max(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0])
    rank, shape = len(value.shape), imported.shapes[value.tensor]
    if int(call.attributes.get("axis", 0)) % rank != 1 or value.flattened:
        raise ValueError(f"expected the largest channel (axis 1), found axis {call.attributes.get('axis', 0)}")
    if call.attributes.get("select_last_index", 0):
        raise ValueError("expected the first of equal values, found select_last_index")
    keep = call.attributes.get("keepdims", 1)
    onnx_shape = (value.shape[0], *((1,) if keep else ()), *value.shape[2:])
    imported.emit(ArgMaxNode((value.tensor,), call.output), (1, *shape[1:]), onnx_shape)


CONVERTERS: Mapping[str, Callable[[Imported, OnnxNode], None]] = MappingProxyType(
    {
        "Conv": _convolution,
        "ConvTranspose": transposed_convolution,
        "Gemm": _matrix_product,
        "MatMul": _matrix_product,
        "MaxPool": _pool,
        "AveragePool": _pool,
        "GlobalAveragePool": _global_pool,
        "GlobalMaxPool": _global_pool,
        "ReduceMean": _reduction,
        "ReduceMax": _reduction,
        "Resize": enlargement,
        "Upsample": enlargement,
        "Pad": pad,
        "BatchNormalization": batch_normalization,
        "LRN": local_response_normalization,
        **POINTWISE,
        "Concat": concat,
        "Reshape": reshape,
        "Flatten": reshape,
        "Squeeze": reshape,
        "Unsqueeze": reshape,
        "Slice": cut,
        "Split": split,
        "Gather": gather,
        "Shape": shape_of,
        "Transpose": transpose,
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
        "ArgMax": _arg_max,
    }
)
"""What the importer takes besides constants."""

SUPPORTED = tuple(sorted({*CONVERTERS, *FOLDED}))
