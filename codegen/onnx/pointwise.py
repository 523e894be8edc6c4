"""ONNX operators that work element by element: functions, limits, and arithmetic of images with constants and with images.

A converter raises ValueError "expected X, found Y"; the importer adds file and node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.counts import counted
from kilotune.codegen.onnx.functions import ATTRIBUTES, FUNCTIONS, OUR_OWN
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    ClipNode,
    ExpandNode,
    FunctionNode,
    PermuteNode,
    ProductNode,
    ReluNode,
    TensorShape,
)
from kilotune.codegen.onnx.imported import Imported, OnnxNode, OnnxValue, as_float


def _relu(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0], any_order=True)
    imported.emit_like(ReluNode((value.tensor,), call.output), value)


def _clip(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0], any_order=True)
    low = imported.optional(call, 1, "minimum", np.asarray(call.attributes.get("min", -math.inf)))
    high = imported.optional(call, 2, "maximum", np.asarray(call.attributes.get("max", math.inf)))
    _limit(imported, call, value, float(low.reshape(-1)[0]), float(high.reshape(-1)[0]))


def _limit(imported: Imported, call: OnnxNode, value: OnnxValue, low: float, high: float) -> None:
    if math.isnan(low) or math.isnan(high):
        raise ValueError("expected numbers as bounds, found NaN")
    if low == math.inf or high == -math.inf:
        raise ValueError(f"expected bounds with numbers between them, found {low:g} and {high:g}")
    imported.emit_like(ClipNode((value.tensor,), call.output, low, high), value)


def _extreme(imported: Imported, call: OnnxNode) -> None:
    """Min or Max of an image and numbers."""
    images = [name for name in call.inputs if name in imported.values]
    numbers = [imported.constants[name] for name in call.inputs if name not in imported.values]
    if len(images) != 1 or any(a.size != 1 for a in numbers):
        raise ValueError(f"expected {call.operator} of an image and numbers, found {counted(len(images), 'image')}")
    bounds = [float(a.reshape(-1)[0]) for a in numbers]
    low = max(bounds, default=-math.inf) if call.operator == "Max" else -math.inf
    high = min(bounds, default=math.inf) if call.operator == "Min" else math.inf
    _limit(imported, call, imported.value(images[0], any_order=True), low, high)


def _quantised(imported: Imported, call: OnnxNode) -> None:
    """QuantizeLinear: that values beyond the integers saturate belongs to the network (a Relu may be nothing else), that they are
    rounded does not: how they are is decided anew."""
    value = imported.value(call.inputs[0], any_order=True)
    scale = imported.constant(call.inputs[1], "scale")
    zero = imported.optional(call, 2, "zero point", np.zeros((), np.uint8))
    limits = np.iinfo(zero.dtype) if zero.dtype.kind in "iu" else None
    if scale.size != 1 or zero.size != 1 or limits is None:
        raise ValueError(f"expected one scale and one whole zero point, found shapes {scale.shape} and {zero.shape}")
    step, middle = float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])
    _limit(imported, call, value, (limits.min - middle) * step, (limits.max - middle) * step)


def _identity(imported: Imported, call: OnnxNode) -> None:
    imported.values[call.output] = imported.any_value(call.inputs[0])


def _dropout(imported: Imported, call: OnnxNode) -> None:
    if len(call.inputs) > 2 and call.inputs[2] and bool(imported.constant(call.inputs[2], "training_mode")):
        raise ValueError("expected dropout for inference, found training_mode")
    _identity(imported, call)


def _function(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0], any_order=True)
    if call.attributes.get("approximate", b"none") not in (b"none", "none"):
        raise ValueError(f"expected no approximation, found {call.attributes['approximate']!r}")
    defaults = ATTRIBUTES.get(call.operator, {})
    parameters = tuple(float(call.attributes.get(name, default)) for name, default in defaults.items())
    imported.emit_like(FunctionNode((value.tensor,), call.output, call.operator, parameters), value)


def _slopes(imported: Imported, call: OnnxNode) -> None:
    """PRelu: a slope for all channels, or for each; before opset 7 as a vector."""
    value = imported.value(call.inputs[0])
    slopes = as_float(imported.constant(call.inputs[1], "slopes"))
    shape = imported.shapes[value.tensor]
    vector = slopes.shape == (shape[0],) and (call.opset < 7 or shape[1:] == (1, 1))
    each = slopes if vector else _per_channel(slopes, value, shape)
    single = float(each[0]) if (each == each[0]).all() else each
    imported.emit_like(FunctionNode((value.tensor,), call.output, "PRelu", (single,)), value)


def _power(imported: Imported, call: OnnxNode) -> None:
    value = imported.value(call.inputs[0], any_order=True)
    exponent = as_float(imported.constant(call.inputs[1], "exponent"))
    if exponent.size != 1:
        raise ValueError(f"expected one exponent, found shape {list(exponent.shape)}")
    node = FunctionNode((value.tensor,), call.output, "Pow", (float(exponent.reshape(-1)[0]),))
    imported.emit_like(node, value)


def _arithmetic(imported: Imported, call: OnnxNode) -> None:
    """Add, Sum, Sub, Mul, Div: images may be added, subtracted and multiplied; all else needs a constant for each channel."""
    images = [name for name in call.inputs if name in imported.values]
    if len(images) == len(call.inputs) and call.operator in ("Add", "Sum", "Sub", "Mul"):
        _of_images(imported, call)
        return
    if len(images) != 1 or len(call.inputs) != 2:
        raise ValueError(f"expected {call.operator} of an image and a constant, found {counted(len(images), 'image')}")
    first = images[0] == call.inputs[0]
    if call.operator == "Div" and not first:
        raise ValueError("expected the constant as the second operand, found it first")
    value = imported.value(images[0], any_order=True)
    constant = as_float(imported.constants[next(name for name in call.inputs if name != images[0])])
    operand = _per_channel(constant, value, imported.shapes[value.tensor])
    if call.operator == "Div" and not operand.all():
        raise ValueError("expected a divisor, found 0")
    one, zero = np.ones_like(operand), np.zeros_like(operand)
    scale, offset = {
        "Add": (one, operand),
        "Sum": (one, operand),
        "Sub": (one, -operand) if first else (-one, operand),
        "Mul": (operand, zero),
        "Div": (np.divide(one, operand, where=operand != 0, out=zero.copy()), zero),
    }[call.operator]
    imported.emit_like(AffineNode((value.tensor,), call.output, scale, offset), value)


def _per_channel(constant: Array, value: OnnxValue, shape: TensorShape) -> Array:
    rank = len(value.shape)
    aligned = constant.reshape((1,) * max(0, rank - constant.ndim) + constant.shape)
    channels = aligned.shape[-1 if value.channels_last else 1] if aligned.ndim > 1 else 1
    single = aligned.size == channels and channels in (1, shape[0])
    if aligned.ndim > rank or not single or (value.flattened and aligned.size != 1):
        raise ValueError(
            f"expected a number, or one for each of {counted(shape[0], 'channel')}, found shape {list(constant.shape)}"
        )
    return np.broadcast_to(aligned.reshape(-1), (shape[0],)).copy()


def _of_images(imported: Imported, call: OnnxNode) -> None:
    """A sum, a difference or a product of images, of which some may be one pixel or one channel that goes for all."""
    values = [imported.value(name, any_order=True) for name in call.inputs]
    first = values[0]
    if len(values) == 1:
        imported.values[call.output] = first
        return
    layouts = {(v.flattened, v.channels_last, len(v.shape)) for v in values}
    target = _common_shape([imported.shapes[v.tensor] for v in values])
    if target is None or len(layouts) != 1 or (first.flattened and len({v.shape for v in values}) != 1):
        shown = " and ".join(str(list(v.shape)) for v in values)
        raise ValueError(f"expected operands of one shape, or of one pixel or one channel, found {shown}")
    operands = tuple(_expanded(imported, v.tensor, target, f"{call.output}/{i}", call) for i, v in enumerate(values))
    whole = max(values, key=lambda v: math.prod(v.shape))
    like = OnnxValue(whole.tensor, np.broadcast_shapes(*(v.shape for v in values)), whole.flattened)
    if call.operator != "Mul":
        node: AddNode | ProductNode = AddNode(operands, call.output, subtracts=call.operator == "Sub")
    else:
        node = ProductNode(operands, call.output)
    imported.emit(node, target, like.shape, like.flattened)
    imported.values[call.output] = OnnxValue(call.output, like.shape, like.flattened, channels_last=first.channels_last)


def _common_shape(shapes: Sequence[TensorShape]) -> TensorShape | None:
    """What all of them are expanded to; None where one is neither that, nor one channel or one pixel of it."""
    channels, high, wide = (max(sizes) for sizes in zip(*shapes, strict=True))
    fitting = all(s[0] in (1, channels) and s[1:] in ((1, 1), (high, wide)) for s in shapes)
    return (channels, high, wide) if fitting else None


def _expanded(imported: Imported, tensor: str, target: TensorShape, stem: str, call: OnnxNode) -> str:
    """The tensor as views make it of the shape `target`."""
    channels, *size = imported.shapes[tensor]
    if channels != target[0]:
        name = f"{stem}/channels"
        imported.emit_part(PermuteNode((tensor,), name, (0,) * target[0]), (target[0], size[0], size[1]), call.output)
        tensor = name
    if tuple(size) != target[1:]:
        name = f"{stem}/pixels"
        imported.emit_part(ExpandNode((tensor,), name, target[1:]), target, call.output)
        tensor = name
    return tensor


POINTWISE: Mapping[str, Callable[[Imported, OnnxNode], None]] = MappingProxyType(
    {
        **dict.fromkeys((name for name in FUNCTIONS if name not in OUR_OWN), _function),
        "PRelu": _slopes,
        "Pow": _power,
        "Relu": _relu,
        "Clip": _clip,
        "Min": _extreme,
        "Max": _extreme,
        "QuantizeLinear": _quantised,
        "DequantizeLinear": _identity,
        "Identity": _identity,
        "Cast": _identity,
        "Dropout": _dropout,
        "Add": _arithmetic,
        "Sum": _arithmetic,
        "Sub": _arithmetic,
        "Mul": _arithmetic,
        "Div": _arithmetic,
    }
)
"""The converters, by operator."""
