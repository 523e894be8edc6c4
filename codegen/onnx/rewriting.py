"""The file's own ONNX graph with the integers of a quantised network in it, for an independent runtime.

Operators and their attributes stay those of the file, so that a runtime's result checks the import as well; weights
are replaced, folded batch normalisation is left out, and requantising shifts become Mul, Floor and Clip. All values
are integers in float32, exact by the bound of `quantise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.constants import FOLDED, decode
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    AveragePoolNode,
    ClipNode,
    ConcatNode,
    ConvNode,
    Graph,
    Node,
    PadNode,
    ShiftNode,
    known,
)
from kilotune.codegen.onnx.obstacles import MAIN_DOMAINS
from kilotune.codegen.onnx.quantise import QuantisedGraph

OLDEST_OPSET = 8
"""Older files are stamped with this one, which broadcasts; what is copied from them means the same in it."""

HOST = ("Softmax", "LogSoftmax")


def integer_model(
    model: Any,
    quantised: QuantisedGraph,
    tensors: Sequence[str] | None = None,
    input_shape: Sequence[int] | None = None,
) -> Any:
    """A ModelProto that computes the integers of `quantised` on images of integers in float32, one image a batch.

    tensors: the outputs, by the network's names; by default its output. Softmax at the end is left out: it is the
    host's, and floats.
    """
    from onnx import TensorProto, helper

    rewriter = _Rewriter(model, quantised)
    for proto in model.graph.node:
        rewriter.take(proto)
    result = rewriter.result or model.graph.output[0].name
    names = list(tensors) if tensors is not None else [result]
    image = next(v for v in model.graph.input if v.name == quantised.graph.input)
    shape = [d.dim_value for d in image.type.tensor_type.shape.dim][1:] if input_shape is None else list(input_shape)
    shapes = {result: [1, *quantised.graph.output_shape]}
    graph = helper.make_graph(
        rewriter.nodes,
        "integers",
        [helper.make_tensor_value_info(image.name, TensorProto.FLOAT, [1, *shape])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name)) for name in names],
        rewriter.initialisers(),
    )
    integers = helper.make_model(graph, opset_imports=[helper.make_opsetid("", rewriter.opset)])
    integers.ir_version = max(model.ir_version, 4)
    return integers


class _Rewriter:
    def __init__(self, model: Any, quantised: QuantisedGraph) -> None:
        self.graph: Graph = quantised.graph
        declared = next((o.version for o in model.opset_import if o.domain in MAIN_DOMAINS), 1)
        self.opset = max(declared, OLDEST_OPSET)
        self.constants: dict[str, Array] = {t.name: decode(t, ".") for t in model.graph.initializer}
        self.producers = {node.output: node for node in self.graph.nodes}
        self.folded = dict(self.graph.folded or {})
        self.done: set[str] = set()
        self.nodes: list[Any] = []
        self.result = ""

    def initialisers(self) -> list[Any]:
        from onnx import numpy_helper

        used = {name for node in self.nodes for name in node.input}
        return [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in self.constants.items() if n in used]

    def take(self, proto: Any) -> None:
        from onnx import helper

        output = proto.output[0]
        if proto.op_type in FOLDED and all(name in self.constants for name in proto.input):
            attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
            decoded = {n: decode(v, ".") if type(v).__name__ == "TensorProto" else v for n, v in attributes.items()}
            self.constants[output] = FOLDED[proto.op_type](decoded, [self.constants[n] for n in proto.input])
            return
        if proto.op_type in HOST:
            self.result = self.result or proto.input[0]
            return
        tensor = self.folded.get(output, output)
        if tensor in self.done:
            return  # folded into the node that wrote it already
        self.done.add(tensor)
        shift = self.producers.get(tensor)
        if isinstance(shift, ShiftNode):
            raw = shift.inputs[0]
            self._emit(proto, self.producers[raw], raw, tensor)
            self._requantise(raw, tensor, shift)
        else:
            self._emit(proto, shift, tensor, tensor)

    def _emit(self, proto: Any, node: Node | None, output: str, tensor: str) -> None:
        inputs = list(proto.input)
        if isinstance(node, ConvNode):
            self._weights(proto, node, inputs, output)
        elif isinstance(node, AffineNode):
            image = next(name for name in inputs if name not in self.constants)
            tail = (1,) * (self._rank(tensor) - 2)
            product = self._broadcast(
                "Mul", image, known(node.scale).astype(np.float32).reshape(-1, *tail), output + "/scaled"
            )
            self._broadcast("Add", product, known(node.offset).astype(np.float32).reshape(-1, *tail), output)
        elif isinstance(node, AddNode):
            operands = [
                self._shifted(name, s, f"{output}/{i}")
                for i, (name, s) in enumerate(zip(inputs, node.shifts, strict=True))
            ]
            self._node(proto.op_type, operands, output)
        elif isinstance(node, AveragePoolNode):
            self._copy(proto, inputs, output + "/mean")
            counts = node.divisors.astype(np.float32)[None, None]
            counts = counts[:, :, 0] if self._rank(tensor) == 3 else counts
            total = self._broadcast("Mul", output + "/mean", counts, output + "/nearly")
            total = self._broadcast("Add", total, np.asarray(0.5, np.float32), output + "/half")
            total = self._node("Floor", [total], output + "/total")
            mean = self._broadcast("Div", total, counts, output + "/quotient")
            nearest = self._broadcast("Add", mean, np.asarray(0.5, np.float32), output + "/rounding")
            self._node("Floor", [nearest], output)
        elif isinstance(node, ClipNode):
            self._clip(inputs[0], max(node.low, -1e9), min(node.high, 1e9), output)
        elif isinstance(node, ConcatNode):
            aligned = [self._alignment(name, wanted) for name, wanted in zip(inputs, node.inputs, strict=True)]
            self._copy(proto, aligned, output)
        elif isinstance(node, PadNode) and self.opset >= 11:
            fill = self._constant(output + "/fill", np.asarray(node.value, np.float32))
            self._copy(proto, [*inputs[:2], fill, *inputs[3:]], output)
        else:
            self._copy(proto, inputs, output)
            if isinstance(node, PadNode):
                self._set(self.nodes[-1], "value", float(node.value))

    def _rank(self, tensor: str) -> int:
        return (self.graph.ranks or {}).get(tensor, 4)

    def _weights(self, proto: Any, node: ConvNode, inputs: list[str], output: str) -> None:
        integers = known(node.weight).astype(np.float32)
        bias = self._constant(output + "/bias", known(node.bias).astype(np.float32))
        if proto.op_type == "Conv":
            shape = self.constants[inputs[1]].shape
            weight = self._constant(output + "/weight", integers.reshape(shape))
            self._copy(proto, [inputs[0], weight, bias], output)
            return
        matrix = self._constant(output + "/weight", integers.reshape(len(integers), -1).T)
        product = self._node("MatMul", [inputs[0], matrix], output + "/product")
        self._broadcast("Add", product, self.constants[bias], output)

    def _alignment(self, name: str, wanted: str) -> str:
        if name == wanted or wanted in self.done or not isinstance(self.producers.get(wanted), ShiftNode):
            return wanted
        shift = self.producers[wanted]
        if not wanted.startswith(name) or not isinstance(shift, ShiftNode) or shift.inputs != (name,):
            return name
        self.done.add(wanted)
        self._requantise(name, wanted, shift)
        return wanted

    def _requantise(self, source: str, output: str, shift: ShiftNode) -> None:
        self._clip(self._shifted(source, shift.right, output, self._rank(output)), shift.low, shift.high, output)

    def _shifted(self, name: str, right: int | Array, stem: str, rank: int = 4) -> str:
        """floor(x / 2**right + 1/2); right: of all channels, or of each."""
        if not np.any(right):
            return name
        factors = np.asarray(2.0 ** -np.asarray(right, np.float64), np.float32)
        if factors.ndim:
            factors = factors.reshape(-1, *(1,) * (rank - 2))
        scaled = self._broadcast("Mul", name, factors, stem + "/halved")
        nearest = self._broadcast("Add", scaled, np.asarray(0.5, np.float32), stem + "/rounding")
        return self._node("Floor", [nearest], stem + "/shifted")

    def _clip(self, source: str, low: float, high: float, output: str) -> None:
        from onnx import helper

        if self.opset < 11:
            self.nodes.append(helper.make_node("Clip", [source], [output], min=float(low), max=float(high)))
            return
        bounds = [
            self._constant(f"{output}/{what}", np.asarray(v, np.float32)) for what, v in (("low", low), ("high", high))
        ]
        self._node("Clip", [source, *bounds], output)

    def _broadcast(self, operator: str, name: str, constant: Array, output: str) -> str:
        operand = self._constant(output + "/constant", np.asarray(constant, np.float32))
        return self._node(operator, [name, operand], output)

    def _node(self, operator: str, inputs: Sequence[str], output: str) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, list(inputs), [output]))
        return output

    def _constant(self, name: str, array: Array) -> str:
        self.constants[name] = array
        return name

    def _copy(self, proto: Any, inputs: Sequence[str], output: str) -> None:
        copy = type(proto)()
        copy.CopyFrom(proto)
        del copy.input[:], copy.output[:]
        copy.input.extend(inputs)
        copy.output.append(output)
        self.nodes.append(copy)

    @staticmethod
    def _set(proto: Any, name: str, value: float) -> None:
        from onnx import helper

        kept = [a for a in proto.attribute if a.name != name]
        del proto.attribute[:]
        proto.attribute.extend([*kept, helper.make_attribute(name, value)])
