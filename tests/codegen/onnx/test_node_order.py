"""The order in which nodes run, where a file has them in another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

from kilotune.codegen.onnx.importing import load_model
from kilotune.codegen.onnx.node_order import running_order
from tests.codegen.trained.onnx_files import converted, float_results, reference


@st.composite
def chains(draw: st.DrawFn) -> list[onnx.NodeProto]:
    """Sorted nodes, each of which reads some results of those before it."""
    count = draw(st.integers(1, 8))
    reads = [draw(st.lists(st.integers(0, number), max_size=3)) for number in range(count)]
    return [
        helper.make_node("Sum", [f"t{name}" for name in names], [f"t{number + 1}"])
        for number, names in enumerate(reads)
    ]


@given(data=st.data(), nodes=chains())
def test_each_node_follows_on_those_that_it_reads(data: st.DataObject, nodes: list[onnx.NodeProto]) -> None:
    assert running_order(nodes) == list(range(len(nodes)))
    mixed = data.draw(st.permutations(nodes))
    written = {"t0"}
    for number in running_order(mixed):
        assert written.issuperset(mixed[number].input)
        written.update(mixed[number].output)
    assert len(written) == len(nodes) + 1


def test_what_a_graph_inside_reads_is_read_by_its_node() -> None:
    inside = helper.make_graph([helper.make_node("Relu", ["late"], ["r"])], "inside", [], [])
    nodes = [helper.make_node("If", ["x"], ["y"], then_branch=inside), helper.make_node("Neg", ["x"], ["late"])]
    assert running_order(nodes) == [1, 0]


def test_circles_come_last() -> None:
    nodes = [
        helper.make_node("Neg", ["b"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Neg", ["x"], ["c"]),
    ]
    assert running_order(nodes) == [2, 0, 1]


def test_a_network_made_float16_is_imported(tmp_path: Path) -> None:
    """The tool's casts stand behind all other nodes, and ONNX Runtime runs the file."""
    random = np.random.default_rng(0)
    weights = {"w": random.normal(size=(8, 6)), "v": random.normal(size=(6, 3))}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Relu", ["a"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["m"]),
            helper.make_node("Softmax", ["m"], ["y"], axis=1),
        ],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(values.astype(np.float32), name) for name, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(convert_float_to_float16(model, keep_io_types=True), tmp_path / "half.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "half.onnx").graph.node][-1] == "Cast"
    assert load_model(tmp_path / "half.onnx").graph.node[0].op_type == "Cast"
    features = random.normal(size=(50, 8))
    np.testing.assert_allclose(
        float_results(converted(tmp_path / "half.onnx"), features),
        reference(tmp_path / "half.onnx", features),
        atol=0.01,
    )
