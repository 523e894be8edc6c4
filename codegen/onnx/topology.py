"""Networks written down by their layers: the nodes that an ONNX file would hold, and the shapes of their weights.

A topology goes through the same converters as a file. What comes out is a weightless `Graph`: shapes and operators,
which is all that mapping, lowering and timing ask for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.graph import ConvNode, Graph, TensorShape, UnknownArray
from kilotune.codegen.onnx.imported import Imported, OnnxNode, OnnxValue
from kilotune.codegen.onnx.importing import convert, graph_of

OPSET = 13
IMAGE = "image"
"""The name of a topology's input."""

STATISTICS = ("scale", "offset", "mean", "variance")


@dataclass
class Topology:
    """A network in the making; `graph` gives what has been written down so far.

    Methods add a layer called `name` that reads `source` and return its output's name. nodes: in order. weights: shapes by
    tensor. constants: the operands that are no weights.
    """

    name: str
    image: TensorShape
    nodes: list[OnnxNode] = field(default_factory=list)
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    _imported: Imported = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._imported = Imported({}, {IMAGE: OnnxValue(IMAGE, (1, *self.image))}, {IMAGE: self.image})

    def shape(self, name: str) -> TensorShape:
        """(channels, height, width) of an output."""
        return self._imported.shapes[self._imported.values[name].tensor]

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        name: str,
        weights: Mapping[str, tuple[int, ...]] | None = None,
        constants: Mapping[str, ArrayLike] | None = None,
        **attributes: Any,
    ) -> str:
        """An ONNX node; its further operands are `name.key` for the keys of `weights`, then of `constants`.

        ValueError for one that an ONNX file could not have there either.
        """
        shapes = {f"{name}.{key}": shape for key, shape in (weights or {}).items()}
        values = {f"{name}.{key}": np.asarray(value) for key, value in (constants or {}).items()}
        call = OnnxNode(operator, (*inputs, *shapes, *values), (name,), attributes, OPSET)
        self._imported.unknown = {**self._imported.unknown, **{n: UnknownArray(s) for n, s in shapes.items()}}
        self._imported.constants.update(values)
        convert(self._imported, call)
        self.nodes.append(call)
        self.weights.update(shapes)
        self.constants.update(values)
        return name

    def conv(
        self,
        source: str,
        name: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        padding: int | None = None,
        groups: int = 1,
        bias: bool = False,
    ) -> str:
        """A square convolution; padding: on all sides, half a kernel when left out."""
        pads = [kernel // 2 if padding is None else padding] * 4
        weights: dict[str, tuple[int, ...]] = {"weight": (channels, self.shape(source)[0] // groups, kernel, kernel)}
        if bias:
            weights["bias"] = (channels,)
        return self.node("Conv", [source], name, weights, pads=pads, strides=[stride] * 2, group=groups)

    def normal(self, source: str, name: str) -> str:
        """Batch normalisation."""
        return self.node("BatchNormalization", [source], name, dict.fromkeys(STATISTICS, self.shape(source)[:1]))

    def linear(self, source: str, name: str, outputs: int) -> str:
        """A fully connected layer with a bias, on the flattened source."""
        weights: dict[str, tuple[int, ...]] = {"weight": (outputs, math.prod(self.shape(source))), "bias": (outputs,)}
        flat = self.node("Flatten", [source], f"{name}.flat")
        return self.node("Gemm", [flat], name, weights, transB=1)

    def pool(
        self, operator: str, source: str, name: str, kernel: int, stride: int, padding: int = 0, *, up: bool = False
    ) -> str:
        """MaxPool or AveragePool over a square; up: sizes are rounded up (ONNX's ceil_mode)."""
        window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self.node(operator, [source], name, ceil_mode=int(up), **window)

    def graph(self, output: str) -> Graph:
        """The weightless network up to that output."""
        return graph_of(self._imported, self.name, IMAGE, [output])


def crossbar_weights(graph: Graph) -> int:
    """Elements of the weights of convolutions and fully connected layers, without biases: what was learned of what crossbars hold."""
    return sum(math.prod(node.weight.shape) for node in learned_layers(graph))


def multiply_accumulates(graph: Graph) -> int:
    """Products that convolutions and fully connected layers take for one image; padding counts as other elements do."""
    return sum(math.prod(n.weight.shape) * math.prod(graph.shapes[n.output][1:]) for n in learned_layers(graph))


def learned_layers(graph: Graph) -> list[ConvNode]:
    """The convolutions and fully connected layers, without those by which another operator is computed (LRN sums squares so)."""
    parts = graph.parts or {}
    return [node for node in graph.nodes if isinstance(node, ConvNode) and node.output not in parts]
