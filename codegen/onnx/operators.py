"""ONNX operators, one converter each: what an operator means for a convolutional network, and what of it is refused.

A converter raises ValueError "expected X, found Y"; the importer adds file and node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from kilotune.codegen.onnx.attributes import divisors, read_window
from kilotune.codegen.onnx.constants import Array
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ClipNode,
    ConcatNode,
    ConvNode,
    HostOperator,
    MaxPoolNode,
    PadNode,
    PermuteNode,
    ReluNode,
    Shape,
    Window,
)
from kilotune.codegen.onnx.imported import Imported, OnnxNode, OnnxValue, as_float, canonical_shape


def _spatial(imported: Imported, call: OnnxNode, ranks: Sequence[int] = (3, 4)) -> tuple[OnnxValue, Shape]:
    value = imported.value(call.inputs[0])
    if value.flattened or len(value.shape) not in ranks:
        raise ValueError(f"expected an image or a sequence, found shape {list(value.shape)}")
    return value, imported.shapes[value.tensor]


def _onnx_shape(value: OnnxValue, shape: Shape) -> tuple[int, ...]:
    rank = len(value.shape)
    return (value.shape[0], shape[0], *((shape[2],) if rank == 3 else shape[1:]))[:rank]


def _convolution(imported: Imported, call: OnnxNode) -> None:
    value, shape = _spatial(imported, call)
    weight = as_float(imported.constant(call.inputs[1], "weights"))
    groups = int(call.attributes.get("group", 1))
    if weight.ndim != len(value.shape):
        raise ValueError(f"expected weights with {len(value.shape)} dimensions, found {weight.ndim}")
    outputs = weight.shape[0]
    if groups < 1 or outputs % groups or weight.shape[1] * groups != shape[0]:
        expected = f"weights for {shape[0]} channels in {groups} groups"
        raise ValueError(f"expected {expected}, found shape {list(weight.shape)}")
    if not weight.size:
        raise ValueError(f"expected weights, found none in shape {list(weight.shape)}")
    declared = tuple(call.attributes.get("kernel_shape", weight.shape[2:]))
    if declared != weight.shape[2:]:
        raise ValueError(f"expected weights of kernel {list(declared)}, found shape {list(weight.shape)}")
    window = read_window(call.attributes, weight.shape[2:], len(value.shape), shape)
    bias = _optional(imported, call, 2, "bias", np.zeros(outputs))
    if bias.shape != (outputs,):
        raise ValueError(f"expected a bias of {outputs} elements, found shape {list(bias.shape)}")
    result = (outputs, *window.output_size(shape[1], shape[2]))
    weight = weight.reshape(outputs, weight.shape[1], *window.kernel)
    node = ConvNode((value.tensor,), call.output, weight, as_float(bias), window, groups)
    imported.emit(node, result, _onnx_shape(value, result))


def _optional(imported: Imported, call: OnnxNode, index: int, what: str, otherwise: Array) -> Array:
    if len(call.inputs) <= index or not call.inputs[index]:
        return otherwise
    return imported.constant(call.inputs[index], what)


def _pool(imported: Imported, call: OnnxNode) -> None:
    value, shape = _spatial(imported, call)
    rank = len(value.shape)
    kernel = tuple(call.attributes.get("kernel_shape", ()))
    if len(kernel) != rank - 2:
        raise ValueError(f"expected a kernel with {rank - 2} dimensions, found {list(kernel)}")
    window = read_window(call.attributes, kernel, rank, shape)
    result = (shape[0], *window.output_size(shape[1], shape[2]))
    if divisors(window, shape, None).min() < 1:
        raise ValueError("expected windows that hold some of the image, found one of padding only")
    if call.operator == "MaxPool":
        imported.emit(MaxPoolNode((value.tensor,), call.output, window), result, _onnx_shape(value, result))
        return
    counted = None
    if call.attributes.get("count_include_pad", 0):
        counted = read_window({**call.attributes, "ceil_mode": 0}, kernel, rank, shape).pads
    node = AveragePoolNode((value.tensor,), call.output, window, divisors(window, shape, counted))
    imported.emit(node, result, _onnx_shape(value, result))


def _global_pool(imported: Imported, call: OnnxNode) -> None:
    value, shape = _spatial(imported, call)
    window = Window(kernel=(shape[1], shape[2]))
    result = (shape[0], 1, 1)
    if call.operator == "GlobalMaxPool":
        imported.emit(MaxPoolNode((value.tensor,), call.output, window), result, _onnx_shape(value, result))
        return
    node = AveragePoolNode((value.tensor,), call.output, window, divisors(window, shape, None))
    imported.emit(node, result, _onnx_shape(value, result))


def _pad(imported: Imported, call: OnnxNode) -> None:
    value, shape = _spatial(imported, call)
    mode = call.attributes.get("mode", b"constant")
    if mode not in (b"constant", "constant"):
        raise ValueError(f"expected mode constant, found {mode.decode() if isinstance(mode, bytes) else mode}")
    rank = len(value.shape)
    pads = list(call.attributes["pads"]) if "pads" in call.attributes else _constant_list(imported, call, 1)
    fill = float(call.attributes.get("value", 0.0))
    if len(call.inputs) > 2 and call.inputs[2]:
        fill = float(imported.constant(call.inputs[2], "value").reshape(-1)[0])
    if len(call.inputs) > 3 and call.inputs[3]:
        axes = [a % rank for a in _constant_list(imported, call, 3)]
        full = [0] * (2 * rank)
        for i, axis in enumerate(axes):
            full[axis], full[rank + axis] = pads[i], pads[len(axes) + i]
        pads = full
    if len(pads) != 2 * rank or min(pads) < 0 or any(pads[i] for i in (0, 1, rank, rank + 1)):
        raise ValueError(f"expected padding of height and width by 0 or more, found pads {pads}")
    before, after = pads[2:rank], pads[rank + 2 :]
    if rank == 3:
        before, after = [0, *before], [0, *after]
    window = Window(pads=(before[0], before[1], after[0], after[1]))
    result = (shape[0], *window.output_size(shape[1], shape[2]))
    imported.emit(PadNode((value.tensor,), call.output, window, fill), result, _onnx_shape(value, result))


def _constant_list(imported: Imported, call: OnnxNode, index: int) -> list[int]:
    return [int(x) for x in imported.constant(call.inputs[index], "operand").reshape(-1)]


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
    scale, offset, mean, variance = (as_float(imported.constant(name, "statistics")) for name in call.inputs[1:5])
    if value.flattened or {p.shape for p in (scale, offset, mean, variance)} != {(channels,)}:
        raise ValueError(f"expected statistics of {channels} channels, found shapes {scale.shape} to {variance.shape}")
    if call.attributes.get("training_mode", 0):
        raise ValueError("expected batch normalisation for inference, found training_mode")
    with np.errstate(all="ignore"):  # what becomes of it is looked at
        factor = as_float(scale / np.sqrt(variance + float(call.attributes.get("epsilon", 1e-5))))
    node = AffineNode((value.tensor,), call.output, factor, as_float(offset - mean * factor))
    imported.emit(node, imported.shapes[value.tensor], value.shape)


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


def _per_channel(constant: Array, value: OnnxValue, shape: Shape) -> Array:
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


def _concat(imported: Imported, call: OnnxNode) -> None:
    values = [imported.value(name) for name in call.inputs]
    axis, rank = int(call.attributes["axis"]), len(values[0].shape)
    if axis % rank != 1:
        raise ValueError(f"expected concatenation of channels (axis 1), found axis {axis}")
    shapes = [imported.shapes[v.tensor] for v in values]
    if any(v.flattened for v in values) or len({s[1:] for s in shapes}) != 1:
        raise ValueError(f"expected images of one size, found {' and '.join(str(list(v.shape)) for v in values)}")
    result = (sum(s[0] for s in shapes), *shapes[0][1:])
    node = ConcatNode(tuple(v.tensor for v in values), call.output)
    imported.emit(node, result, _onnx_shape(values[0], result))


def _matrix_product(imported: Imported, call: OnnxNode) -> None:
    """Gemm or MatMul: a convolution whose kernel is the whole image that was flattened."""
    value = imported.value(call.inputs[0])
    weight = as_float(imported.constant(call.inputs[1], "weights"))
    attributes = call.attributes
    if len(value.shape) != 2 or weight.ndim != 2 or attributes.get("transA", 0):
        raise ValueError(f"expected a vector times a matrix, found {list(value.shape)} times {list(weight.shape)}")
    matrix = weight if attributes.get("transB", 0) else weight.T
    channels, high, wide = imported.shapes[value.tensor]
    if matrix.shape[1] != channels * high * wide:
        raise ValueError(f"expected weights for {channels * high * wide} inputs, found shape {list(weight.shape)}")
    bias = as_float(_optional(imported, call, 2, "bias", np.zeros(1))).reshape(-1) * attributes.get("beta", 1.0)
    matrix = matrix * attributes.get("alpha", 1.0)
    outputs = matrix.shape[0]
    if bias.size not in (1, outputs):
        raise ValueError(f"expected a bias of {outputs} elements, found {bias.size}")
    full = np.broadcast_to(bias, (outputs,)).copy()
    kernel = matrix.reshape(outputs, channels, high, wide)
    node = ConvNode((value.tensor,), call.output, kernel, full, Window(kernel=(high, wide)))
    imported.emit(node, (outputs, 1, 1), (value.shape[0], outputs))


def _reshape(imported: Imported, call: OnnxNode) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: views that keep the image, flatten it, or group its channels."""
    value = imported.any_value(call.inputs[0])
    target = _target_shape(imported, call, value)
    held = imported.shapes[value.tensor]
    if math.prod(target) != math.prod(value.shape) or not target or target[0] != value.shape[0]:
        raise ValueError(f"expected a shape that keeps the batch, found {list(value.shape)} to {list(target)}")
    if value.grouped:
        _shuffle(imported, call, value, target)
    elif target[1:] == held or (2 <= len(target) <= 4 and canonical_shape(target) == held):
        imported.values[call.output] = OnnxValue(value.tensor, target)
    elif target[1] == held[0] and 1 in held[1:] and sorted(target[2:], reverse=True)[:1] == [max(held[1:])]:
        imported.values[call.output] = _turned(imported, value, target)
    elif len(target) == 2 or all(d == 1 for d in target[2:]):
        imported.values[call.output] = OnnxValue(value.tensor, target, flattened=True)
    elif len(target) == len(value.shape) + 1 and target[3:] == value.shape[2:] and target[1] * target[2] == held[0]:
        imported.values[call.output] = OnnxValue(value.tensor, target, grouped=target[1])
    else:
        raise ValueError(
            "expected a reshape that flattens an image, drops sizes of 1 or groups channels, "
            f"found {list(value.shape)} to {list(target)}"
        )


def _turned(imported: Imported, value: OnnxValue, target: tuple[int, ...]) -> OnnxValue:
    """A sequence as an image of width 1 or back. The image itself is turned if nothing has read it yet."""
    fresh = not imported.nodes and value.tensor in imported.shapes and len(target) == 4
    if fresh:
        imported.shapes[value.tensor] = canonical_shape(target)
    return OnnxValue(value.tensor, target, flattened=not fresh)


def _shuffle(imported: Imported, call: OnnxNode, value: OnnxValue, target: tuple[int, ...]) -> None:
    shape = imported.shapes[value.tensor]
    if not 2 <= len(target) <= 4 or canonical_shape(target) != shape:
        raise ValueError(f"expected the image of a channel shuffle, found shape {list(target)}")
    if not value.transposed:
        imported.values[call.output] = OnnxValue(value.tensor, target)
        return
    order = np.arange(shape[0]).reshape(value.grouped, -1).T.reshape(-1)
    imported.emit(PermuteNode((value.tensor,), call.output, tuple(order.tolist())), shape, target)


def _target_shape(imported: Imported, call: OnnxNode, value: OnnxValue) -> tuple[int, ...]:
    shape = value.shape
    if call.operator == "Flatten":
        axis = int(call.attributes.get("axis", 1))
        if axis % len(shape) != 1:
            raise ValueError(f"expected axis 1, found axis {axis}")
        return shape[0], math.prod(shape[1:])
    if call.operator in ("Squeeze", "Unsqueeze"):
        axes = _constant_list(imported, call, 1) if len(call.inputs) > 1 else list(call.attributes.get("axes", ()))
        if call.operator == "Unsqueeze":
            return tuple(np.expand_dims(np.empty(shape, dtype=bool), tuple(axes)).shape)
        kept = {a % len(shape) for a in axes} if axes else {i for i, d in enumerate(shape) if d == 1 and i > 0}
        return tuple(d for i, d in enumerate(shape) if i not in kept)
    given = call.attributes.get("shape")
    sizes = list(given) if given is not None else _constant_list(imported, call, 1)
    sizes = [shape[i] if d == 0 and not call.attributes.get("allowzero", 0) else int(d) for i, d in enumerate(sizes)]
    if sizes.count(-1) == 1:
        rest = math.prod(d for d in sizes if d != -1)
        sizes[sizes.index(-1)] = math.prod(shape) // max(rest, 1)
    return tuple(sizes)


def _transpose(imported: Imported, call: OnnxNode) -> None:
    value = imported.any_value(call.inputs[0])
    perm = list(call.attributes.get("perm", range(len(value.shape))[::-1]))
    if not value.grouped or perm[:3] != [0, 2, 1] or perm[3:] != list(range(3, len(value.shape))):
        raise ValueError(f"expected a transposition inside a channel shuffle, found perm {perm}")
    shape = tuple(value.shape[i] for i in perm)
    imported.values[call.output] = OnnxValue(value.tensor, shape, False, value.grouped, not value.transposed)


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
        "Pad": _pad,
        "Relu": _relu,
        "Clip": _clip,
        "BatchNormalization": _batch_normalization,
        "Add": _arithmetic,
        "Sum": _arithmetic,
        "Sub": _arithmetic,
        "Mul": _arithmetic,
        "Div": _arithmetic,
        "Concat": _concat,
        "Reshape": _reshape,
        "Flatten": _reshape,
        "Squeeze": _reshape,
        "Unsqueeze": _reshape,
        "Transpose": _transpose,
        "Identity": _identity,
        "Dropout": _dropout,
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
        "ArgMax": _arg_max,
    }
)
"""What the importer takes besides constants."""

SUPPORTED = tuple(sorted({*CONVERTERS, "Constant", "ConstantOfShape", "Cast"}))
