"""The tensors of ONNX graphs: sizes by shape inference, constants left out, one sentence for what has no size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.arena import read_arena


def save(path: Path, nodes: list[onnx.NodeProto], shape: list[int | str], weights: dict[str, np.ndarray]) -> Path:
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.own", 1)]),
        str(path),
    )
    return path


def test_sizes_and_readers(tmp_path: Path) -> None:
    """A free batch is 1. What is computed from shapes and initialisers alone is a constant."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Cast", ["c"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["half"], ["full"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["full", "c"], ["y"]),
    ]
    weights = {"w": np.zeros((5, 2, 3, 3), dtype=np.float32)}
    graph = read_arena(save(tmp_path / "n.onnx", nodes, ["batch", 2, 8, 6], weights))
    sizes = {"x": 4 * 2 * 48, "c": 4 * 5 * 24, "half": 2 * 5 * 24, "full": 4 * 5 * 24, "y": 4 * 5 * 24}
    assert {t.name: t.size_bytes for t in graph.tensors} == sizes
    assert [(o.name, o.reads, o.writes) for o in graph.operators] == [
        ("Conv 1", ("x",), ("c",)),
        ("Cast 2", ("c",), ("half",)),
        ("Cast 3", ("half",), ("full",)),
        ("Add 4", ("full", "c"), ("y",)),
    ]
    assert graph.lifetimes(graph.file_order)["c"] == (0, 4)


RELU = helper.make_node("Relu", ["x"], ["y"])
FOUND = [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["y"], to=1)]


def custom(read: str) -> onnx.NodeProto:
    return helper.make_node("Mine", [read], ["y"], domain="my.own")


@pytest.mark.parametrize(
    ("nodes", "shape", "sentence"),
    [
        ([RELU], [1, "rows", 4], "expected fixed sizes of 'x', found dynamic shape 1xrowsx4"),
        (FOUND, [1, 4], "expected fixed sizes of 'n', found dynamic shape 2x"),
        ([custom("z")], [1, 4], "node 0 (Mine): expected inputs that were written before, found 'z'"),
        ([custom("x")], [1, 4], "node 0 (Mine): expected a tensor 'y' of known shape, found none"),
        ([helper.make_node("Relu", ["z"], ["y"])], [1, 4], "expected a graph whose shapes can be inferred"),
    ],
)
def test_what_has_no_size_is_refused(tmp_path: Path, nodes, shape, sentence: str) -> None:  # type: ignore[no-untyped-def]
    path = save(tmp_path / "n.onnx", nodes, shape, {})
    with pytest.raises(InputError) as caught:
        read_arena(path)
    assert sentence in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_control_flow_is_refused(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"])], "then", [], [helper.make_tensor_value_info("r", 1, [1, 4])]
    )
    nodes = [
        helper.make_node("Constant", [], ["c"], value=helper.make_tensor("v", TensorProto.BOOL, [], [True])),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    with pytest.raises(InputError, match="expected a graph without subgraphs, found If"):
        read_arena(save(tmp_path / "n.onnx", nodes, [1, 4], {}))


@pytest.mark.parametrize("present", [True, False])
def test_shapes_that_lie_beside_the_file_are_read_and_weights_need_not_be_there(tmp_path: Path, present: bool) -> None:
    """All constants lie beside it: weights, a bias, a Reshape's shape, a Resize's factors."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("Resize", ["c", "", "factors"], ["r"]),
        helper.make_node("Reshape", ["r", "s"], ["y"]),
    ]
    weights = {
        "w": np.zeros((5, 2, 3, 3), dtype=np.float32), "b": np.zeros(5, dtype=np.float32),
        "factors": np.array([1, 1, 2, 2], dtype=np.float32), "s": np.array([1, -1], dtype=np.int64),
    }  # fmt: skip
    path = save(tmp_path / "n.onnx", nodes if present else nodes[:1], ["batch", 2, 8, 6], weights)
    model = onnx.load(str(path))
    if not present:
        model.graph.output[0].name = "c"
    onnx.save_model(model, str(path), save_as_external_data=True, location="n.data", size_threshold=0)
    if not present:
        (tmp_path / "n.data").unlink()
    sizes = {t.name: t.size_bytes for t in read_arena(path).tensors}
    image = {"x": 4 * 2 * 48, "c": 4 * 5 * 24}
    assert sizes == ({**image, "r": 4 * 4 * 5 * 24, "y": 4 * 4 * 5 * 24} if present else image)
