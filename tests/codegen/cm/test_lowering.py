"""Partitions, crossbar blocks, replicas: invariants, known counts, and that the parts make up the whole."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from onnx import helper

from kilotune.codegen.cm.blocks import Crossbar, column_blocks, input_channels
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import PartitionGraph, partition
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.onnx.crossbar_products import matrix
from kilotune.codegen.onnx.graph import ConvNode, Window, window_of
from kilotune.codegen.onnx.importing import import_model
from kilotune.experiments.models.onnx_networks import lenet5, resnet20
from tests.codegen.cm.networks import RandomNetwork, model


@dataclass(frozen=True)
class Split:
    count: int
    axis: str = "rows"


def conv(inputs: int, outputs: int, kernel: int, groups: int = 1) -> ConvNode:
    weight = np.arange(outputs * (inputs // groups) * kernel * kernel, dtype=np.float64)
    shape = (outputs, inputs // groups, kernel, kernel)
    return ConvNode(("x",), "y", weight.reshape(shape), np.zeros(outputs), Window((kernel, kernel)), groups)


def test_crossbars_of_the_facts() -> None:
    """ResNet-20 and VGG-16, convolutions, 256 x 256."""
    resnet = [(3, 16)] + [(16, 16)] * 6 + [(16, 32)] + [(32, 32)] * 5 + [(32, 64)] + [(64, 64)] * 5
    widths = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    vgg = list(pairwise(widths))
    for network, expected in ((resnet, 35), (vgg, 233)):
        blocks = [b for inputs, outputs in network for b in column_blocks(conv(inputs, outputs, 3), Crossbar())]
        assert sum(block.row_blocks for block in blocks) == expected


@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "groups"), [(5, 7, 3, 1), (8, 8, 3, 8), (6, 4, 2, 2), (12, 9, 1, 3), (4, 40, 1, 2)]
)
@pytest.mark.parametrize(
    "crossbar", [Crossbar(10, 3), Crossbar(20, 8), Crossbar(7, 100, 2), Crossbar(256, 256), Crossbar(10, 3, 4)]
)
def test_blocks_fit_and_make_up_the_matrix(
    inputs: int, outputs: int, kernel: int, groups: int, crossbar: Crossbar
) -> None:
    node = conv(inputs, outputs, kernel, groups)
    full = np.zeros((outputs, inputs, kernel * kernel))
    for o in range(outputs):
        group = o // (outputs // groups)
        start = group * (inputs // groups)
        full[o, start : start + inputs // groups] = node.weight[o].reshape(-1, kernel * kernel)
    seen = np.zeros(full.shape, dtype=int)
    for block in column_blocks(node, crossbar):
        parts = [matrix(node, block, row) for row in range(block.row_blocks)]
        crossbars = max(-(-p.shape[1] // crossbar.rows) * -(-len(p) // crossbar.columns) for p in parts)
        assert crossbars <= crossbar.per_core
        whole = np.concatenate(parts, axis=1).reshape(len(parts[0]), -1, kernel * kernel)
        np.testing.assert_array_equal(whole, full[block.first : block.last, block.first_input : block.last_input])
        seen[block.first : block.last, block.first_input : block.last_input] += 1
        ranges = [input_channels(node, block, row) for row in range(block.row_blocks)]
        assert ranges[0][0] == block.first_input
        assert ranges[-1][1] == block.last_input
    assert seen.max() == 1
    assert (full[seen == 0] == 0).all()


def test_crossbars_of_a_core_hold_all_columns_side_by_side_and_as_many_rows_as_there_is_room_for() -> None:
    """144 crossbars of 128 x 128: 36 one below another, four side by side, three cores of 12 rows of them. Of 20 columns and crossbars of
    8, two on a core, two times 10."""
    (block,) = column_blocks(conv(512, 512, 3), Crossbar(128, 128, 64))
    assert block.row_bounds == (0, 1536, 3072, 4608)
    assert [(b.first, b.last, b.row_blocks) for b in column_blocks(conv(2, 20, 1), Crossbar(8, 8, 2))] == [
        (0, 10, 1),
        (10, 20, 1),
    ]


def figure_2() -> PartitionGraph:
    """Two convolutions, and an addition of both outputs."""
    weights = {"w": np.ones((3, 3, 3, 3), np.float32), "v": np.ones((3, 3, 3, 3), np.float32)}
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c1"], **pads),
        helper.make_node("Conv", ["c1", "v"], ["c2"], **pads),
        helper.make_node("Add", ["c1", "c2"], ["y"]),
    ]
    return partition(import_model(model(nodes, [1, 3, 8, 8], weights), "figure 2"))


def test_figure_2_has_two_partitions_and_no_cycle() -> None:
    network = figure_2()
    assert [[p.name, *(n.output for n in p.nodes)] for p in network.partitions] == [["c1"], ["c2", "y"]]
    pipeline = lower(network, Crossbar()).pipeline
    assert [(e.writer, e.reader) for e in pipeline.edges] == [(GMEM, 0), (0, 1)], "one array for both readers in c2"
    assert pipeline.outputs == (1,)
    needed = pipeline.edges[1].needed
    assert needed[0] == 8 + 2, "a same-padded 3 x 3 waits for a row and two pixels"
    assert needed[-1] == 64


@pytest.mark.parametrize("seed", range(25))
def test_invariants_of_partitions_and_pipelines(seed: int) -> None:
    graph = import_model(RandomNetwork(seed).model(14), "random")
    network = partition(graph)
    for part in network.partitions:
        assert sum(window_of(node) is not None for node in part.nodes) == 0, "at most one window, the head"
        for node in ([] if part.head is None else [part.head]) + list(part.nodes):
            owners = {network.partition_of[s.tensor] for name in node.inputs for s in network.segments[name]}
            assert all(owner <= part.number for owner in owners)
            assert part.head is not node or part.number not in owners
    axis = ("rows", "columns")[seed % 2]
    split = {p.name: Split(min(2, p.height if axis == "rows" else p.width), axis) for p in network.partitions}
    pipeline = lower(network, Crossbar(18, 3), split).pipeline
    assert len({stage.name for stage in pipeline.stages}) == len(pipeline.stages)
    for edge in pipeline.edges:
        assert edge.writer < edge.reader
        iterations = pipeline.writer_iterations(edge)
        assert len(edge.needed) == len(edge.released) == pipeline.stages[edge.reader].iterations
        assert (np.diff(edge.needed) >= 0).all()
        assert (np.diff(edge.released) >= 0).all()
        assert edge.needed[-1] <= iterations == edge.released[-1]
        sent = np.ones(iterations, bool) if edge.sent is None else edge.sent
        assert sent.any()
        assert sent[edge.needed[-1] - 1], "the last one waited for is read"
        limit = pipeline.input_elements if edge.writer == GMEM else pipeline.stages[edge.writer].output_elements
        assert 0 < edge.elements <= limit
    covered = {p.name: 0 for p in network.partitions}
    for stage in pipeline.stages:
        covered[stage.layer] += stage.iterations if (stage.row_block, stage.column_block) == (0, 0) else 0
    assert covered == {p.name: p.height * p.width for p in network.partitions}


def test_row_blocks_add_up_at_the_last_one() -> None:
    pipeline = lower(figure_2(), Crossbar(10, 2)).pipeline
    names = [stage.name for stage in pipeline.stages]
    assert names[:6] == ["c1/0,0", "c1/1,0", "c1/2,0", "c1/0,1", "c1/1,1", "c1/2,1"]
    into_last = [names[e.writer] for e in pipeline.edges if e.reader == 2 and e.writer != GMEM]
    assert into_last == ["c1/0,0", "c1/1,0"]
    partial = next(e for e in pipeline.edges if e.reader == 2 and e.writer == 0)
    assert partial.needed.tolist() == list(range(1, 65))


def test_chained_row_blocks_add_up_one_after_another() -> None:
    network = figure_2()
    star, chain = (lower(network, Crossbar(10, 2), chained=names) for names in ((), {"c1"}))
    names = [stage.name for stage in chain.pipeline.stages]
    blocks = {"c1/0,0", "c1/1,0", "c1/2,0"}
    sums = [(e.writer, e.reader) for e in chain.pipeline.edges if {names[e.writer], names[e.reader]} <= blocks]
    assert sums == [(0, 1), (1, 2)]
    assert len(star.pipeline.edges) == len(chain.pipeline.edges)
    # 9, 18 rows of 7 and 8 bits: a sum of twice as many has one bit more
    bits = [[p.pipeline.stages[s].output_bits for s in (0, 1)] for p in (star, chain)]
    assert bits == [[7 + 8 + 4] * 2, [7 + 8 + 4, 7 + 8 + 5]]
    reads = [p.pipeline.stages[1].read_bits for p in (star, chain)]
    assert reads == [9 * 8, 9 * 8 + 7 + 8 + 4]


def test_replicas_are_sent_their_rows_and_a_halo() -> None:
    pipeline = lower(figure_2(), Crossbar(), {"c2": Split(4)}).pipeline
    from_c1 = [e for e in pipeline.edges if e.writer == 0]
    sent_rows = [
        sorted({int(i) // 8 for i in np.flatnonzero(np.ones(64) if e.sent is None else e.sent)}) for e in from_c1
    ]
    assert sent_rows == [[0, 1, 2], [1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7]]


@pytest.mark.parametrize(
    ("replicas", "message"),
    [({"c9": Split(2)}, "no layer 'c9'"), ({"c1": Split(9)}, "9 replicas of rows"), ({"c1": Split(2, "up")}, "of up")],
)
def test_impossible_plans(replicas: dict[str, Split], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lower(figure_2(), Crossbar(), replicas)


def test_stages_of_the_made_networks() -> None:
    counts = {}
    for name, proto in (("lenet5", lenet5()), ("resnet20", resnet20())):
        pipeline = lower(partition(import_model(proto, name)), Crossbar()).pipeline
        counts[name] = (len(pipeline.stages), sum(stage.crossbar_rows > 0 for stage in pipeline.stages))
    # LeNet-5: 2 pools, 5 matrices, 400 inputs of the first fully connected layer on two cores;
    # ResNet-20: the 35 of the facts, 2 projections, the classifier, and the global pool.
    assert counts == {"lenet5": (8, 6), "resnet20": (39, 38)}
