"""The order in which nodes run, where a file has them in another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.arena import read_arena
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.node_order import running_order
from kilotune.codegen.onnx.quantise import quantise
from kilotune.codegen.onnx.rewriting import integer_model
from tests.codegen.cm.digits import digits_images, digits_network
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
    features = random.normal(size=(50, 8))
    np.testing.assert_allclose(
        float_results(converted(tmp_path / "half.onnx"), features),
        reference(tmp_path / "half.onnx", features),
        atol=0.01,
    )


def reversed_chain(operators: list[str]) -> onnx.ModelProto:
    """A network of which the last node stands first in the file."""
    nodes = [helper.make_node(kind, [f"t{number}"], [f"t{number + 1}"]) for number, kind in enumerate(operators)]
    ends = [helper.make_tensor_value_info(f"t{number}", TensorProto.FLOAT, [1, 4]) for number in (0, len(operators))]
    graph = helper.make_graph(nodes[::-1], "reversed", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=8)


def test_messages_number_nodes_as_the_file_does(tmp_path: Path) -> None:
    path = tmp_path / "reversed.onnx"
    onnx.save(reversed_chain(["Relu", "Neg", "Det"]), path)
    with pytest.raises(InputError, match=r"node 0 \(Det that writes 't3'\)"):
        converted(path)
    with pytest.raises(InputError, match=r"node 0 \(Det that writes 't3'\)"):
        import_model(onnx.load(path), str(path))


def test_tensors_of_a_file_are_read_in_the_order_in_which_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "reversed.onnx"
    onnx.save(reversed_chain(["Relu", "Neg", "Abs"]), path)
    assert [operator.name for operator in read_arena(path).operators] == ["Relu 2", "Neg 1", "Abs 0"]


def test_a_file_whose_nodes_are_not_sorted_is_rewritten_with_integers() -> None:
    images = digits_images(16)[0][:4]
    sorted_file, mixed = digits_network(16), digits_network(16)
    nodes = list(mixed.graph.node)[::-1]
    del mixed.graph.node[:]
    mixed.graph.node.extend(nodes)
    quantised = quantise(import_model(sorted_file, "digits"), images)
    wanted = integer_model(sorted_file, quantised).SerializeToString()
    assert integer_model(mixed, quantise(import_model(mixed, "digits"), images)).SerializeToString() == wanted
