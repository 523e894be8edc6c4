"""ONNX attributes of windows, brought to two spatial dimensions: kernel, stride, padding, dilation, ceil_mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.onnx.graph import TensorShape, Window

WIDEST = 1 << 16
"""The largest kernel, stride, dilation or padding: no image is so large, and pixels of a window are counted one by one."""


def read_window(attributes: Mapping[str, Any], kernel: tuple[int, ...], rank: int, shape: TensorShape) -> Window:
    """The window of a Conv or a pooling over a tensor of `shape`, whose ONNX rank is `rank` (3: no vertical dimension).

    ValueError, a phrase "expected X, found Y", for attributes that do not fit together.
    """
    spatial = rank - 2
    stride = _pair(attributes, "strides", spatial)
    dilation = _pair(attributes, "dilations", spatial)
    size = _extend(kernel, 1)
    pads = _explicit_pads(attributes, spatial)
    if min((*stride, *dilation, *size)) < 1:
        raise ValueError(f"expected positive kernel, strides and dilations, found {size}, {stride}, {dilation}")
    if max((*stride, *dilation, *size, *pads)) > WIDEST:
        widest = max((*stride, *dilation, *size, *pads))
        raise ValueError(f"expected kernel, strides, dilations and pads of at most {WIDEST}, found {widest}")
    mode = _mode(attributes)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(mode, shape, size, stride, dilation)
    elif mode == "VALID":
        pads = (0, 0, 0, 0)
    elif mode != "NOTSET":
        raise ValueError(f"expected auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER, found {mode}")
    window = Window(size, stride, pads, dilation)
    if attributes.get("ceil_mode", 0):
        window = _with_ceiling(window, shape)
    if min(window.output_size(shape[1], shape[2])) < 1:
        raise ValueError(f"expected a kernel within the padded input {shape[1]}x{shape[2]}, found {size[0]}x{size[1]}")
    return window


def check_begins_at_first(attributes: Mapping[str, Any], window: Window, shape: TensorShape, most: int) -> None:
    """ValueError where windows with auto_pad SAME_UPPER or SAME_LOWER leave out more than `most` elements of an image of `shape`:
    onnxruntime takes that for negative padding, of which half is at the beginning (and 1, or 2 of a Conv, is none)."""
    mode = _mode(attributes)
    for size, kernel, stride, tap in zip(shape[1:], window.kernel, window.stride, window.dilation, strict=True):
        if mode.startswith("SAME") and size - tap * (kernel - 1) - 1 - (-(-size // stride) - 1) * stride > most:
            found = f"{mode} with a kernel of {kernel} and a stride of {stride}"
            raise ValueError(f"expected pads where windows skip so much of the image, found {found}")


def divisors(window: Window, shape: TensorShape, pads: tuple[int, int, int, int] | None) -> NDArray[np.int64]:
    """What each output pixel of an average is divided by: valid elements, and those in `pads` where these count."""
    high, wide = window.output_size(shape[1], shape[2])
    top, left, bottom, right = pads or (0, 0, 0, 0)
    rows = _counted(high, 0, window, -top, shape[1] + bottom)
    columns = _counted(wide, 1, window, -left, shape[2] + right)
    return np.outer(rows, columns)


def _counted(size: int, axis: int, window: Window, lower: int, upper: int) -> NDArray[np.int64]:
    first = np.arange(size) * window.stride[axis] - window.pads[axis]
    taps = first[:, None] + np.arange(window.kernel[axis])[None, :] * window.dilation[axis]
    counted: NDArray[np.int64] = ((taps >= lower) & (taps < upper)).sum(axis=1).astype(np.int64)
    return counted


def _extend(values: tuple[int, ...], missing: int) -> tuple[int, int]:
    if len(values) == 1:
        return missing, int(values[0])
    if len(values) != 2:
        raise ValueError(f"expected one or two spatial dimensions, found {len(values)}")
    return int(values[0]), int(values[1])


def _pair(attributes: Mapping[str, Any], name: str, spatial: int) -> tuple[int, int]:
    return _extend(tuple(attributes.get(name, [1] * spatial)), 1)


def _explicit_pads(attributes: Mapping[str, Any], spatial: int) -> tuple[int, int, int, int]:
    pads = tuple(attributes.get("pads", [0] * (2 * spatial)))
    if len(pads) != 2 * spatial or min(pads) < 0:
        raise ValueError(f"expected {2 * spatial} pads of 0 or more, found {list(pads)}")
    top, left = _extend(pads[:spatial], 0)
    bottom, right = _extend(pads[spatial:], 0)
    return top, left, bottom, right


def _mode(attributes: Mapping[str, Any]) -> str:
    mode = attributes.get("auto_pad", b"NOTSET")
    return mode.decode() if isinstance(mode, bytes) else str(mode)


def _same_pads(
    mode: str, shape: TensorShape, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[int, int, int, int]:
    before, after = [], []
    for axis in (0, 1):
        size = shape[1 + axis]
        outputs = -(-size // stride[axis])
        total = max(0, (outputs - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1 - size)
        small = total // 2
        before.append(small if mode == "SAME_UPPER" else total - small)
        after.append(total - before[-1])
    return before[0], before[1], after[0], after[1]


def _with_ceiling(window: Window, shape: TensorShape) -> Window:
    """Padding grown at the end so that the usual formula gives the rounded-up size.

    A last window that would start in the end padding is left out, as the standard says since version 19 and
    onnxruntime does for all.
    """
    pads = list(window.pads)
    for axis in (0, 1):
        stride, before = window.stride[axis], pads[axis]
        span = shape[1 + axis] + before + pads[2 + axis] - window.dilation[axis] * (window.kernel[axis] - 1) - 1
        outputs = -(-span // stride) + 1
        if (outputs - 1) * stride >= shape[1 + axis] + before:
            outputs -= 1
        pads[2 + axis] += max(0, (outputs - 1) * stride - span)
    return Window(window.kernel, window.stride, (pads[0], pads[1], pads[2], pads[3]), window.dilation)
