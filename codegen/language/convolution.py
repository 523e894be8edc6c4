"""conv2d, maxpool and mbconv: tensors (N, H, W, C), filters (groups, kH, kW, Cin / groups, Cout / groups)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.ir import Location, View
from kilotune.codegen.language.emitter import NOWHERE, Destination
from kilotune.codegen.language.lowering import Lowering, tensor
from kilotune.codegen.language.syntax import RowsAndColumns, Sides
from kilotune.codegen.language.values import Value, describe_shape

PLAIN: RowsAndColumns = (1, 1)
NO_PADDING: Sides = (0, 0, 0, 0)


@dataclass(frozen=True)
class ConvolutionStageValues:
    """Values of `[filters, scale, bias]`."""

    filters: Value
    scale: Value
    bias: Value


def convolve(
    lowering: Lowering,
    image: Value,
    filters: Value,
    location: Location,
    goal: Destination,
    *,
    stride: RowsAndColumns = PLAIN,
    padding: Sides = NO_PADDING,
    dilation: RowsAndColumns = PLAIN,
    groups: int = 1,
    subject: str = "conv2d",
) -> View:
    """`conv2d(image, filters, {s}, {p}, {d}, {g})`; `padding` is top, bottom, left, right."""
    a = tensor(image, location, f"image of {subject}", rank=4)
    b = tensor(filters, location, f"filters of {subject}", rank=5)
    count, height, width, channels = a.shape
    if b.shape[0] != groups or groups < 1 or b.shape[3] * groups != channels:
        expected = f"({groups}, kH, kW, {channels} / {groups}, Cout / {groups}) for {describe_shape(a.shape)}"
        raise InputError.at(location, f"filters of {subject}", expected, describe_shape(b.shape))
    _check_positive(stride, location, f"stride of {subject}")
    _check_positive(dilation, location, f"dilation of {subject}")
    rows = dilation[0] * (b.shape[1] - 1) + 1
    columns = dilation[1] * (b.shape[2] - 1) + 1
    extent = _windows((height, width), (rows, columns), stride, padding, location, f"filters of {subject}")
    out = lowering.output((count, *extent, groups * b.shape[4]), location, goal, (a, b), aligned=False)
    lowering.emitter.emit(ir.Conv2D(out, location, a, b, stride, padding, dilation, groups))
    return out


def convolve_same(lowering: Lowering, image: Value, filters: Value, location: Location, goal: Destination) -> View:
    """`image # filters`: filters (kH, kW, Cin, Cout) of odd extents, and an image of the same height and width (the syntax of the first
    public tool, PLDI 2019)."""
    b = tensor(filters, location, "filters of '#'", rank=4)
    if b.shape[0] % 2 == 0 or b.shape[1] % 2 == 0:
        raise InputError.at(location, "filters of '#'", "an odd height and width", describe_shape(b.shape))
    high, wide = b.shape[0] // 2, b.shape[1] // 2
    grouped = replace(b, shape=(1, *b.shape), strides=(0, *b.strides))
    return convolve(lowering, image, grouped, location, goal, padding=(high, high, wide, wide), subject="'#'")


def max_pool(
    lowering: Lowering,
    image: Value,
    kernel: RowsAndColumns,
    padding: Sides,
    stride: RowsAndColumns,
    location: Location,
    goal: Destination,
) -> View:
    """`maxpool(image, {k}, {p}, {s})`; `padding` is top, bottom, left, right, and smaller than the kernel."""
    a = tensor(image, location, "image of maxpool", rank=4)
    _check_positive(kernel, location, "kernel of maxpool")
    _check_positive(stride, location, "stride of maxpool")
    if max(padding[:2]) >= kernel[0] or max(padding[2:]) >= kernel[1]:
        # A window that lies in the padding altogether would have no maximum.
        raise InputError.at(location, "padding of maxpool", f"less than the kernel {kernel}", str(padding))
    extent = _windows((a.shape[1], a.shape[2]), kernel, stride, padding, location, "kernel of maxpool")
    out = lowering.output((a.shape[0], *extent, a.shape[3]), location, goal, (a,), aligned=False)
    lowering.emitter.emit(ir.MaxPool(out, location, a, kernel, stride, padding))
    return out


def bottleneck(
    lowering: Lowering,
    image: Value,
    stages: tuple[ConvolutionStageValues, ConvolutionStageValues, ConvolutionStageValues],
    stride: RowsAndColumns,
    padding: Sides,
    location: Location,
    goal: Destination,
) -> View:
    """`mbconv`: expand to Ct channels (1x1), filter each channel (`stride`, `padding`), project (1x1).

    After each convolution comes `(. + bias) * scale`, after the first two relu6 as well: the order of the public
    tool, whose trained biases are made for it.
    """
    expand, depthwise, project = stages
    channels = tensor(expand.filters, location, "first filters of mbconv", rank=5).shape[4]
    _check_filters(expand, (1, 1, 1, None, channels), location, "first filters of mbconv")
    _check_filters(depthwise, (channels, None, None, 1, 1), location, "second filters of mbconv")
    _check_filters(project, (1, 1, 1, channels, None), location, "third filters of mbconv")
    step = convolve(lowering, image, expand.filters, location, NOWHERE, subject="mbconv")
    step = _normalise(lowering, step, expand, location, NOWHERE, rectify=True)
    step = convolve(
        lowering,
        step,
        depthwise.filters,
        location,
        NOWHERE,
        stride=stride,
        padding=padding,
        groups=channels,
        subject="mbconv",
    )
    step = _normalise(lowering, step, depthwise, location, NOWHERE, rectify=True)
    step = convolve(lowering, step, project.filters, location, NOWHERE, subject="mbconv")
    return _normalise(lowering, step, project, location, goal, rectify=False)


def _normalise(
    lowering: Lowering,
    image: View,
    stage: ConvolutionStageValues,
    location: Location,
    goal: Destination,
    *,
    rectify: bool,
) -> View:
    """`(image + bias) * scale` per channel, then relu6 when `rectify`."""
    inner = NOWHERE if rectify else goal
    shifted = lowering.channels(
        ir.Add, image, _vector(stage.bias, location, "bias"), location, NOWHERE, "bias of mbconv"
    )
    scale = _vector(stage.scale, location, "scale")
    scaled = lowering.channels(ir.Multiply, shifted, scale, location, inner, "scale of mbconv")
    assert isinstance(scaled, View)
    if not rectify:
        return scaled
    out = lowering.output(scaled.shape, location, goal, (scaled,), aligned=True)
    lowering.emitter.emit(ir.Relu6(out, location, scaled))
    return out


def _vector(value: Value, location: Location, which: str) -> View:
    return tensor(value, location, f"{which} of mbconv", rank=1)


def _check_filters(
    stage: ConvolutionStageValues, wanted: tuple[int | None, ...], location: Location, subject: str
) -> None:
    filters = tensor(stage.filters, location, subject, rank=5)
    if any(extent is not None and extent != found for extent, found in zip(wanted, filters.shape, strict=True)):
        expected = ", ".join("any" if extent is None else str(extent) for extent in wanted)
        raise InputError.at(location, subject, f"({expected})", describe_shape(filters.shape))


def _check_positive(pair: RowsAndColumns, location: Location, subject: str) -> None:
    if min(pair) < 1:
        raise InputError.at(location, subject, "at least 1 in both directions", str(pair))


def _windows(
    extent: RowsAndColumns,
    window: RowsAndColumns,
    stride: RowsAndColumns,
    padding: Sides,
    location: Location,
    subject: str,
) -> tuple[int, int]:
    """How many windows fit along height and width."""
    height = extent[0] + padding[0] + padding[1]
    width = extent[1] + padding[2] + padding[3]
    if window[0] > height or window[1] > width:
        expected = f"at most the padded image ({height}, {width})"
        raise InputError.at(location, subject, expected, f"({window[0]}, {window[1]})")
    return (height - window[0]) // stride[0] + 1, (width - window[1]) // stride[1] + 1
