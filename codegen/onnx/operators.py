"""ONNX operators, one converter each: what an operator means for a convolutional network, and what of it is refused.

A converter raises ValueError "expected X, found Y"; the importer adds file and node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.attributes import divisors, read_window
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ClipNode,
    ConvNode,
    HostOperator,
    MaxPoolNode,
    ReluNode,
    TensorShape,
    UnknownArray,
    Weights,
    Window,
    known,
)
from kilotune.codegen.onnx.imported import Imported, OnnxNode, OnnxValue, as_float, onnx_shape, spatial_operand
from kilotune.codegen.onnx.views import concat, pad, reshape, subsample, transpose


def _convolution(imported: Imported, call: OnnxNode) -> None:
    value, shape = spatial_operand(imported, call)
    weight = imported.weights(call.inputs[1], "weights")
    groups = int(call.attributes.get("group", 1))
    if len(weight.shape) != len(value.shape):
        raise ValueError(f"expected weights with {len(value.shape)} dimensions, found {len(weight.shape)}")
    outputs = weight.shape[0]
    if groups < 1 or outputs % groups or weight.shape[1] * groups != shape[0]:
        expected = f"weights for {shape[0]} channels in {groups} groups"
        raise ValueError(f"expected {expected}, found shape {list(weight.shape)}")
    if not math.prod(weight.shape):
        raise ValueError(f"expected weights, found none in shape {list(weight.shape)}")
    declared = tuple(call.attributes.get("kernel_shape", weight.shape[2:]))
    if declared != weight.shape[2:]:
        raise ValueError(f"expected weights of kernel {list(declared)}, found shape {list(weight.shape)}")
    window = read_window(call.attributes, weight.shape[2:], len(value.shape), shape)
    bias = _bias(imported, call, weight)
    if bias.shape != (outputs,):
        raise ValueError(f"expected a bias of {outputs} elements, found shape {list(bias.shape)}")
    result = (outputs, *window.output_size(shape[1], shape[2]))
    weight = _reshaped(weight, (outputs, weight.shape[1], *window.kernel))
    node = ConvNode((value.tensor,), call.output, weight, bias, window, groups)
    imported.emit(node, result, onnx_shape(value, result))


def _bias(imported: Imported, call: OnnxNode, weight: Weights) -> Weights:
    """The third operand; zeros without one, of unknown value as the weights are."""
    outputs = weight.shape[0]
    if len(call.inputs) > 2 and call.inputs[2]:
        return imported.weights(call.inputs[2], "bias")
    return UnknownArray((outputs,)) if isinstance(weight, UnknownArray) else np.zeros(outputs)


def _reshaped(weight: Weights, shape: tuple[int, ...]) -> Weights:
    return UnknownArray(shape) if isinstance(weight, UnknownArray) else weight.reshape(shape)


def _optional(imported: Imported, call: OnnxNode, index: int, what: str, otherwise: Array) -> Array:
    if len(call.inputs) <= index or not call.inputs[index]:
        return otherwise
    return imported.constant(call.inputs[index], what)


def _pool(imported: Imported, call: OnnxNode) -> None:
    value, shape = spatial_operand(imported, call)
    rank = len(value.shape)
    kernel = tuple(call.attributes.get("kernel_shape", ()))
    if len(kernel) != rank - 2:
        raise ValueError(f"expected a kernel with {rank - 2} dimensions, found {list(kernel)}")
    window = read_window(call.attributes, kernel, rank, shape)
    result = (shape[0], *window.output_size(shape[1], shape[2]))
    if divisors(window, shape, None).min() < 1:
        raise ValueError("expected windows that hold some of the image, found one of padding only")
    if call.operator == "MaxPool":
        imported.emit(MaxPoolNode((value.tensor,), call.output, window), result, onnx_shape(value, result))
        return
    counted = None
    if call.attributes.get("count_include_pad", 0):
        counted = read_window({**call.attributes, "ceil_mode": 0}, kernel, rank, shape).pads
    node = AveragePoolNode((value.tensor,), call.output, window, divisors(window, shape, counted))
    imported.emit(node, result, onnx_shape(value, result))


def _global_pool(imported: Imported, call: OnnxNode) -> None:
    value, shape = spatial_operand(imported, call)
    window = Window(kernel=(shape[1], shape[2]))
    result = (shape[0], 1, 1)
    if call.operator == "GlobalMaxPool":
        imported.emit(MaxPoolNode((value.tensor,), call.output, window), result, onnx_shape(value, result))
        return
    node = AveragePoolNode((value.tensor,), call.output, window, divisors(window, shape, None))
    imported.emit(node, result, onnx_shape(value, result))


def _relu(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0])
    imported.emit(
        ReluNode((value.tensor,), call.output), imported.shapes[value.tensor], value.shape, flattened=value.flattened
    )


def _clip(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0])
    low = _optional(imported, call, 1, "minimum", np.asarray(call.attributes.get("min", -math.inf)))
    high = _optional(imported, call, 2, "maximum", np.asarray(call.attributes.get("max", math.inf)))
    node = ClipNode((value.tensor,), call.output, float(low.reshape(-1)[0]), float(high.reshape(-1)[0]))
    if math.isnan(node.low) or math.isnan(node.high):
        raise ValueError("expected numbers as bounds, found NaN")
    imported.emit(node, imported.shapes[value.tensor], value.shape, flattened=value.flattened)


def _batch_normalization(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0])
    channels = imported.shapes[value.tensor][0]
    statistics = [imported.weights(name, "statistics") for name in call.inputs[1:5]]
    scale, variance = statistics[0], statistics[-1]
    if value.flattened or {p.shape for p in statistics} != {(channels,)}:
        raise ValueError(f"expected statistics of {channels} channels, found shapes {scale.shape} to {variance.shape}")
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


def _arithmetic(imported: Imported, call: OnnxNode) -> None:
    """Add, Sum, Sub, Mul, Div: two images may be added; all else needs a constant for each channel."""
    images = [name for name in call.inputs if name in imported.values]
    if len(images) == len(call.inputs) and call.operator in ("Add", "Sum"):
        _addition(imported, call)
        return
    if len(images) != 1 or len(call.inputs) != 2:
        raise ValueError(f"expected {call.operator} of an image and a constant, found {len(images)} images")
    if call.operator in ("Sub", "Div") and images[0] != call.inputs[0]:
        raise ValueError("expected the constant as the second operand, found it first")
    value = imported.value(images[0])
    constant = as_float(imported.constants[next(name for name in call.inputs if name != images[0])])
    operand = _per_channel(constant, value, imported.shapes[value.tensor])
    if call.operator == "Div" and not operand.all():
        raise ValueError("expected a divisor, found 0")
    one, zero = np.ones_like(operand), np.zeros_like(operand)
    scale, offset = {
        "Add": (one, operand),
        "Sum": (one, operand),
        "Sub": (one, -operand),
        "Mul": (operand, zero),
        "Div": (np.divide(one, operand, where=operand != 0, out=zero.copy()), zero),
    }[call.operator]
    node = AffineNode((value.tensor,), call.output, scale, offset)
    imported.emit(node, imported.shapes[value.tensor], value.shape, flattened=value.flattened)


def _per_channel(constant: Array, value: OnnxValue, shape: TensorShape) -> Array:
    rank = len(value.shape)
    aligned = constant.reshape((1,) * max(0, rank - constant.ndim) + constant.shape)
    channels = aligned.shape[1] if aligned.ndim > 1 else 1
    single = aligned.size == channels and channels in (1, shape[0])
    if aligned.ndim > rank or not single or (value.flattened and aligned.size != 1):
        raise ValueError(
            f"expected a number, or one for each of {shape[0]} channels, found shape {list(constant.shape)}"
        )
    return np.broadcast_to(aligned.reshape(-1), (shape[0],)).copy()


def _addition(imported: Imported, call: OnnxNode) -> None:
    values = [imported.value(name) for name in call.inputs]
    shapes = {(imported.shapes[v.tensor], v.flattened) for v in values}
    if len(shapes) != 1:
        raise ValueError(f"expected operands of one shape, found {' and '.join(str(list(v.shape)) for v in values)}")
    first = values[0]
    if len(values) == 1:
        imported.values[call.output] = first
        return
    node = AddNode(tuple(v.tensor for v in values), call.output)
    imported.emit(node, imported.shapes[first.tensor], first.shape, flattened=first.flattened)


def _matrix_product(imported: Imported, call: OnnxNode) -> None:
    """Gemm or MatMul: a convolution whose kernel is the whole image that was flattened."""
    value = imported.value(call.inputs[0])
    weight = imported.weights(call.inputs[1], "weights")
    attributes = call.attributes
    if len(value.shape) != 2 or len(weight.shape) != 2 or attributes.get("transA", 0):
        raise ValueError(f"expected a vector times a matrix, found {list(value.shape)} times {list(weight.shape)}")
    outputs, inputs = weight.shape if attributes.get("transB", 0) else weight.shape[::-1]
    channels, high, wide = imported.shapes[value.tensor]
    if inputs != channels * high * wide:
        raise ValueError(f"expected weights for {channels * high * wide} inputs, found shape {list(weight.shape)}")
    matrix, bias = _factors(imported, call, weight, outputs)
    kernel = _reshaped(matrix, (outputs, channels, high, wide))
    node = ConvNode((value.tensor,), call.output, kernel, bias, Window(kernel=(high, wide)))
    imported.emit(node, (outputs, 1, 1), (value.shape[0], outputs))


def _factors(imported: Imported, call: OnnxNode, weight: Weights, outputs: int) -> tuple[Weights, Weights]:
    """The matrix [outputs, inputs] and the bias [outputs] of a Gemm or MatMul, its own factors multiplied in."""
    if isinstance(weight, UnknownArray):
        return weight, UnknownArray((outputs,))
    attributes = call.attributes
    bias = as_float(_optional(imported, call, 2, "bias", np.zeros(1))).reshape(-1) * attributes.get("beta", 1.0)
    if bias.size not in (1, outputs):
        raise ValueError(f"expected a bias of {outputs} elements, found {bias.size}")
    matrix = weight if attributes.get("transB", 0) else weight.T
    return matrix * attributes.get("alpha", 1.0), np.broadcast_to(bias, (outputs,)).copy()


def _identity(imported: Imported, call: OnnxNode) -> None:
    imported.values[call.output] = imported.any_value(call.inputs[0])


def _dropout(imported: Imported, call: OnnxNode) -> None:
    if len(call.inputs) > 2 and call.inputs[2] and bool(imported.constant(call.inputs[2], "training_mode")):
        raise ValueError("expected dropout for inference, found training_mode")
    _identity(imported, call)


def _softmax(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0])
    default = 1 if call.opset < 13 else -1
    imported.host.append(HostOperator(call.operator, int(call.attributes.get("axis", default))))
    imported.values[call.output] = value


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
        "Gemm": _matrix_product,
        "MatMul": _matrix_product,
        "MaxPool": _pool,
        "AveragePool": _pool,
        "GlobalAveragePool": _global_pool,
        "GlobalMaxPool": _global_pool,
        "Pad": pad,
        "Relu": _relu,
        "Clip": _clip,
        "BatchNormalization": _batch_normalization,
        "Add": _arithmetic,
        "Sum": _arithmetic,
        "Sub": _arithmetic,
        "Mul": _arithmetic,
        "Div": _arithmetic,
        "Concat": concat,
        "Reshape": reshape,
        "Flatten": reshape,
        "Squeeze": reshape,
        "Unsqueeze": reshape,
        "Slice": subsample,
        "Transpose": transpose,
        "Identity": _identity,
        "Dropout": _dropout,
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
        "ArgMax": _arg_max,
    }
)
"""What the importer takes besides constants."""

SUPPORTED = tuple(sorted({*CONVERTERS, "Constant", "ConstantOfShape", "Cast"}))
