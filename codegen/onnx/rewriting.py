"""The file's own ONNX graph with the integers of a quantised network in it, for an independent runtime.

Operators and their attributes stay those of the file, so that a runtime's result checks the import as well; weights
are replaced, folded batch normalisation is left out, functions become tables, and requantising shifts become Mul, Floor and Clip.
All values are integers in float32, exact by the bound of `quantise`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from itertools import product
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.constants import FOLDED, decode
from kilotune.codegen.onnx.converters import ColumnConverter
from kilotune.codegen.onnx.crossbar_products import core_slices
from kilotune.codegen.onnx.emission import IntegerNodes, needed_for
from kilotune.codegen.onnx.enlarging import turned
from kilotune.codegen.onnx.graph import (
    VIEWS,
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ClipNode,
    ConcatNode,
    ConvNode,
    Graph,
    MaxPoolNode,
    Node,
    PadNode,
    ShiftNode,
    TableNode,
    known,
)
from kilotune.codegen.onnx.node_order import in_running_order
from kilotune.codegen.onnx.obstacles import MAIN_DOMAINS
from kilotune.codegen.onnx.quantise import QuantisedGraph
from kilotune.codegen.onnx.written_out_padding import (
    BELOW_ALL,
    as_it_stands,
    set_attributes,
    write_out_pooling,
    written_out_convolution,
)

OLDEST_OPSET = 8
"""Older files are stamped with this one, which broadcasts; what is copied from them means the same in it."""

IDENTITIES = ("DequantizeLinear", "Cast", "Dropout")
"""Operators that the network does not have."""


def integer_model(
    model: Any,
    quantised: QuantisedGraph,
    tensors: Sequence[str] | None = None,
    input_shape: Sequence[int] | None = None,
) -> Any:
    """A ModelProto that computes the integers of `quantised` on images of integers in float32, one image a batch.

    tensors: the outputs, by the network's names; by default its own. What is left for the host, as a Softmax at the end, is left out:
    it is floats. The image is [channels, height, width] also where the file has its channels last.
    """
    from onnx import TensorProto, helper

    rewriter = _Rewriter(model, quantised)
    name = quantised.graph.input
    if quantised.graph.image_last:
        rewriter.nodes.append(helper.make_node("Transpose", [f"{name}/first"], [name], perm=[0, 2, 3, 1]))
    results = {o.host[0].operand if o.host else o.name: o for o in quantised.graph.outputs}
    for proto in needed_for(results, [node for _, node in in_running_order(model.graph.node)]):
        rewriter.take(proto)
    names = list(tensors) if tensors is not None else list(results)
    image = next(v for v in model.graph.input if v.name == name)
    shape = [d.dim_value for d in image.type.tensor_type.shape.dim][1:] if input_shape is None else list(input_shape)
    if quantised.graph.image_last:
        name, shape = f"{name}/first", list(quantised.graph.shapes[name])
    shapes = {name: [1, *output.shape] for name, output in results.items()}
    graph = helper.make_graph(
        rewriter.needed(names),
        "integers",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, *shape])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name)) for name in names],
        rewriter.initialisers(),
    )
    integers = helper.make_model(graph, opset_imports=[helper.make_opsetid("", rewriter.opset)])
    integers.ir_version = max(model.ir_version, 4)
    return integers


class _Rewriter(IntegerNodes):
    def __init__(self, model: Any, quantised: QuantisedGraph) -> None:
        declared = next((o.version for o in model.opset_import if o.domain in MAIN_DOMAINS), 1)
        constants = {t.name: decode(t, ".") for t in model.graph.initializer}
        super().__init__(quantised.graph, max(declared, OLDEST_OPSET), constants)
        self.producers = {node.output: node for node in self.graph.nodes}
        self.folded = dict(self.graph.folded or {})
        self.parts = _parts(self.graph)
        self.aligned: set[str] = set()
        self.done: set[str] = set()

    def take(self, proto: Any) -> None:
        """The next node of the file."""
        from onnx import helper

        output = proto.output[0]
        if proto.op_type in FOLDED and all(name in self.constants for name in proto.input):
            attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
            decoded = {n: decode(v, ".") if type(v).__name__ == "TensorProto" else v for n, v in attributes.items()}
            self.constants[output] = FOLDED[proto.op_type](decoded, [self.constants[n] for n in proto.input])
            return
        tensor = self.folded.get(output, output)
        if tensor in self.done:
            return  # folded into the node that wrote it already
        self.done.add(tensor)
        shift = self.producers.get(tensor)
        parts = self.parts.get(output, ())
        own = {node.output for node in parts}
        self.whole([_reading(node, own, proto.input[0]) for node in parts])
        if isinstance(shift, ShiftNode):
            raw = shift.inputs[0]
            self._emit(proto, self.producers[raw], raw, tensor, own)
            self.requantise(raw, tensor, shift)
        else:
            self._emit(proto, shift, tensor, tensor, own)

    def _emit(self, proto: Any, node: Node | None, output: str, tensor: str, parts: Collection[str]) -> None:
        inputs = list(proto.input)
        if parts and node is not None:
            self.node_alone(_reading(node, parts, inputs[0]), output, tensor)
        elif isinstance(node, ConvNode):
            written_out = written_out_convolution(proto, node.window, self.rank(tensor))
            self._weights(written_out, node, inputs[0], output)
        elif isinstance(node, AffineNode):
            self.affine(node, next(name for name in inputs if name not in self.constants), output, tensor)
        elif isinstance(node, AddNode):
            operands = [
                self.shifted(name, s, f"{output}/{i}")
                for i, (name, s) in enumerate(zip(inputs, node.shifts, strict=True))
            ]
            self.node(proto.op_type, operands, output)
        elif isinstance(node, AveragePoolNode):
            self._average(proto, node, output, tensor)
        elif isinstance(node, TableNode):
            self.looked_up(node, next(name for name in inputs if name not in self.constants), output)
        elif isinstance(node, ClipNode):
            source = next(name for name in inputs if name not in self.constants)
            self.clip(source, max(node.low, -1e9), min(node.high, 1e9), output)
        else:
            self._copied(proto, node, inputs, output)

    def _copied(self, proto: Any, node: Node | None, inputs: list[str], output: str) -> None:
        """Nodes that compute the same of integers."""
        if isinstance(node, ConcatNode):
            self._copy(proto, [self._alignment(name, w) for name, w in zip(inputs, node.inputs, strict=True)], output)
        elif isinstance(node, PadNode) and self.opset >= 11:
            fill = self.constant(output + "/fill", np.asarray(node.value, np.float32))
            self._copy(proto, [*inputs[:2], fill, *inputs[3:]], output)
        elif node is None and proto.op_type in IDENTITIES:
            self.node("Identity", inputs[:1], output)
        elif isinstance(node, ArgMaxNode):
            from onnx import TensorProto

            self._copy(proto, inputs, output + "/place")  # an int64, and what follows expects float32
            self.node("Cast", [output + "/place"], output, to=TensorProto.FLOAT)
        else:
            self._copy(proto, inputs, output)
            if isinstance(node, PadNode):
                set_attributes(self.nodes[-1], value=float(node.value))
            elif isinstance(node, MaxPoolNode) and not as_it_stands(proto, node.window, self.opset):
                write_out_pooling(self, node.window, self.rank(output), BELOW_ALL)

    def _average(self, proto: Any, node: AveragePoolNode, output: str, tensor: str) -> None:
        """The runtime's mean, times the count: whole again; then rounded as the network does."""
        self._copy(proto, list(proto.input), output + "/mean")
        counts = node.divisors.astype(np.float32)
        counts = counts.reshape({2: (1, 1), 3: (1, 1, -1)}.get(self.rank(tensor), (1, 1, *counts.shape)))
        counted = counts
        if not as_it_stands(proto, node.window, self.opset):
            write_out_pooling(self, node.window, self.rank(tensor), 0)
            counted = np.asarray(math.prod(node.window.kernel), np.float32)
        total = self.broadcast("Mul", output + "/mean", counted, output + "/nearly")
        total = self.broadcast("Add", total, np.asarray(0.5, np.float32), output + "/half")
        total = self.node("Floor", [total], output + "/total")
        self.rounded_mean(node, total, counts, output)

    def _weights(self, proto: Any, node: ConvNode, source: str, output: str) -> None:
        bias = known(node.bias).astype(np.float32)
        if proto.op_type in ("Conv", "ConvTranspose") and node.converter is None:
            self._products(proto, source, self._as_weights(proto, node, known(node.weight)), output, output, bias)
            return
        sums = output + "/product"
        if node.converter is None:
            self._products(proto, source, self._as_weights(proto, node, known(node.weight)), output, sums)
        else:
            assert self.graph.bounds is not None
            signed = self.graph.bounds[node.inputs[0]][0] < 0
            magnitude = max(map(abs, self.graph.bounds[node.inputs[0]])).bit_length()
            pieces = self.digits(source, node.converter.piece_bits, magnitude, signed, output + "/piece")
            read = [
                self._read(proto, node, node.converter, piece, cells, f"{output}/{k}")
                for k, (piece, cells) in enumerate(product(pieces, core_slices(node, node.converter)))
            ]
            self.total(read, sums)
        spread = bias if proto.op_type not in ("Conv", "ConvTranspose") else self.by_channel(bias, proto.output[0])
        self.broadcast("Add", sums, spread, output)

    def _read(
        self,
        proto: Any,
        node: ConvNode,
        converter: ColumnConverter,
        piece: tuple[int, str],
        cells: tuple[int, Array],
        stem: str,
    ) -> str:
        """The sums of a core's columns of one slice with one piece, as a converter gives them, at their place."""
        self._products(proto, piece[1], self._as_weights(proto, node, cells[1]), stem, stem + "/columns")
        nearest = self.shifted(stem + "/columns", converter.right, stem)
        self.clip(nearest, -converter.largest, converter.largest, stem + "/steps")
        place = np.asarray(2.0 ** (converter.right + piece[0] + cells[0]), np.float32)
        return self.broadcast("Mul", stem + "/steps", place, stem + "/read")

    def _as_weights(self, proto: Any, node: ConvNode, weight: Array) -> Array:
        """Integers in the shape of a node's weights, as the file's operator takes them."""
        integers = weight.astype(np.float32)
        if proto.op_type == "ConvTranspose":
            integers = known(turned(integers, node.groups, node.window.kernel))
        if proto.op_type in ("Conv", "ConvTranspose"):
            return integers.reshape(self.constants[proto.input[1]].shape)
        if proto.output[0] in self.graph.last_matrices:
            integers = np.moveaxis(integers, 1, -1)
        return integers.reshape(len(integers), -1).T

    def _products(
        self, proto: Any, source: str, weights: Array, stem: str, output: str, bias: Array | None = None
    ) -> None:
        """The file's convolution, or a product of matrices, with other weights."""
        weight = self.constant(stem + "/weight", weights)
        if proto.op_type in ("Conv", "ConvTranspose"):
            with_bias = [] if bias is None else [self.constant(stem + "/bias", bias)]
            self._copy(proto, [source, weight, *with_bias], output)
        else:
            self.node("MatMul", [source, weight], output)

    def _alignment(self, name: str, wanted: str) -> str:
        """The operand `name` of a Concat, shifted to what the others are; it may be another name, and shape, of the tensor."""
        shift = self.producers.get(wanted)
        if name == wanted or not isinstance(shift, ShiftNode) or wanted in self.done:
            return name
        output = wanted if shift.inputs == (name,) else f"{wanted}/{name}"
        if output not in self.aligned:
            self.aligned.add(output)
            self.requantise(name, output, shift)
        return output

    def _copy(self, proto: Any, inputs: Sequence[str], output: str) -> None:
        copy = type(proto)()
        copy.CopyFrom(proto)
        copy.name = output  # unique, as runtimes want it: a node of the file may be copied several times
        del copy.input[:], copy.output[:]
        copy.input.extend(inputs)
        copy.output.extend([output, *proto.output[1:]])
        self.nodes.append(copy)


def _reading(node: Node, parts: Collection[str], image: str) -> Node:
    """A node that reads what the file's node does, the value `image`, where it reads none of that node's `parts`: a value that views a
    tensor, as behind a Transpose, lies otherwise than the tensor."""
    return dataclasses.replace(node, inputs=tuple(name if name in parts else image for name in node.inputs))


def _parts(graph: Graph) -> dict[str, tuple[Node, ...]]:
    """By ONNX node's output, the nodes that it needs besides its own; those that a runtime broadcasts by itself are none."""
    of = graph.parts or {}
    shifted = {node.inputs[0]: node.output for node in graph.nodes if isinstance(node, ShiftNode)}
    found: dict[str, tuple[Node, ...]] = {}
    for node in graph.nodes:
        owner = of.get(node.output) or of.get(shifted.get(node.output, ""))
        if owner is not None and not isinstance(node, VIEWS):
            found[owner] = (*found.get(owner, ()), node)
    return found
