"""ONNX operators that only rearrange: what they become of a tensor's name, its views and its borders.

A converter raises ValueError "expected X, found Y"; the importer adds file and node.
"""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen.counts import counted
from kilotune.codegen.onnx.graph import ChannelPadNode, ConcatNode, PadNode, PermuteNode, SubsampleNode, Window
from kilotune.codegen.onnx.imported import (
    Imported,
    OnnxNode,
    OnnxValue,
    canonical_shape,
    onnx_shape,
    spatial_operand,
    whole_numbers,
)

TO_FRONT, TO_BACK = [0, 3, 1, 2], [0, 2, 3, 1]
"""How Transpose brings channels to the front, and behind height and width."""

ANY_ORDER = ("Identity", "Cast", "Add", "Sub", "Mul", "Div", "Clip", "Relu")
"""Operators for which channels may be first or last."""


def concat(imported: Imported, call: OnnxNode) -> None:
    values = [imported.value(name) for name in call.inputs]
    axis, rank = int(call.attributes["axis"]), len(values[0].shape)
    if axis % rank != 1:
        raise ValueError(f"expected concatenation of channels (axis 1), found axis {axis}")
    shapes = [imported.shapes[v.tensor] for v in values]
    if any(v.flattened for v in values) or len({s[1:] for s in shapes}) != 1:
        raise ValueError(f"expected images of one size, found {' and '.join(str(list(v.shape)) for v in values)}")
    result = (sum(s[0] for s in shapes), *shapes[0][1:])
    node = ConcatNode(tuple(v.tensor for v in values), call.output)
    imported.emit(node, result, onnx_shape(values[0], result))


def reshape(imported: Imported, call: OnnxNode) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: views that keep the image, flatten it, or group its channels."""
    value = imported.any_value(call.inputs[0])
    target = _target_shape(imported, call, value)
    held = imported.shapes[value.tensor]
    if math.prod(target) != math.prod(value.shape) or not target or target[0] != value.shape[0]:
        raise ValueError(f"expected a shape that keeps the batch, found {list(value.shape)} to {list(target)}")
    if value.channels_last and held[1:] != (1, 1):
        imported.values[call.output] = _flattened_last(value, target)
    elif value.grouped:
        _shuffle(imported, call, value, target)
    elif len(target) == 4 and held[1:] == (1, 1) and target[1:] == (1, 1, held[0]) and held[0] > 1:
        imported.values[call.output] = OnnxValue(value.tensor, target, channels_last=True)
    elif target[1:] == held or (2 <= len(target) <= 4 and canonical_shape(target) == held):
        imported.values[call.output] = OnnxValue(value.tensor, target)
    elif not imported.nodes and len(value.shape) == 2 and held[1:] == (1, 1) and 2 < len(target) <= 4:
        imported.shapes[value.tensor] = canonical_shape(target)  # an image that comes as a vector
        imported.values[call.inputs[0]] = OnnxValue(value.tensor, value.shape, flattened=True)
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


def _flattened_last(value: OnnxValue, target: tuple[int, ...]) -> OnnxValue:
    """An image with its channels last, as a vector."""
    if len(target) != 2:
        raise ValueError(f"expected channels before height and width, found them last in shape {list(value.shape)}")
    return OnnxValue(value.tensor, target, flattened=True, channels_last=True)


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
        axes = whole_numbers(imported, call, 1) if len(call.inputs) > 1 else list(call.attributes.get("axes", ()))
        if call.operator == "Unsqueeze":
            return tuple(np.expand_dims(np.empty(shape, dtype=bool), tuple(axes)).shape)
        kept = {a % len(shape) for a in axes} if axes else {i for i, d in enumerate(shape) if d == 1 and i > 0}
        return tuple(d for i, d in enumerate(shape) if i not in kept)
    given = call.attributes.get("shape")
    sizes = list(given) if given is not None else whole_numbers(imported, call, 1)
    sizes = [shape[i] if d == 0 and not call.attributes.get("allowzero", 0) else int(d) for i, d in enumerate(sizes)]
    if sizes.count(-1) == 1:
        rest = math.prod(d for d in sizes if d != -1)
        sizes[sizes.index(-1)] = math.prod(shape) // max(rest, 1)
    return tuple(sizes)


def transpose(imported: Imported, call: OnnxNode) -> None:
    """Inside a channel shuffle, or of an image whose channels go last or come back."""
    value = imported.any_value(call.inputs[0])
    perm = list(call.attributes.get("perm", range(len(value.shape))[::-1]))
    if len(perm) != len(value.shape):
        raise ValueError(f"expected a perm of {len(value.shape)} axes, found {perm}")
    shape = tuple(value.shape[i] for i in perm)
    if not value.grouped and not value.flattened and perm == (TO_FRONT if value.channels_last else TO_BACK):
        imported.values[call.output] = OnnxValue(value.tensor, shape, channels_last=not value.channels_last)
        return
    if not value.grouped or perm[:3] != [0, 2, 1] or perm[3:] != list(range(3, len(value.shape))):
        raise ValueError(
            f"expected a transposition inside a channel shuffle, or of channels behind the image or back, found perm {perm}"
        )
    imported.values[call.output] = OnnxValue(value.tensor, shape, False, value.grouped, not value.transposed)


def pad(imported: Imported, call: OnnxNode) -> None:
    value, shape = spatial_operand(imported, call)
    mode = call.attributes.get("mode", b"constant")
    if mode not in (b"constant", "constant"):
        raise ValueError(f"expected mode constant, found {mode.decode() if isinstance(mode, bytes) else mode}")
    rank = len(value.shape)
    pads = list(call.attributes["pads"]) if "pads" in call.attributes else whole_numbers(imported, call, 1)
    fill = float(call.attributes.get("value", 0.0))
    if len(call.inputs) > 2 and call.inputs[2]:
        fill = float(imported.constant(call.inputs[2], "value").reshape(-1)[0])
    if len(call.inputs) > 3 and call.inputs[3]:
        axes = [a % rank for a in whole_numbers(imported, call, 3)]
        full = [0] * (2 * rank)
        for i, axis in enumerate(axes):
            full[axis], full[rank + axis] = pads[i], pads[len(axes) + i]
        pads = full
    if len(pads) == 2 * rank and (pads[1] or pads[rank + 1]):
        _pad_channels(imported, call, pads, fill)
        return
    if len(pads) != 2 * rank or min(pads) < 0 or pads[0] or pads[rank]:
        raise ValueError(f"expected padding of height and width by 0 or more, found pads {pads}")
    before, after = pads[2:rank], pads[rank + 2 :]
    if rank == 3:
        before, after = [0, *before], [0, *after]
    window = Window(pads=(before[0], before[1], after[0], after[1]))
    result = (shape[0], *window.output_size(shape[1], shape[2]))
    imported.emit(PadNode((value.tensor,), call.output, window, fill), result, onnx_shape(value, result))


def _pad_channels(imported: Imported, call: OnnxNode, pads: list[int], fill: float) -> None:
    """Channels of zeros, as a shortcut to more channels has them that takes no weights."""
    value = imported.value(call.inputs[0])
    rank, shape = len(value.shape), imported.shapes[value.tensor]
    before, after = pads[1], pads[rank + 1]
    others = [pads[i] for i in range(2 * rank) if i % rank != 1]
    if fill or min(before, after) < 0 or any(others):
        raise ValueError(
            f"expected padding of height and width, or of channels by zeros, found pads {pads} of {fill:g}"
        )
    result = (shape[0] + before + after, *shape[1:])
    node = ChannelPadNode((value.tensor,), call.output, before, after)
    imported.emit(node, result, onnx_shape(value, result))


def cut(imported: Imported, call: OnnxNode) -> None:
    """Slice: consecutive channels, or every nth one; every nth row and column of an image, from one of the first n on."""
    value, shape = spatial_operand(imported, call, (2, 3, 4))
    rank, attributes = len(value.shape), call.attributes

    def numbers(index: int, name: str, otherwise: list[int]) -> list[int]:
        given = len(call.inputs) > index and bool(call.inputs[index])
        return whole_numbers(imported, call, index) if given else list(attributes.get(name, otherwise))

    starts, ends = numbers(1, "starts", []), numbers(2, "ends", [])
    axes = [axis % rank for axis in numbers(3, "axes", list(range(len(starts))))]
    steps = numbers(4, "steps", [1] * len(starts))
    slices = {a: slice(*part) for a, *part in zip(axes, starts, ends, steps, strict=True)}
    kept = {a: range(value.shape[a])[cut] for a, cut in slices.items()}
    whole = all(
        0 <= r.start < r.step and len(r) == -(-(value.shape[a] - r.start) // r.step) for a, r in kept.items() if a > 1
    )
    if not whole or any(r.step < 1 for r in kept.values()) or len(kept.get(0, [0])) != 1 or not kept.get(1, [0]):
        found = f"starts {starts}, ends {ends}, steps {steps} of axes {axes}"
        raise ValueError(
            f"expected channels, or every nth row and column from one of the first n to the last, found {found}"
        )
    order = tuple(kept.get(1, range(shape[0])))
    strides = [kept[a].step if a in kept else 1 for a in (2, rank - 1)] if rank > 2 else [1, 1]
    stride = (1 if rank == 3 else strides[0], strides[1])
    first = [kept[a].start if a in kept else 0 for a in (2, rank - 1)] if rank > 2 else [0, 0]
    offset = (0 if rank == 3 else first[0], first[1])
    if stride == (1, 1):
        _select(imported, call.output, value, order)
        return
    source = value.tensor
    if order != tuple(range(shape[0])):
        source = f"{call.output}/channels"
        imported.emit_part(PermuteNode((value.tensor,), source, order), (len(order), *shape[1:]), call.output)
    high, wide = (-(-(size - least) // step) for size, least, step in zip(shape[1:], offset, stride, strict=True))
    result = (len(order), high, wide)
    imported.emit(SubsampleNode((source,), call.output, stride, offset), result, onnx_shape(value, result))


def _select(imported: Imported, name: str, value: OnnxValue, order: tuple[int, ...]) -> None:
    """A view of some channels."""
    result = (len(order), *imported.shapes[value.tensor][1:])
    imported.emit(PermuteNode((value.tensor,), name, order), result, onnx_shape(value, result))


def split(imported: Imported, call: OnnxNode) -> None:
    """Channels one after the other, to several outputs."""
    value, shape = spatial_operand(imported, call, (2, 3, 4))
    axis, parts = int(call.attributes.get("axis", 0)) % len(value.shape), len(call.outputs)
    if axis != 1:
        raise ValueError(f"expected a split of channels (axis 1), found axis {axis}")
    given = len(call.inputs) > 1 and call.inputs[1]
    size = -(-shape[0] // parts)
    equal = [min(size, shape[0] - k * size) for k in range(parts)]
    sizes = whole_numbers(imported, call, 1) if given else [int(n) for n in call.attributes.get("split", equal)]
    if len(sizes) != parts or sum(sizes) != shape[0] or min(sizes) < 1:
        raise ValueError(f"expected {counted(parts, 'part')} of {counted(shape[0], 'channel')}, found {sizes}")
    start = 0
    for name, count in zip(call.outputs, sizes, strict=True):
        _select(imported, name, value, tuple(range(start, start + count)))
        start += count


def gather(imported: Imported, call: OnnxNode) -> None:
    """Some channels, in any order."""
    value, shape = spatial_operand(imported, call, (2, 3, 4))
    indices, axis = imported.constant(call.inputs[1], "indices"), int(call.attributes.get("axis", 0))
    if axis % len(value.shape) != 1 or indices.ndim != 1 or not ((-shape[0] <= indices) & (indices < shape[0])).all():
        raise ValueError(
            f"expected a list of some of {counted(shape[0], 'channel')}, found {indices.tolist()} of axis {axis}"
        )
    _select(imported, call.output, value, tuple((indices % shape[0]).tolist()))


def shape_of(imported: Imported, call: OnnxNode) -> None:
    """The shape of a value is known: one image a batch."""
    shape = imported.any_value(call.inputs[0]).shape
    part = slice(call.attributes.get("start", 0), call.attributes.get("end"))
    imported.constants[call.output] = np.asarray(shape[part], np.int64)
