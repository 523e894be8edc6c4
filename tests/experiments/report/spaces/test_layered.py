"""Layouts of graphs in layers."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.experiments.problems.reverse_split.figures.layered import NODE_GAP, LayeredDrawing, layered

Edges = list[tuple[int, int]]


def crossings(layout: LayeredDrawing) -> int:
    """Pairs of edges that cross between two layers."""
    pieces: dict[float, list[tuple[float, float]]] = {}
    for path in layout.paths:
        for (x, level), (beyond, _) in pairwise(path):
            pieces.setdefault(level, []).append((x, beyond))
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0 for lines in pieces.values() for at, a in enumerate(lines) for b in lines[:at]
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    nodes = draw(st.integers(1, 12))
    pairs = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).filter(lambda pair: pair[0] != pair[1])
    return nodes, [(min(pair), max(pair)) for pair in draw(st.lists(pairs, max_size=20))] if nodes > 1 else []


@given(graphs())
def test_edges_lead_down_one_layer_at_a_time_and_nodes_keep_apart(graph: tuple[int, Edges]) -> None:
    nodes, edges = graph
    layout = layered(nodes, edges)
    assert len(layout.x) == len(layout.layer) == nodes
    for (source, target), path in zip(edges, layout.paths, strict=True):
        assert path[0] == (layout.x[source], layout.layer[source])
        assert path[-1] == (layout.x[target], layout.layer[target])
        assert all(below - above == 1 for (_, above), (_, below) in pairwise(path))
    for level in range(layout.layers):
        row = sorted(x for x, at in zip(layout.x, layout.layer, strict=True) if at == level)
        assert all(right - left >= min(NODE_GAP, 0.8) for left, right in pairwise(row))


def test_the_layer_is_the_longest_way_from_the_top() -> None:
    layout = layered(5, [(0, 1), (1, 2), (0, 2), (2, 3), (0, 4)])
    assert layout.layer == (0, 1, 2, 3, 1)


def test_results_that_nobody_reads_are_at_the_bottom() -> None:
    layout = layered(5, [(0, 1), (1, 2), (0, 2), (2, 3), (0, 4)], last=[1, 4])
    assert layout.layer == (0, 1, 2, 3, 3)


@pytest.mark.parametrize("swapped", [False, True])
def test_crossings_that_can_be_undone_are(swapped: bool) -> None:
    below = (4, 3) if swapped else (3, 4)
    layout = layered(5, [(0, 1), (0, 2), (1, below[0]), (2, below[1])])
    assert crossings(layout) == 0
    assert crossings(layered(4, [(0, 3), (1, 2)])) == 0


def test_crossings_are_counted() -> None:
    bipartite = [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert crossings(layered(4, bipartite)) == 1
