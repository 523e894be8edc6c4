"""Lines between limits, as exporters write the gate of HardSwish: one function with the product behind it, where nobody else reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from kilotune.codegen.onnx.functions import CLIPPED_LINE
from kilotune.codegen.onnx.graph import FunctionNode, Graph
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.reference import evaluate
from tests.codegen.cm.networks import model

IMAGE = [1, 2, 3, 40]


def gated_line(extra: list[Any], outputs: list[str], **other: NDArray[Any]) -> Any:
    """x * clip(x + 3, 0, 6) / 6 as four nodes on the image itself, in steps that reach both limits, and what else reads of it."""
    constants: dict[str, NDArray[Any]] = {
        "three": np.float32(3),
        "zero": np.float32(0),
        "six": np.float32(6),
        "factor": np.float32(1 / 6),
        **other,
    }
    nodes = [
        helper.make_node("Add", ["x", "three"], ["shifted"]),
        helper.make_node("Clip", ["shifted", "zero", "six"], ["clipped"]),
        helper.make_node("Mul", ["clipped", "x"], ["product"]),
        helper.make_node("Mul", ["product", "factor"], ["b"]),
        *extra,
        *(helper.make_node("Identity", [name], [f"y{number}"]) for number, name in enumerate(outputs)),
    ]
    proto = model(nodes, IMAGE, constants, output="y0")
    more = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(1, len(outputs))]
    proto.graph.output.extend(more)
    return proto


def kinds(graph: Graph) -> list[str]:
    return [type(node).__name__.removesuffix("Node") for node in graph.nodes]


def assert_equal_to_onnxruntime(proto: Any, graph: Graph) -> None:
    image = np.linspace(-9, 9, num=240, dtype=np.float32).reshape(IMAGE[1:])
    found = evaluate(graph, image)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for output, exact in zip(graph.outputs, session.run(None, {"x": image[None]}), strict=True):
        np.testing.assert_allclose(output.as_file(found[output.tensor]), exact[0], rtol=1e-5, atol=1e-5)


def test_four_nodes_are_one_function() -> None:
    proto = gated_line([], ["b"])
    graph = import_model(proto, "net")
    assert kinds(graph) == ["Function"]
    node = graph.nodes[0]
    assert isinstance(node, FunctionNode)
    assert node.function == CLIPPED_LINE
    assert node.gated
    np.testing.assert_allclose(node.parameters, (1 / 6, 0.5, 0, 1), rtol=1e-6)
    assert_equal_to_onnxruntime(proto, graph)
    assert {graph.folded[name] for name in ("shifted", "clipped", "product")} == {"b"}


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("clipped", ["Affine", "Clip", "Product", "Affine"]),
        ("shifted", ["Affine", "Clip", "Product", "Affine"]),
        ("product", ["Function", "Affine"]),
    ],
)
def test_what_is_an_output_as_well_stays(what: str, expected: list[str]) -> None:
    proto = gated_line([], ["b", what])
    graph = import_model(proto, "net")
    assert kinds(graph) == expected
    assert_equal_to_onnxruntime(proto, graph)


@pytest.mark.parametrize("other", [{"factor": np.float32(-0.5)}, {"factor": np.float32([1, 2]).reshape(1, 2, 1, 1)}])
def test_a_factor_that_turns_limits_or_differs_by_channel_stays(other: dict[str, NDArray[Any]]) -> None:
    proto = gated_line([], ["b"], **other)
    graph = import_model(proto, "net")
    assert kinds(graph) == ["Function", "Affine"]
    assert_equal_to_onnxruntime(proto, graph)


def test_an_offset_that_differs_by_channel_is_no_line() -> None:
    proto = gated_line([], ["b"], three=np.float32([3, 2]).reshape(1, 2, 1, 1))
    graph = import_model(proto, "net")
    assert kinds(graph) == ["Affine", "Clip", "Product", "Affine"]
    assert_equal_to_onnxruntime(proto, graph)


def test_an_offset_behind_the_product_is_no_factor() -> None:
    proto = gated_line([helper.make_node("Add", ["b", "six"], ["c"])], ["c"])
    graph = import_model(proto, "net")
    assert kinds(graph) == ["Function", "Affine"]
    assert_equal_to_onnxruntime(proto, graph)


def test_a_clip_of_something_else_is_no_line() -> None:
    proto = gated_line([helper.make_node("Mul", ["clipped", "b"], ["c"])], ["c"])
    graph = import_model(proto, "net")
    assert kinds(graph).count("Product") == 2
    assert_equal_to_onnxruntime(proto, graph)
