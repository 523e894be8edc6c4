"""What a converter reads and writes: the ONNX node that it is called with, and the network as far as it has been imported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.counts import counted
from kilotune.codegen.onnx.graph import HostOperator, Node, TensorShape, UnknownArray, Weights, check_size


@dataclass(frozen=True)
class OnnxValue:
    """An ONNX value: the tensor that holds it and its ONNX shape (batch first).

    flattened: the value is the row-major flattening of the tensor. grouped: the value is the tensor with its channels
    as (groups, channels / groups), or the other way round after `transposed`: the steps of a channel shuffle. channels_last:
    the value has its channels behind height and width. host: what the host does with the tensor to get the value.
    """

    tensor: str
    shape: tuple[int, ...]
    flattened: bool = False
    grouped: int = 0
    transposed: bool = False
    channels_last: bool = False
    host: tuple[HostOperator, ...] = ()


@dataclass(frozen=True)
class OnnxNode:
    """An ONNX node: what converters read."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int

    @property
    def output(self) -> str:
        """The first output; others (a dropout's mask) are never read."""
        return self.outputs[0]


@dataclass
class Imported:
    """What has been imported so far. unknown: constants of which only the shape is known (a weightless graph's weights). parts,
    last_matrices: see `Graph`."""

    constants: dict[str, Array]
    values: dict[str, OnnxValue]
    shapes: dict[str, TensorShape]
    nodes: list[Node] = field(default_factory=list)
    unknown: Mapping[str, UnknownArray] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    last_matrices: set[str] = field(default_factory=set)

    def value(self, name: str, any_order: bool = False) -> OnnxValue:
        """The operand computed from the image. ValueError for a constant, for the inside of a channel shuffle, and for one whose
        channels are last, but for `any_order`."""
        found = self.any_value(name)
        if found.grouped:
            raise ValueError("expected Transpose and Reshape of a channel shuffle, found another use of its groups")
        if found.channels_last and not any_order:
            raise ValueError(f"expected channels before height and width, found them last in shape {list(found.shape)}")
        return found

    def any_value(self, name: str) -> OnnxValue:
        """The operand computed from the image, also inside a channel shuffle. ValueError for a constant."""
        if name not in self.values:
            raise ValueError(f"expected an operand computed from the image, found the constant {name!r}")
        return self.values[name]

    def constant(self, name: str, what: str) -> Array:
        """A constant operand. ValueError when it is computed from the image."""
        if name not in self.constants:
            raise ValueError(f"expected constant {what}, found {name!r}, which depends on the image")
        return self.constants[name]

    def optional(self, call: OnnxNode, index: int, what: str, otherwise: Array) -> Array:
        """A constant operand that may be left out."""
        there = len(call.inputs) > index and call.inputs[index]
        return self.constant(call.inputs[index], what) if there else otherwise

    def weights(self, name: str, what: str) -> Weights:
        """A constant operand as `as_float` gives it, or its shape where nothing else is known."""
        return self.unknown[name] if name in self.unknown else as_float(self.constant(name, what))

    def emit(self, node: Node, shape: TensorShape, onnx_shape: Sequence[int], flattened: bool = False) -> None:
        """Add a node; its output has `shape` here and `onnx_shape` in the file. ValueError for one that is too large."""
        check_size(shape)
        self.nodes.append(node)
        self.shapes[node.output] = shape
        self.values[node.output] = OnnxValue(node.output, tuple(onnx_shape), flattened)

    def emit_like(self, node: Node, value: OnnxValue) -> None:
        """Add a node whose output is, element by element, what `value` is."""
        shape = self.shapes[value.tensor]
        self.emit(node, shape, value.shape, value.flattened)
        self.values[node.output] = dataclasses.replace(self.values[node.output], channels_last=value.channels_last)

    def emit_part(self, node: Node, shape: TensorShape, of: str) -> None:
        """Add a node that the ONNX node with the output `of` needs before its own."""
        check_size(shape)
        self.nodes.append(node)
        self.shapes[node.output] = shape
        self.parts[node.output] = of


def canonical_shape(shape: Sequence[int]) -> TensorShape:
    """(channels, height, width) of an ONNX shape with 2 to 4 dimensions. ValueError for others."""
    if len(shape) == 2:
        return int(shape[1]), 1, 1
    if len(shape) == 3:
        return int(shape[1]), 1, int(shape[2])
    if len(shape) == 4:
        return int(shape[1]), int(shape[2]), int(shape[3])
    raise ValueError(f"expected a batch with up to two spatial dimensions, found shape {list(shape)}")


def spatial_operand(imported: Imported, call: OnnxNode, ranks: Sequence[int] = (3, 4)) -> tuple[OnnxValue, TensorShape]:
    """The first operand, an image or a sequence, and its shape. ValueError for others."""
    value = imported.value(call.inputs[0])
    if value.flattened or len(value.shape) not in ranks:
        raise ValueError(f"expected an image or a sequence, found shape {list(value.shape)}")
    return value, imported.shapes[value.tensor]


def bias_of(imported: Imported, call: OnnxNode, outputs: int) -> Weights:
    """The third operand [outputs]; zeros without one, of unknown value where the weights are. ValueError for another shape."""
    if len(call.inputs) > 2 and call.inputs[2]:
        bias = imported.weights(call.inputs[2], "bias")
    else:
        bias = UnknownArray((outputs,)) if call.inputs[1] in imported.unknown else np.zeros(outputs)
    if bias.shape != (outputs,):
        raise ValueError(f"expected a bias of {counted(outputs, 'element')}, found shape {list(bias.shape)}")
    return bias


def onnx_shape(value: OnnxValue, shape: TensorShape) -> tuple[int, ...]:
    """The ONNX shape of a tensor of `shape` that was computed from `value`."""
    rank = len(value.shape)
    return (value.shape[0], shape[0], *((shape[2],) if rank == 3 else shape[1:]))[:rank]


def whole_numbers(imported: Imported, call: OnnxNode, index: int) -> list[int]:
    """A constant operand as integers."""
    return [int(x) for x in imported.constant(call.inputs[index], "operand").reshape(-1)]


def as_float(array: Array) -> Array:
    """Weights as float32 or, when they are anything else, float64. ValueError for NaN and infinity."""
    if not np.isfinite(array).all():
        raise ValueError("expected finite weights, found NaN or infinity")
    return array if array.dtype == np.float32 else np.asarray(array, dtype=np.float64)
