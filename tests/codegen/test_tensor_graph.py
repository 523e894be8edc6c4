"""Lifetimes of tensors by the order in which operators run."""

from __future__ import annotations

import pytest

from kilotune.codegen.tensor_graph import GraphOperator, GraphTensor, TensorGraph

GRAPH = TensorGraph(
    "diamond",
    tuple(GraphTensor(name, 8, k) for k, name in enumerate(("x", "a", "b", "dead", "y"))),
    (
        GraphOperator("A", ("x",), ("a",)),
        GraphOperator("B", ("x",), ("b", "dead")),
        GraphOperator("C", ("a", "b"), ("y",)),
    ),
    ("x",),
    ("y", "a"),
)


def test_lifetimes_follow_the_order() -> None:
    """Outputs live to the end, what nobody reads for the operator that writes it."""
    assert GRAPH.lifetimes((0, 1, 2)) == {"x": (0, 2), "a": (0, 3), "b": (1, 3), "dead": (1, 2), "y": (2, 3)}
    assert GRAPH.lifetimes((1, 0, 2)) == {"x": (0, 2), "a": (1, 3), "b": (0, 3), "dead": (0, 1), "y": (2, 3)}


@pytest.mark.parametrize("order", [(0, 2, 1), (0, 1), (0, 1, 1), (0, 1, 3)])
def test_orders_that_do_not_run(order: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"reads b before it is written|has each of them once"):
        GRAPH.lifetimes(order)


def test_a_graph_without_operators() -> None:
    alone = TensorGraph("empty", (GraphTensor("x", 4, 0),), (), ("x",), ("x",))
    assert alone.lifetimes(()) == {"x": (0, 1)}
