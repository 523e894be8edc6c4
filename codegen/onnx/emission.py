"""Nodes of an integer network as ONNX nodes on integers in float32."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.converters import digit_count
from kilotune.codegen.onnx.graph import (
    AffineNode,
    AveragePoolNode,
    ConvNode,
    Graph,
    MaxPoolNode,
    Node,
    ProductNode,
    ShiftNode,
    TableNode,
    known,
)


def needed_for(outputs: Collection[str], nodes: Sequence[Any]) -> list[Any]:
    """Those of some NodeProtos, in their order, that the values `outputs` are computed by."""
    wanted, found = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            found.append(node)
    return found[::-1]


class IntegerNodes:
    """nodes: NodeProtos in order; constants: by name, of which those that nobody reads are left out."""

    def __init__(self, graph: Graph, opset: int, constants: dict[str, Array]) -> None:
        self.graph, self.opset, self.constants = graph, opset, constants
        self.nodes: list[Any] = []

    def initialisers(self) -> list[Any]:
        """The constants as TensorProtos."""
        from onnx import numpy_helper

        used = {name for node in self.nodes for name in node.input}
        return [numpy_helper.from_array(np.asarray(a, order="C"), n) for n, a in self.constants.items() if n in used]

    def needed(self, outputs: Sequence[str]) -> list[Any]:
        """The nodes that these outputs need; the others are forgotten."""
        self.nodes = needed_for(outputs, self.nodes)
        return self.nodes

    def rank(self, tensor: str) -> int:
        """Dimensions that a tensor has in the file, batch included."""
        return (self.graph.ranks or {}).get(tensor, 4)

    def by_channel(self, values: Array, tensor: str) -> Array:
        """A value a channel, to broadcast with a tensor as it is in the file; one for all where they are the same, as those of a
        flattened image are."""
        if (values == values[0]).all():
            return np.asarray(values[0])
        return values if tensor in self.graph.lasts else values.reshape(-1, *(1,) * (self.rank(tensor) - 2))

    def whole(self, nodes: Sequence[Node]) -> None:
        """Nodes that belong to no node of the file."""
        for node in nodes:
            if isinstance(node, ShiftNode):
                self.requantise(node.inputs[0], node.output, node)
            else:
                self.node_alone(node, node.output, node.output)

    def node_alone(self, node: Node, output: str, tensor: str) -> None:
        """A node by itself. TypeError for one that only nodes of a file are."""
        if isinstance(node, TableNode):
            self.looked_up(node, node.inputs[0], output)
        elif isinstance(node, ProductNode):
            self.node("Mul", node.inputs, output)
        elif isinstance(node, AffineNode):
            self.affine(node, node.inputs[0], output, tensor)
        elif isinstance(node, ConvNode):
            weight = self.constant(output + "/weight", known(node.weight).astype(np.float32))
            bias = self.constant(output + "/bias", known(node.bias).astype(np.float32))
            self.node("Conv", [node.inputs[0], weight, bias], output)
        elif isinstance(node, MaxPoolNode) and node.window.spread == node.window.kernel:
            self._repeated(node, output, tensor)
        elif isinstance(node, AveragePoolNode):
            channels = self.graph.shapes[tensor][0]
            ones = self.constant(output + "/ones", np.ones((channels, 1, *node.window.kernel), np.float32))
            self.node("Conv", [node.inputs[0], ones], output + "/total", group=channels, pads=list(node.window.pads))
            self.rounded_mean(node, output + "/total", node.divisors.astype(np.float32)[None, None], output)
        else:
            raise TypeError(f"{type(node).__name__} has no ONNX of its own")

    def _repeated(self, node: MaxPoolNode, output: str, tensor: str) -> None:
        """Every pixel as many times as the window is large; Resize and Upsample are written otherwise in every other version of ONNX."""
        channels, kernel = self.graph.shapes[tensor][0], node.window.kernel
        ones = self.constant(output + "/ones", np.ones((channels, 1, *kernel), np.float32))
        self.node("ConvTranspose", [node.inputs[0], ones], output, group=channels, strides=list(kernel))

    def rounded_mean(self, node: AveragePoolNode, total: str, counts: Array, output: str) -> None:
        """A sum over its count, in steps that are finer by the bits `left`, rounded as the network does."""
        if node.left:
            total = self.broadcast("Mul", total, np.asarray(2.0**node.left), output + "/finer")
        mean = self.broadcast("Div", total, counts, output + "/quotient")
        nearest = self.broadcast("Add", mean, np.asarray(0.5, np.float32), output + "/rounding")
        self.node("Floor", [nearest], output)

    def affine(self, node: AffineNode, source: str, output: str, tensor: str) -> None:
        """x * scale + offset."""
        scale, offset = (self.by_channel(known(a).astype(np.float32), tensor) for a in (node.scale, node.offset))
        self.broadcast("Add", self.broadcast("Mul", source, scale, output + "/scaled"), offset, output)

    def looked_up(self, node: TableNode, source: str, output: str) -> None:
        """table[x - first], of each channel where they differ."""
        from onnx import TensorProto, helper

        table = known(node.table)
        moved = self.broadcast("Add", source, np.asarray(-node.first, np.float32), output + "/place")
        places = output + "/places"
        self.nodes.append(helper.make_node("Cast", [moved], [places], to=TensorProto.INT64))
        if table.ndim > 1:
            rows = self.by_channel(np.arange(len(table), dtype=np.int64) * table.shape[1], node.output)
            places = self.node("Add", [places, self.constant(output + "/rows", rows)], output + "/inrow")
        values = self.constant(output + "/table", table.reshape(-1).astype(np.float32))
        self.node("Gather", [values, places], output)

    def requantise(self, source: str, output: str, shift: ShiftNode) -> None:
        """A ShiftNode."""
        self.clip(self.shifted(source, shift.right, output, output), shift.low, shift.high, output)

    def shifted(self, name: str, right: int | Array, stem: str, tensor: str = "") -> str:
        """floor(x / 2**right + 1/2); right: of all channels, or of each channel of `tensor`."""
        if not np.any(right):
            return name
        factors = np.asarray(2.0 ** -np.asarray(right, np.float64), np.float32)
        scaled = self.broadcast(
            "Mul", name, self.by_channel(factors, tensor) if factors.ndim else factors, stem + "/halved"
        )
        nearest = self.broadcast("Add", scaled, np.asarray(0.5, np.float32), stem + "/rounding")
        return self.node("Floor", [nearest], stem + "/shifted")

    def digits(self, source: str, bits: int, magnitude_bits: int, signed: bool, stem: str) -> list[tuple[int, str]]:
        """Digits of so many bits of the magnitudes of a tensor's integers, with their signs and places; see `converters.digits`."""
        if not bits:
            return [(0, source)]
        sides = [(1.0, self.node("Relu", [source], stem + "/above"))]
        if signed:
            turned = self.broadcast("Mul", source, np.asarray(-1), stem + "/turned")
            sides.append((-1.0, self.node("Relu", [turned], stem + "/below")))
        found = []
        for place in range(0, bits * digit_count(magnitude_bits, bits), bits):
            parts = [self._digit(side, place, bits, sign, f"{stem}{place}{sign:+g}") for sign, side in sides]
            found.append((place, parts[0] if len(parts) == 1 else self.node("Add", parts, f"{stem}{place}")))
        return found

    def _digit(self, source: str, place: int, bits: int, sign: float, stem: str) -> str:
        """A digit of numbers that are not negative, times a sign."""
        whole, further = (
            self.node("Floor", [self.broadcast("Mul", source, np.asarray(2.0**-p), f"{stem}/{p}")], f"{stem}/from{p}")
            for p in (place, place + bits)
        )
        rest = self.broadcast("Mul", further, np.asarray(2.0**bits), stem + "/rest")
        digit = self.node("Sub", [whole, rest], stem + "/digit")
        return digit if sign > 0 else self.broadcast("Mul", digit, np.asarray(sign), stem + "/signed")

    def total(self, names: Sequence[str], output: str) -> str:
        """The sum of several tensors."""
        if len(names) == 1:
            return self.node("Identity", names, output)
        return self.node("Sum", names, output)

    def clip(self, source: str, low: float, high: float, output: str) -> None:
        """Limits, as attributes before opset 11."""
        from onnx import helper

        if self.opset < 11:
            self.nodes.append(helper.make_node("Clip", [source], [output], min=float(low), max=float(high)))
            return
        bounds = [
            self.constant(f"{output}/{what}", np.asarray(v, np.float32)) for what, v in (("low", low), ("high", high))
        ]
        self.node("Clip", [source, *bounds], output)

    def broadcast(self, operator: str, name: str, constant: Array, output: str) -> str:
        """A node of a tensor and a constant; its output's name."""
        operand = self.constant(output + "/constant", np.asarray(constant, np.float32))
        return self.node(operator, [name, operand], output)

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """A node; its output's name."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, array: Array) -> str:
        """A constant's name."""
        self.constants[name] = array
        return name
