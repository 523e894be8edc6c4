"""Small ONNX models for tests: single nodes, and random networks of the supported operators."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from kilotune.codegen.onnx.graph import AffineNode, ConvNode, Graph, Node, UnknownArray
from kilotune.codegen.onnx.importing import import_model, load_model
from kilotune.codegen.onnx.quantise import QuantisedGraph
from kilotune.codegen.onnx.rewriting import integer_model
from kilotune.codegen.onnx.topology import IMAGE, OPSET, Topology


def single(
    operator: str, shape: Sequence[int], constants: Sequence[NDArray[Any]] = (), opset: int = 13, **attributes: Any
) -> Any:
    """A model of one node on an image of `shape` (batch first)."""
    names = [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(operator, ["x", *names], ["y"], name="only", **attributes)
    return model([node], shape, dict(zip(names, constants, strict=True)), opset)


def model(
    nodes: Sequence[Any], shape: Sequence[Any], constants: dict[str, NDArray[Any]], opset: int = 13, output: str = "y"
) -> Any:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    initial = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "test", inputs, outputs, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def outputs_of(proto: Any, images: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """onnxruntime's results, without the batch."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Its optimiser merges a Pad into a pooling that then refuses so much padding.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    value = session.get_inputs()[0]
    found = []
    for image in images:
        operand = np.asarray(image, np.float32).reshape([1, *value.shape[1:]])
        found.append(session.run(None, {value.name: operand})[0][0])
    return found


def expected_integers(proto: Any, quantised: QuantisedGraph, images: Sequence[NDArray[np.int64]]) -> list[NDArray[Any]]:
    """onnxruntime's integers; those of a network that computes nothing are the image itself."""
    if not quantised.graph.nodes:
        return [image.reshape(quantised.graph.outputs[0].shape) for image in images]
    return outputs_of(integer_model(proto, quantised), images)


class RandomNetwork:
    """Draws nodes one after another; tensors of equal size meet again in Add and Concat."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        size = (int(self.generator.integers(2, 5)), *(int(n) for n in self.generator.integers(5, 11, 2)))
        self.shapes = {"x": size}
        self.image = size

    def model(self, length: int) -> Any:
        for _ in range(length):
            self.draw()
        last = list(self.shapes)[-1]
        self._node("Relu", [last], self.shapes[last], "y")
        return model(self.nodes, [1, *self.image], self.constants)

    def draw(self) -> None:
        names = list(self.shapes)
        source = names[-1] if self.generator.random() < 0.7 else names[int(self.generator.integers(len(names)))]
        kind = str(self.generator.choice(["conv", "conv", "conv", "pool", "add", "concat", "point", "normal", "pad"]))
        getattr(self, "_" + kind)(source)

    def _node(self, operator: str, inputs: list[str], shape: tuple[int, ...], name: str = "", **attributes: Any) -> str:
        output = name or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        self.shapes[output] = shape  # type: ignore[assignment]
        return output

    def _constant(self, *shape: int) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = self.generator.normal(0, 0.5, shape).astype(np.float32)
        return name

    def _window(self, shape: tuple[int, ...], dilated: bool) -> tuple[dict[str, Any], tuple[int, int]] | None:
        draw = self.generator.integers
        kernel, stride = draw(1, 4, 2), draw(1, 3, 2)
        dilation = draw(1, 3, 2) if dilated else np.ones(2, int)
        pads = [int(p) for p in draw(0, 3, 4)]
        pads = [min(pad, int(kernel[i % 2]) - 1) if not dilated else pad for i, pad in enumerate(pads)]
        sizes = []
        for axis in (0, 1):
            span = shape[1 + axis] + pads[axis] + pads[2 + axis] - dilation[axis] * (kernel[axis] - 1) - 1
            sizes.append(int(span // stride[axis] + 1))
        if min(sizes) < 2:
            return None
        attributes = {"kernel_shape": kernel.tolist(), "strides": stride.tolist(), "pads": pads}
        return ({**attributes, "dilations": dilation.tolist()} if dilated else attributes), (sizes[0], sizes[1])

    def _conv(self, source: str) -> None:
        shape = self.shapes[source]
        found = self._window(shape, dilated=True)
        if found is None:
            return
        attributes, size = found
        groups = int(self.generator.choice([g for g in (1, 1, 2, shape[0]) if shape[0] % g == 0]))
        outputs = groups * int(self.generator.integers(1, 4))
        weight = self._constant(outputs, shape[0] // groups, *attributes["kernel_shape"])
        inputs = [source, weight] + ([self._constant(outputs)] if self.generator.random() < 0.5 else [])
        self._node("Conv", inputs, (outputs, *size), group=groups, **attributes)

    def _pool(self, source: str) -> None:
        found = self._window(self.shapes[source], dilated=False)
        if found is not None:
            operator = str(self.generator.choice(["MaxPool", "AveragePool"]))
            extra = {"count_include_pad": int(self.generator.integers(2))} if operator == "AveragePool" else {}
            self._node(operator, [source], (self.shapes[source][0], *found[1]), **found[0], **extra)

    def _add(self, source: str) -> None:
        same = [n for n, shape in self.shapes.items() if shape == self.shapes[source]]
        others = [str(n) for n in self.generator.choice(same, size=min(len(same), 2), replace=False)]
        self._node("Sum", [source, *others], self.shapes[source])

    def _concat(self, source: str) -> None:
        same = [n for n, shape in self.shapes.items() if shape[1:] == self.shapes[source][1:]]
        others = [str(n) for n in self.generator.choice(same, size=min(len(same), 2), replace=False)]
        channels = sum(self.shapes[n][0] for n in [source, *others])
        if channels <= 12:
            self._node("Concat", [source, *others], (channels, *self.shapes[source][1:]), axis=1)

    def _point(self, source: str) -> None:
        self._node("Relu", [source], self.shapes[source])

    def _normal(self, source: str) -> None:
        channels = self.shapes[source][0]
        names = [self._constant(channels) for _ in range(4)]
        self.constants[names[3]] = np.abs(self.constants[names[3]]) + np.float32(0.5)
        self._node("BatchNormalization", [source, *names], self.shapes[source])

    def _pad(self, source: str) -> None:
        shape = self.shapes[source]
        pads = self.generator.integers(0, 2, 4)
        name = f"k{len(self.constants)}"
        self.constants[name] = np.array([0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]], dtype=np.int64)
        self._node(
            "Pad", [source, name], (shape[0], shape[1] + int(pads[0] + pads[2]), shape[2] + int(pads[1] + pads[3]))
        )


def without_weights(graph: Graph) -> Graph:
    """The same graph, of whose weights only the shapes are known."""

    def emptied(node: Node) -> Node:
        if isinstance(node, ConvNode):
            weight, bias = UnknownArray(node.weight.shape), UnknownArray(node.bias.shape)
            return dataclasses.replace(node, weight=weight, bias=bias)
        if isinstance(node, AffineNode):
            scale, offset = UnknownArray(node.scale.shape), UnknownArray(node.offset.shape)
            return dataclasses.replace(node, scale=scale, offset=offset)
        return node

    return dataclasses.replace(graph, nodes=tuple(map(emptied, graph.nodes)))


def onnx_file(topology: Topology, output: str, seed: int) -> Any:
    """The model of a topology with seeded weights, as an exporter would write it."""
    rng = np.random.default_rng(seed)
    nodes = [helper.make_node(n.operator, n.inputs, n.outputs, **n.attributes) for n in topology.nodes]
    weights = {
        name: np.abs(rng.normal(0.5, 0.2, shape)).astype(np.float32)
        if name.endswith((".variance", ".scale"))
        else (rng.normal(0, 1, shape) / math.sqrt(math.prod(shape[1:]))).astype(np.float32)
        for name, shape in topology.weights.items()
    }
    constants = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in topology.constants.items()}
    image = helper.make_tensor_value_info(IMAGE, TensorProto.FLOAT, [1, *topology.image])
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    initial = [numpy_helper.from_array(np.asarray(a), n) for n, a in {**weights, **constants}.items()]
    graph = helper.make_graph(nodes, topology.name, [image], [result], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def import_file(path: Path) -> Graph:
    """The network of an ONNX file."""
    return import_model(load_model(path), str(path))


def shipped(folder: str) -> list[str]:
    """Paths of the models that the onnx package ships in a folder of its backend tests."""
    base = Path(onnx.__file__).parent / "backend" / "test" / "data" / folder
    return sorted(str(path) for path in base.glob("*/model.onnx"))


def output_of(graph: Graph, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
    """The network's output in its ONNX shape, without the batch."""
    return tensors[graph.output].reshape(graph.outputs[0].shape)
