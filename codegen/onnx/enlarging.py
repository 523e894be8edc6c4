"""ONNX operators that make images larger by whole factors: windows of an image whose pixels are spread apart.

A converter raises ValueError "expected X, found Y"; the importer adds file and node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kilotune.codegen.counts import counted
from kilotune.codegen.onnx.attributes import divisors
from kilotune.codegen.onnx.graph import (
    AveragePoolNode,
    ConvNode,
    MaxPoolNode,
    TensorShape,
    UnknownArray,
    Weights,
    Window,
)
from kilotune.codegen.onnx.imported import Imported, OnnxNode, OnnxValue, bias_of, onnx_shape, spatial_operand

Pair = tuple[int, int]


def transposed_convolution(imported: Imported, call: OnnxNode) -> None:
    """ConvTranspose: a convolution of the spread image with the kernel turned round."""
    value, shape = spatial_operand(imported, call)
    spatial = len(value.shape) - 2
    weight, groups = imported.weights(call.inputs[1], "weights"), int(call.attributes.get("group", 1))
    if len(weight.shape) != spatial + 2 or weight.shape[0] != shape[0] or groups < 1 or shape[0] % groups:
        raise ValueError(
            f"expected weights for {counted(shape[0], 'channel')} in {counted(groups, 'group')}, found shape {list(weight.shape)}"
        )
    kernel = _pair(weight.shape[2:], 1)
    stride = _pair(call.attributes.get("strides", [1] * spatial), 1)
    dilation = _pair(call.attributes.get("dilations", [1] * spatial), 1)
    pads = _transposed_pads(call.attributes, spatial, shape[1:], kernel, stride, dilation)
    if min(*stride, *dilation, *pads) < 0 or min(*stride, *dilation, *kernel) < 1:
        found = f"kernel {kernel}, strides {stride}, dilations {dilation}"
        raise ValueError(
            f"expected strides, and padding less than the kernel's reach, found {found} and {pads} left over"
        )
    window = Window(kernel, (1, 1), pads, dilation, stride)
    outputs = weight.shape[1] * groups
    bias = bias_of(imported, call, outputs)
    result = (outputs, *window.output_size(shape[1], shape[2]))
    if min(result) < 1:
        raise ValueError(f"expected an image, found a result of {'x'.join(map(str, result))}")
    node = ConvNode((value.tensor,), call.output, turned(weight, groups, kernel), bias, window, groups)
    imported.emit(node, result, onnx_shape(value, result))


def turned(weight: Weights, groups: int, kernel: Pair) -> Weights:
    """Weights [channels, outputs / groups, rows, columns] of a transposed convolution as those of the convolution that it is,
    [outputs, channels / groups, rows, columns], or the other way round."""
    first, second = weight.shape[:2]
    if isinstance(weight, UnknownArray):
        return UnknownArray((second * groups, first // groups, *kernel))
    grouped = weight.reshape(groups, first // groups, second, *kernel)[..., ::-1, ::-1]
    return np.ascontiguousarray(grouped.swapaxes(1, 2).reshape(second * groups, first // groups, *kernel))


def _transposed_pads(
    attributes: Mapping[str, Any], spatial: int, size: Sequence[int], kernel: Pair, stride: Pair, dilation: Pair
) -> tuple[int, int, int, int]:
    """Padding of the spread image: what the kernel reaches beyond it, less what is cut off the result."""
    mode = attributes.get("auto_pad", b"NOTSET")
    mode = mode.decode() if isinstance(mode, bytes) else str(mode)
    extra = _pair(attributes.get("output_padding", [0] * spatial), 0)
    asked = attributes.get("output_shape")
    given = [int(p) for p in attributes.get("pads", [0] * (2 * spatial))]
    if mode not in ("NOTSET", "VALID") or asked is not None:
        raise ValueError(f"expected explicit pads and no output_shape, found auto_pad {mode} and output_shape {asked}")
    if len(given) != 2 * spatial:
        raise ValueError(f"expected {2 * spatial} pads, found {given}")
    before, after = _pair(given[:spatial], 0), _pair(given[spatial:], 0)
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    top, left = (r - b for r, b in zip(reach, before, strict=True))
    bottom, right = (r - a + e for r, a, e in zip(reach, after, extra, strict=True))
    return top, left, bottom, right


def _pair(values: Sequence[int], missing: int) -> Pair:
    """Values of height and width; `missing` for the height of a sequence."""
    first, *second = (int(v) for v in values)
    return (first, second[0]) if second else (missing, first)


def enlargement(imported: Imported, call: OnnxNode) -> None:
    """Resize or Upsample by whole factors: to the nearest pixel, each is the only one in the reach of a window; between pixels, linearly,
    means of these are."""
    value, shape = spatial_operand(imported, call)
    factors = _factors(imported, call, value)
    mode = _text(call.attributes.get("mode", "nearest"))
    if mode in ("linear", "bilinear"):
        _interpolation(imported, call, value, factors)
        return
    if mode != "nearest":
        raise ValueError(f"expected mode nearest or linear, found {mode}")
    if not _is_plain(call, factors):
        found = [_text(call.attributes.get(k, d)) for k, d in ROUNDING_DEFAULTS]
        raise ValueError(f"expected every pixel repeated alike, found {' with '.join(found)}")
    if factors == (1, 1):
        imported.values[call.output] = value
        return
    window, result = _repeated(shape, factors)
    imported.emit(MaxPoolNode((value.tensor,), call.output, window), result, onnx_shape(value, result))


def _repeated(shape: TensorShape, factors: Pair) -> tuple[Window, TensorShape]:
    """The window that repeats every pixel, and the shape of what it makes of an image of `shape`."""
    window = Window(factors, (1, 1), (factors[0] - 1, factors[1] - 1) * 2, (1, 1), factors)
    return window, (shape[0], shape[1] * factors[0], shape[2] * factors[1])


def _interpolation(imported: Imported, call: OnnxNode, value: OnnxValue, factors: Pair) -> None:
    """A linear function between pixels is the mean of the repeated pixels in a window as large as the factors, of as many as lie in the
    image: beyond its border that is the nearest pixel, as the standard has it. Where a factor is even, the middle of a pixel lies
    between two such windows, and their mean is taken."""
    modern = call.operator == "Resize" and call.opset >= 11
    place = _text(call.attributes.get("coordinate_transformation_mode", "half_pixel")) if modern else "asymmetric"
    centred = place in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
    if not centred and place != "asymmetric":
        raise ValueError(f"expected half_pixel or asymmetric where pixels are interpolated, found {place}")
    if len(value.shape) != 4:
        raise ValueError(f"expected an image where pixels are interpolated, found shape {list(value.shape)}")
    if factors == (1, 1):
        imported.values[call.output] = value
        return
    nearest, between = f"{call.output}/nearest", f"{call.output}/between"
    window, shape = _repeated(imported.shapes[value.tensor], factors)
    imported.emit_part(MaxPoolNode((value.tensor,), nearest, window), shape, call.output)
    before = tuple(f // 2 if centred else 0 for f in factors)
    after = tuple((f // 2 if centred else f - 1) for f in factors)
    window = Window(factors, (1, 1), (before[0], before[1], after[0], after[1]))
    halves = (2 - factors[0] % 2, 2 - factors[1] % 2) if centred else (1, 1)
    source = nearest
    if halves != (1, 1):
        result = (shape[0], *window.output_size(shape[1], shape[2]))
        means = AveragePoolNode((nearest,), between, window, divisors(window, shape, None))
        imported.emit_part(means, result, call.output)
        source, shape, window = between, result, Window(halves)
    result = (shape[0], *window.output_size(shape[1], shape[2]))
    node = AveragePoolNode((source,), call.output, window, divisors(window, shape, None))
    imported.emit(node, result, onnx_shape(value, result))


ROUNDING_DEFAULTS = (("coordinate_transformation_mode", "half_pixel"), ("nearest_mode", "round_prefer_floor"))


def _is_plain(call: OnnxNode, factors: Pair) -> bool:
    """Whether pixel i of the result is pixel floor(i / factor)."""
    if call.operator == "Upsample" or call.opset < 11:
        return True
    place, rounding = (_text(call.attributes.get(k, d)) for k, d in ROUNDING_DEFAULTS)
    if place in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        return rounding.startswith("round")
    return (place, rounding) in (("asymmetric", "floor"), ("tf_half_pixel_for_nn", "floor")) or factors == (1, 1)


def _factors(imported: Imported, call: OnnxNode, value: OnnxValue) -> Pair:
    """By which height and width grow."""
    rank = len(value.shape)
    if "scales" in call.attributes:
        scales = [float(s) for s in call.attributes["scales"]]
    else:
        modern = call.operator == "Resize" and call.opset >= 11
        none = np.zeros(0)
        given = imported.optional(call, 2 if modern else 1, "scales", none).reshape(-1)
        sizes = imported.optional(call, 3, "sizes", none).reshape(-1) if modern else none
        axes = [int(a) % rank for a in call.attributes.get("axes", range(rank))]
        scales = [1.0] * rank
        for i, axis in enumerate(axes):
            scales[axis] = float(given[i]) if given.size else float(sizes[i]) / value.shape[axis]
    if len(scales) != rank or any(s != 1 for s in scales[:2]) or any(s < 1 or s != math.floor(s) for s in scales):
        raise ValueError(f"expected whole factors for height and width, found {[round(s, 4) for s in scales]}")
    return _pair([int(s) for s in scales[2:]], 1)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
