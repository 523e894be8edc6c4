"""One message says everything that keeps a file from being imported."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.importing import import_model
from tests.codegen.cm.networks import model


def message(proto: object) -> str:
    with pytest.raises(InputError) as raised:
        import_model(proto, "net.onnx")
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_alike_obstacles_are_one_and_all_are_told() -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], value=helper.make_tensor("k", TensorProto.FLOAT, [], [2.0])),
        helper.make_node("Sin", ["x"], ["a"], name="gate"),
        helper.make_node("Mul", ["a", "k"], ["b"]),
        helper.make_node("Cos", ["b"], ["c"]),
        helper.make_node("Relu", ["x"], ["d"]),
        helper.make_node("Concat", ["d", "d"], ["e"], axis=3),
        helper.make_node("Cos", ["d"], ["f"]),
        helper.make_node("FancyNorm", ["f"], ["y"], domain="mine"),
    ]
    said = message(model(nodes, [1, 2, 3, 3], {}))
    first, besides = said.split("; besides: ")
    assert first.startswith("net.onnx: node 1 'gate' (Sin that writes 'a'): expected a supported operator (")
    assert first.endswith("found Sin")
    others = besides.split("; ")
    assert others[0] == "Cos (2 nodes, the first is node 3): not supported"
    assert others[1].startswith("Concat (node 5): expected ")
    assert others[2:] == ["mine.FancyNorm (node 7): not supported"]


def test_one_obstacle_is_said_as_ever() -> None:
    said = message(model([helper.make_node("Sin", ["x"], ["y"])], [1, 2, 3, 3], {}))
    assert "besides" not in said
    assert "node 0 (Sin that writes 'y'): expected a supported operator" in said


def test_operators_are_looked_at_where_the_image_is_not_known() -> None:
    """A node without operands of its own, too: nothing may be computed then."""
    nodes = [
        helper.make_node("Constant", [], ["k"], value=helper.make_tensor("k", TensorProto.FLOAT, [], [2.0])),
        helper.make_node("Mul", ["x", "k"], ["a"]),
        helper.make_node("Sin", ["a"], ["y"]),
    ]
    said = message(model(nodes, [1, 3, "h", "w"], {}))
    assert "input 'x': expected fixed channels, height and width, found dynamic shape 1x3xhxw; besides: " in said
    assert said.endswith("besides: Sin (node 2): not supported")


def test_a_file_full_of_obstacles_is_still_a_line_of_bounded_length() -> None:
    nodes = [helper.make_node(f"Operator{n}" + "x" * 300, ["x"], [f"t{n}"]) for n in range(300)]
    weights = {"w": np.zeros(1, np.float32)}
    assert len(message(model([*nodes, helper.make_node("Relu", ["x"], ["y"])], [1, 2, 3, 3], weights))) < 3000
