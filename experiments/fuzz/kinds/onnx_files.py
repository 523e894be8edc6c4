"""Networks as ONNX files: their bytes, and their graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np

from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.kind import Kind, corpus_files, on_files
from kilotune.experiments.fuzz.kinds.models import TUNE

NETWORK, NETWORK_NAME = "net.onnx", "fuzzed"
LARGEST = (1 << 63) - 1
INTEGERS = (0, 1, -1, 2, 3, 5, 64, 255, 1 << 16, 1 << 20, 1 << 31, 1 << 40, LARGEST, -LARGEST - 1)
FLOATS = (0.0, 1.0, -1.0, 1e-45, 3e38, float("nan"), float("inf"), float("-inf"))
OPERATORS = (
    *(
        "Conv",
        "Relu",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "Gemm",
        "MatMul",
        "Add",
        "Concat",
        "Flatten",
        "Reshape",
    ),
    *(
        "Softmax",
        "Clip",
        "Pad",
        "Transpose",
        "BatchNormalization",
        "Identity",
        "Dropout",
        "Constant",
        "ConstantOfShape",
        "Mul",
    ),
    *("Squeeze", "Unsqueeze", "ArgMax", "Sub", "Loop", "If", "Nonsense", ""),
)


@cache
def networks() -> dict[str, bytes]:
    """Small networks with seeded weights, one for each group of operators."""
    return {"plain": small_network(), "branches": _branches(), "vectors": _vectors()}


def _model(nodes: list[Any], weights: dict[str, Any], image: list[int], output: list[int]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *image])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, *output])]
    graph = helper.make_graph(nodes, NETWORK_NAME, inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def _weights(**shapes: tuple[int, ...]) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    return {name: generator.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


@cache
def small_network() -> bytes:
    """A convolution, pooling, a fully connected layer."""
    from onnx import helper

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", ["p", "shape"], ["f"]),
        node("Gemm", ["f", "v", "u"], ["g"], transB=1),
        node("Softmax", ["g"], ["y"], axis=1),
    ]
    weights = {**_weights(w=(2, 1, 3, 3), b=(2,), v=(3, 18), u=(3,)), "shape": np.array([1, -1])}
    return _model(nodes, weights, [1, 6, 6], [3])


def _branches() -> bytes:
    from onnx import helper, numpy_helper

    node = helper.make_node
    low = numpy_helper.from_array(np.zeros((), np.float32), "low")
    nodes = [
        node("Constant", [], ["low"], value=low),
        node("Conv", ["x", "w"], ["c"], kernel_shape=[1, 1], group=1),
        node("BatchNormalization", ["c", "s", "o", "m", "v"], ["n"]),
        node("Clip", ["n", "low", "high"], ["k"]),
        node("AveragePool", ["k"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Add", ["a", "k"], ["sum"]),
        node("Concat", ["sum", "k"], ["both"], axis=1),
        node("Conv", ["both", "z"], ["d"], kernel_shape=[3, 3], strides=[2, 2], group=2, dilations=[1, 1]),
        node("GlobalAveragePool", ["d"], ["e"]),
        node("Flatten", ["e"], ["y"]),
    ]
    shapes = {"w": (2, 2, 1, 1), "s": (2,), "o": (2,), "m": (2,), "z": (4, 2, 3, 3)}
    weights = {**_weights(**shapes), "v": np.ones(2, np.float32), "high": np.float32(6) * np.ones((), np.float32)}
    return _model(nodes, weights, [2, 5, 5], [4])


def _vectors() -> bytes:
    from onnx import helper

    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "b"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("Unsqueeze", ["v0", "axes"], ["v"]),
        node("Squeeze", ["v", "axes"], ["v1"]),
        node("MatMul", ["r", "v1"], ["y"]),
    ]
    return _model(nodes, {**_weights(w=(4, 5), b=(5,), v0=(5, 2)), "axes": np.array([0])}, [4], [2])


def parsed(mutate: Callable[[Any, Random], None]) -> Callable[[bytes, Random], bytes]:
    """The mutation of a graph as one of bytes; bytes that are no graph stay as they are."""

    def mutator(content: bytes, random: Random) -> bytes:
        from onnx import ModelProto

        try:
            model = ModelProto.FromString(content)
            mutate(model, random)
            return bytes(model.SerializeToString())
        except Exception:  # no graph, or a mutation that this one has no place for: the packages raise what they like
            return content

    return mutator


def _attribute(model: Any, random: Random) -> None:
    """A number of an attribute, its type, its name, or the whole attribute."""
    node = random.choice([n for n in model.graph.node if n.attribute])
    attribute = random.choice(node.attribute)
    match random.randrange(6):
        case 0 | 1 if attribute.ints:
            attribute.ints[random.randrange(len(attribute.ints))] = random.choice(INTEGERS)
        case 2 if attribute.ints:
            attribute.ints.extend([random.choice(INTEGERS)] * random.choice((1, 3, 5000)))
        case 3:
            node.attribute.remove(attribute)
        case 4:
            attribute.type = random.randrange(15)
        case _:
            attribute.i, attribute.f = random.choice(INTEGERS), random.choice(FLOATS)
            attribute.name = random.choice(
                (attribute.name, attribute.name, "axis", "auto_pad", "group", "dilations", "")
            )


def change_list(model: Any, random: Random) -> None:
    """A list of numbers or texts among the attributes, as those of trees and support vectors: another element, more or fewer."""
    nodes = [
        (node, one) for node in model.graph.node for one in node.attribute if one.ints or one.floats or one.strings
    ]
    _, attribute = random.choice(nodes)
    values, made = next(
        (values, made)
        for values, made in (
            (attribute.ints, random.choice((*INTEGERS, *range(9)))),
            (attribute.floats, random.choice(FLOATS)),
            (attribute.strings, random.choice((b"", b"LEAF", b"BRANCH_LEQ", b"BRANCH_EQ", b"\xff", b"RBF"))),
        )
        if values
    )
    match random.randrange(4):
        case 0 | 1:
            values[random.randrange(len(values))] = made
        case 2:
            del values[random.randrange(len(values)) :]
        case _:
            values.extend([made] * random.choice((1, 3, 5000)))


def _wire(model: Any, random: Random) -> None:
    """An operand more, less, or another one; two that are one."""
    node = random.choice(model.graph.node)
    names = [
        "",
        "nowhere",
        *(t.name for t in model.graph.initializer),
        *(o for n in model.graph.node for o in n.output),
        "x",
    ]
    wires = random.choice((node.input, node.input, node.output))
    match random.randrange(3):
        case 0 if wires:
            wires[random.randrange(len(wires))] = random.choice(names)
        case 1 if wires:
            del wires[random.randrange(len(wires))]
        case _:
            wires.append(random.choice(names))


def _node(model: Any, random: Random) -> None:
    """A node removed, repeated, moved, or of another operator, domain or opset."""
    nodes = model.graph.node
    at = random.randrange(len(nodes))
    match random.randrange(6):
        case 0:
            del nodes[at]
        case 1:
            nodes.append(nodes[at])
        case 2:
            moved = random.choice(nodes)
            nodes.remove(moved)
            nodes.insert(at, moved)
        case 3:
            nodes[at].domain = random.choice(("ai.onnx", "com.microsoft", "\n"))
        case 4:
            model.opset_import[0].version = random.choice(INTEGERS)
        case _:
            nodes[at].op_type = random.choice(OPERATORS)


def _tensor(model: Any, random: Random) -> None:
    """An initialiser of other extents, another type, other or less data, a file beside the model, or none at all."""
    from onnx import TensorProto

    tensor = random.choice(model.graph.initializer)
    match random.randrange(7):
        case 0 | 1 if tensor.dims:
            tensor.dims[random.randrange(len(tensor.dims))] = random.choice(INTEGERS)
        case 2:
            tensor.data_type = random.randrange(28)
        case 3:
            tensor.raw_data = mutate_bytes(tensor.raw_data, random)
        case 4:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            place = random.choice(
                (NETWORK, "gone.bin", "../../../../etc/passwd", "/etc/passwd", "", ".", "/dev/zero", "a\0b")
            )
            described = {
                "location": place,
                "offset": str(random.choice(INTEGERS)),
                "length": str(random.choice(INTEGERS)),
            }
            for key in random.sample(sorted(described), random.randint(1, 3)):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, described[key]
        case 5:
            model.graph.initializer.remove(tensor)
        case _:
            count = random.choice((1, 4, 9))
            tensor.raw_data = (
                np.array([random.choice(FLOATS)] * count, np.float32).tobytes() + tensor.raw_data[4 * count :]
            )


def _shape(model: Any, random: Random) -> None:
    """The image of other extents, more or less dimensions, without a shape; the output renamed, gone or there twice."""
    dims = model.graph.input[0].type.tensor_type.shape.dim
    match random.randrange(6):
        case 0 | 1 if dims:
            dims[random.randrange(len(dims))].dim_value = random.choice(INTEGERS)
        case 2:
            dims.add().dim_value = random.choice(INTEGERS)
        case 3 if dims:
            random.choice(dims).dim_param = random.choice(("batch", "\n", "N" * 2000))
        case 4:
            model.graph.output[0].name = random.choice(("x", "nowhere", "c", "", "w"))
        case _:
            holder = random.choice((model.graph.input, model.graph.output))
            if random.random() < 0.5:
                holder.append(holder[0])
            else:
                del holder[:]


def _corpus() -> tuple[FuzzCase, ...]:
    hardware = corpus_files("hardware")["mesh.json"]
    command = ("--space", "cm", "--input", NETWORK, "--hardware", "mesh.json", *TUNE)
    return tuple(
        FuzzCase("onnx", command, {NETWORK: network, "mesh.json": hardware}) for network in networks().values()
    )


GRAPH_MUTATIONS = (_attribute, _attribute, _wire, _node, _tensor, _tensor, _shape)

ONNX = Kind(
    "onnx",
    _corpus,
    (
        on_files(NETWORK, mutate_bytes),
        on_files(NETWORK, mutate_bytes),
        *(on_files(NETWORK, parsed(mutate)) for mutate in GRAPH_MUTATIONS),
    ),
    named=(NETWORK_NAME, "small", "listed"),
)
