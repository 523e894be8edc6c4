"""Operators one by one: in floats what onnxruntime computes of the file, in integers what it computes of the rewritten file, as whole
tensors and executed on cores with little room."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.graph import ConvNode, FunctionNode, MaxPoolNode, PermuteNode, ProductNode, TableNode, known
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise
from kilotune.codegen.onnx.random_weights import with_random_weights
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.functional import ScheduleParameters, run
from tests.codegen.cm.networks import expected_integers, model, outputs_of
from tests.codegen.onnx.operator_files import (
    FILES,
    SCALES,
    Split,
    around,
    drawn,
    one,
    transposed,
)


@pytest.mark.parametrize("name", FILES)
def test_floats_and_integers_are_those_of_onnxruntime(name: str) -> None:
    proto = FILES[name]()
    graph = import_model(proto, "net")
    images = drawn(1, 3, *graph.shapes[graph.input])
    as_in_the_file = [np.moveaxis(image, 0, -1) if graph.image_last else image for image in images]
    exact = outputs_of(proto, as_in_the_file)
    floats = [graph.outputs[0].as_file(evaluate(graph, image)[graph.output]) for image in images]
    coarse = 0.02 if name == "quantised file" else 1e-4  # that file rounds to 0.02, which is not imported
    np.testing.assert_allclose(np.stack(floats), np.stack(exact), rtol=1e-4, atol=coarse)

    quantised = quantise(graph, images)
    integers = [quantised.image(image) for image in images]
    expected = expected_integers(proto, quantised, integers)
    found = [
        quantised.graph.outputs[0].as_file(evaluate(quantised.graph, i, integer=True)[graph.output]) for i in integers
    ]
    np.testing.assert_array_equal(found, expected)
    scaled = np.stack(expected) * 2.0 ** quantised.exponents[graph.output]
    error = np.sqrt(np.square(scaled - np.stack(exact)).sum() / np.square(exact).sum())
    assert error < 0.1

    network = partition(quantised.graph)
    replicas = {p.name: Split(min(2, p.height), "rows") for p in network.partitions[::2]}
    lowered = lower(network, Crossbar(20, 3), replicas)
    free = run(lowered, integers)
    tight = run(lowered, integers, ScheduleParameters(capacities=free.fullest))
    np.testing.assert_array_equal(np.stack(tight.outputs), expected)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_the_place_of_the_largest_channel_at_the_end_of_a_file(keepdims: int) -> None:
    """An int64 in the file, among floats in the rewritten one."""
    last = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("ArgMax", ["a"], ["y"], axis=1, keepdims=keepdims),
    ]
    proto = model(last, [1, 3, 6, 6], {"w": drawn(0.4, 4, 3, 3, 3)}, 16)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    graph = import_model(proto, "net")
    images = drawn(1, 3, *graph.shapes["x"])
    quantised = quantise(graph, images)
    integers = [quantised.image(image) for image in images]
    found = [quantised.graph.outputs[0].as_file(evaluate(quantised.graph, i, integer=True)["y"]) for i in integers]
    np.testing.assert_array_equal(found, expected_integers(proto, quantised, integers))
    assert np.mean(np.stack(found) == np.stack(outputs_of(proto, list(images)))) > 0.8


def test_a_gate_of_its_own_argument_is_one_table() -> None:
    graph = import_model(FILES["Swish"](), "net")
    assert [type(n).__name__ for n in graph.nodes] == ["ConvNode", "FunctionNode", "ConvNode"]
    assert isinstance(graph.nodes[1], FunctionNode)
    assert graph.nodes[1].gated
    both = around(
        [
            helper.make_node("Sigmoid", ["a"], ["s"]),
            helper.make_node("Mul", ["a", "s"], ["p"]),
            helper.make_node("Add", ["p", "s"], ["b"]),
        ]
    )
    kept = import_model(both, "net").nodes
    assert any(isinstance(n, ProductNode) for n in kept), "what somebody else reads stays"


def test_views_cost_no_nodes() -> None:
    graph = import_model(FILES["Gather of channels"](), "net")
    assert isinstance(graph.nodes[1], PermuteNode)
    assert graph.nodes[1].order == (3, 0, 0, 2)
    enlarged = import_model(FILES["Resize"](), "net")
    node = enlarged.nodes[1]
    assert isinstance(node, MaxPoolNode)
    assert node.window.most_taps == 1
    assert enlarged.shapes["b"] == (4, 12, 18)


def test_weights_at_random_leave_what_an_operator_means() -> None:
    graph = import_model(FILES["LRN"](), "net")
    drawn = with_random_weights(graph, 3)
    weights = {n.output: [known(n.weight).tolist()] for n in graph.nodes if isinstance(n, ConvNode)}
    for node in drawn.nodes:
        if isinstance(node, ConvNode):
            weights[node.output].append(known(node.weight).tolist())
    assert {name: one == other for name, (one, other) in weights.items()} == {"a": False, "b/sums": True, "y": False}


REFUSED = {
    "cubic": (lambda: one("Resize", SCALES, mode="cubic"), "expected mode nearest or linear, found cubic"),
    "corners between pixels": (
        lambda: one("Resize", SCALES, mode="linear", coordinate_transformation_mode="align_corners"),
        "expected half_pixel or asymmetric where pixels are interpolated, found align_corners",
    ),
    "half a factor": (
        lambda: one("Upsample", {"scales": np.float32([1, 1, 1.5, 2])}, opset=9),
        r"expected whole factors for height and width, found \[1.0, 1.0, 1.5, 2.0\]",
    ),
    "corners": (
        lambda: one("Resize", SCALES, mode="nearest", coordinate_transformation_mode="align_corners"),
        "expected every pixel repeated alike, found align_corners with round_prefer_floor",
    ),
    "channels": (
        lambda: one("ReduceMean", axes=[1, 2]),
        r"expected a reduction over height and width, found axes \[1, 2\]",
    ),
    "rows": (
        lambda: around([helper.make_node("Split", ["a"], ["b", "c"], axis=2)]),
        r"expected a split of channels \(axis 1\), found axis 2",
    ),
    "cut off": (lambda: transposed(2, 2, 2, 0, 1), "expected strides, and padding less than the kernel's reach"),
    "turned": (
        lambda: around([helper.make_node("Transpose", ["a"], ["b"], perm=[0, 1, 3, 2])]),
        r"or of channels behind the image or back, found perm \[0, 1, 3, 2\]",
    ),
    "last": (
        lambda: around(
            [
                helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 3, 1]),
                helper.make_node("Unsqueeze", ["t", "axis"], ["b"]),
            ],
            {"axis": np.array([1])},
        ),
        r"expected channels before height and width, found them last in shape \[1, 6, 6, 4\]",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_covered_is_named(what: str) -> None:
    make, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        import_model(make(), "net")


def test_a_function_that_is_not_finite_somewhere_takes_the_nearest_value() -> None:
    proto = one("Sqrt")
    graph = import_model(proto, "net")
    image = np.zeros(graph.shapes[graph.input])
    quantised = quantise(graph, [image])
    table = next(n for n in quantised.graph.nodes if isinstance(n, TableNode))
    values = known(table.table).tolist()
    assert values[: -table.first + 1] == [0] * (-table.first + 1)
    assert values == sorted(values)
