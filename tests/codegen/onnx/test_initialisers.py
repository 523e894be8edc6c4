"""Constants go into rewritten files as they are."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen.onnx.emission import IntegerNodes
from kilotune.codegen.onnx.graph import Graph


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_a_constant_keeps_its_dimensions(shape: tuple[int, ...]) -> None:
    """Clip takes limits without any, and refuses a vector of one."""
    onnx = pytest.importorskip("onnx")
    value = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape).T
    nodes = IntegerNodes(Graph("g", "x", (), (), {}), 13, {"limit": value, "unread": value})
    nodes.nodes.append(onnx.helper.make_node("Clip", ["x", "limit"], ["y"]))
    (tensor,) = nodes.initialisers()
    assert tensor.name == "limit"
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), value)
    assert tuple(tensor.dims) == value.shape
