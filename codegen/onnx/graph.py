"""Convolutional networks as a small graph: plain data, one image, tensors of shape (channels, height, width).

Names of tensors are those of the ONNX file, so that every message and every comparison can point into it. Vectors are
(channels, 1, 1) and sequences (channels, 1, length). A fully connected layer is a convolution whose kernel covers its
whole input. Weights are floats in a graph as imported and integers in a quantised one; in a weightless graph they are
`UnknownArray`s, and everything that asks for no values (partitions, blocks, pipelines) is as it is with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.onnx.converters import ColumnConverter

TensorShape = tuple[int, int, int]

WEIGHT_BITS = 8
"""Bits of a weight, with its sign, where nothing else is said."""

MOST_ELEMENTS = 1 << 28
"""The most elements of a tensor or of weights: four times what the first layers of VGG-16 need at 1024 x 1024."""


def check_size(shape: Sequence[int]) -> None:
    """ValueError for more than MOST_ELEMENTS elements."""
    if math.prod(shape) > MOST_ELEMENTS:
        raise ValueError(f"expected at most {MOST_ELEMENTS} elements, found {'x'.join(map(str, shape))}")


@dataclass(frozen=True)
class UnknownArray:
    """Weights of which nothing but the shape is known."""

    shape: tuple[int, ...]


Weights = NDArray[Any] | UnknownArray


def known(weights: Weights) -> NDArray[Any]:
    """The weights to compute with. ValueError for those of a weightless graph."""
    if isinstance(weights, UnknownArray):
        raise ValueError(f"expected weights, found a graph without any (shape {list(weights.shape)})")
    return weights


@dataclass(frozen=True)
class Window:
    """What an output pixel (oh, ow) reads: rows oh * stride - top + k * dilation for k < kernel, columns alike.

    Pairs are (vertical, horizontal); pads are (top, left, bottom, right), and negative rows or those past the end are
    padding. ceil_mode and auto_pad are already in `pads`.

    spread: the image's rows are first put so many rows apart, columns alike, and what is between them counts as padding: a
    transposed convolution is a convolution of such an image, and each pixel of an enlarged one reads the only one in its reach.
    """

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    spread: tuple[int, int] = (1, 1)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the output; not positive when the window does not fit."""
        top, left, bottom, right = self.pads
        height, width = (height - 1) * self.spread[0] + 1, (width - 1) * self.spread[1] + 1
        high = height + top + bottom - self.dilation[0] * (self.kernel[0] - 1) - 1
        wide = width + left + right - self.dilation[1] * (self.kernel[1] - 1) - 1
        return high // self.stride[0] + 1, wide // self.stride[1] + 1

    def through(self, stride: tuple[int, int], offset: tuple[int, int] = (0, 0)) -> Window:
        """The window in the image of which this one's is every `stride[0]`th row and every `stride[1]`th column, from `offset` on; 0:
        the first one again and again. ValueError for a spread image of that kind."""
        if self.spread != (1, 1) and stride != (1, 1):
            raise ValueError("A transposed convolution or a Resize of every other pixel cannot be lowered.")
        (down, right), (top, left, bottom, rest) = stride, self.pads
        strides = (self.stride[0] * down, self.stride[1] * right)
        dilation = (self.dilation[0] * down, self.dilation[1] * right)
        # Offsets are less than strides, so that what was padding lies outside the image still.
        pads = (top * down - offset[0], left * right - offset[1], bottom * down + offset[0], rest * right + offset[1])
        return Window(self.kernel, strides, pads, dilation, self.spread)

    @property
    def most_taps(self) -> int:
        """Pixels of the image that lie in the window at most, where its dilation is 1 or nothing is spread."""
        return math.prod(-(-size // apart) for size, apart in zip(self.kernel, self.spread, strict=True))


@dataclass(frozen=True, eq=False)
class Node:
    """An operator: names of the tensors it reads and the one it writes."""

    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, eq=False)
class ConvNode(Node):
    """weight [outputs, channels / groups, kernel rows, kernel columns], bias [outputs]. weight_bits: that integers may have, with a sign.
    converter: what reads the sums of integers; None: they are exact."""

    weight: Weights
    bias: Weights
    window: Window
    groups: int = 1
    weight_bits: int = field(default=WEIGHT_BITS, metadata={"content_absent_as": WEIGHT_BITS})
    converter: ColumnConverter | None = field(default=None, metadata={"content_absent_as": None})


@dataclass(frozen=True, eq=False)
class MaxPoolNode(Node):
    """Padding never wins."""

    window: Window


@dataclass(frozen=True, eq=False)
class AveragePoolNode(Node):
    """Sum of the window over divisors[oh, ow]; in a quantised graph the sum is shifted left by so many bits before, and the
    quotient rounded to the nearest integer."""

    window: Window
    divisors: NDArray[np.int64]
    left: int = 0


@dataclass(frozen=True, eq=False)
class PadNode(Node):
    """A border of one value; the window has a 1 x 1 kernel."""

    window: Window
    value: float


@dataclass(frozen=True, eq=False)
class ArgMaxNode(Node):
    """The first channel of the largest value, as one channel."""


@dataclass(frozen=True, eq=False)
class ReluNode(Node):
    """max(x, 0)."""


@dataclass(frozen=True, eq=False)
class ClipNode(Node):
    """min(max(x, low), high)."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class FunctionNode(Node):
    """A function of `functions.FUNCTIONS`, element by element; parameters: numbers, or one for each channel [channels].
    gated: what comes of it is multiplied with the argument (x * Sigmoid(x), for instance)."""

    function: str
    parameters: tuple[float | NDArray[Any], ...] = ()
    gated: bool = False


@dataclass(frozen=True, eq=False)
class TableNode(Node):
    """A function of a quantised graph: table[x - first]; table: int64 [arguments], or [channels, arguments]."""

    first: int
    table: Weights


@dataclass(frozen=True, eq=False)
class ProductNode(Node):
    """The product of two tensors of one shape, element by element."""


@dataclass(frozen=True, eq=False)
class AffineNode(Node):
    """x * scale + offset, both [channels]: batch normalisation that no convolution took."""

    scale: Weights
    offset: Weights


@dataclass(frozen=True, eq=False)
class AddNode(Node):
    """The sum of two or more tensors of one shape; in a quantised graph each is first shifted right by so many bits, rounding
    to nearest, or left where that is negative. subtracts: all but the first count with the opposite sign."""

    shifts: tuple[int, ...] = ()
    subtracts: bool = field(default=False, metadata={"content_absent_as": False})


@dataclass(frozen=True, eq=False)
class ShiftNode(Node):
    """A shift of a quantised graph: floor(x / 2**right + 1/2), then limited to low..high.

    right: of all channels, or int64 [channels]; negative ones shift left.
    """

    right: int | NDArray[np.int64]
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class ConcatNode(Node):
    """Channels of the inputs one after the other: a view, nothing is computed."""


@dataclass(frozen=True, eq=False)
class PermuteNode(Node):
    """Output channel c is input channel order[c], for any selection of channels: a view (channel shuffle, slices)."""

    order: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SubsampleNode(Node):
    """Pixel (y, x) is the input's (y * stride[0] + offset[0], x * stride[1] + offset[1]): a view. Offsets are less than strides."""

    stride: tuple[int, int]
    offset: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class ExpandNode(Node):
    """An image of one pixel, repeated over one of `size` (height, width): a view that only pointwise nodes read."""

    size: tuple[int, int]


@dataclass(frozen=True, eq=False)
class ChannelPadNode(Node):
    """Channels of zeros, `before` and `after` those of the input: a view."""

    before: int
    after: int


@dataclass(frozen=True)
class HostOperator:
    """What is left for the host after the last tensor: Softmax or LogSoftmax along an axis of the ONNX shape of `operand`."""

    operator: str
    axis: int
    operand: str


@dataclass(frozen=True)
class GraphOutput:
    """A result of a network: the ONNX value `name`, which `tensor` holds. shape: the ONNX one without its batch (a flattened output is
    the row-major flattening of the tensor). channels_last: whether they are behind height and width there. host: what the file does
    with it besides."""

    name: str
    tensor: str
    shape: tuple[int, ...]
    channels_last: bool = False
    host: tuple[HostOperator, ...] = ()

    def as_file(self, tensor: NDArray[Any]) -> NDArray[Any]:
        """The tensor [channels, height, width] as the file has it: of `shape`."""
        ordered = np.moveaxis(tensor, 0, -1) if self.channels_last else tensor
        return ordered.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in topological order.

    outputs: one, or several. shapes: of every tensor. left: by operator, how many nodes of the file are left for the host because no
    accelerator computes them, or because they read what such a node writes. image_last: whether the file's image has its channels
    last; lasts: the tensors that have. parts: tensors that are not in the file, by the output of the ONNX node that
    they belong to. last_matrices: ONNX values of fully connected layers whose matrices take an image with its channels last.
    folded: ONNX values that a later node took over, e.g. a convolution's output whose batch normalisation is folded, by the tensor
    that holds them now. ranks: how many dimensions a
    tensor has in the file, batch included. bounds: of an integer graph, the smallest and the largest integer of every tensor.
    """

    name: str
    input: str
    outputs: tuple[GraphOutput, ...]
    nodes: tuple[Node, ...]
    shapes: Mapping[str, TensorShape]
    left: Mapping[str, int] | None = None
    folded: Mapping[str, str] | None = None
    ranks: Mapping[str, int] | None = None
    bounds: Mapping[str, tuple[int, int]] | None = None
    image_last: bool = False
    lasts: frozenset[str] = frozenset()
    last_matrices: frozenset[str] = frozenset()
    parts: Mapping[str, str] | None = None

    @property
    def output(self) -> str:
        """The tensor of the first output."""
        return self.outputs[0].tensor

    @property
    def output_tensors(self) -> tuple[str, ...]:
        """The tensors of all outputs, each once."""
        return tuple(dict.fromkeys(output.tensor for output in self.outputs))

    def readers(self) -> dict[str, list[Node]]:
        """The nodes that read each tensor."""
        found: dict[str, list[Node]] = {name: [] for name in self.shapes}
        for node in self.nodes:
            for name in node.inputs:
                found[name].append(node)
        return found


WindowNode = ConvNode | MaxPoolNode | AveragePoolNode | PadNode
View = ConcatNode | PermuteNode | SubsampleNode | ExpandNode | ChannelPadNode
VIEWS = (ConcatNode, PermuteNode, SubsampleNode, ExpandNode, ChannelPadNode)


def window_of(node: Node) -> Window | None:
    """The window of a node that starts a partition of its own; None for pointwise nodes and views."""
    if isinstance(node, WindowNode):
        return node.window
    return Window() if isinstance(node, ArgMaxNode) else None
