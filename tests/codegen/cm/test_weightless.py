"""A graph without weights is the same thing as the file that it could have been: stages, edges and counts are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from kilotune.codegen.cm.blocks import Crossbar, column_blocks
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.cm.pipeline import Pipeline
from kilotune.codegen.onnx.crossbar_products import matrix
from kilotune.codegen.onnx.graph import AffineNode, ConvNode, Graph, UnknownArray
from kilotune.codegen.onnx.imported import Imported, OnnxNode, OnnxValue
from kilotune.codegen.onnx.importing import convert, graph_of, import_model
from kilotune.codegen.onnx.quantise import QuantisedGraph, integer_shape, quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from kilotune.codegen.onnx.topology import IMAGE, Topology
from kilotune.evaluators.cm.functional import run
from kilotune.experiments.problems.cm.networks import topology_of
from tests.codegen.cm.networks import RandomNetwork, expected_integers, onnx_file, without_weights

WEIGHTS_OF = {"Conv": slice(1, None), "Gemm": slice(1, None), "BatchNormalization": slice(1, None)}


@dataclass(frozen=True)
class Split:
    count: int
    axis: str


def read_without_weights(proto: Any) -> Graph:
    """The file's nodes, in whose place of weights only shapes stand: no value of them can have been looked at."""
    hidden = {name for node in proto.graph.node for name in list(node.input)[WEIGHTS_OF.get(node.op_type, slice(0))]}
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    shape = tuple(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim)
    known = {name: array for name, array in arrays.items() if name not in hidden}
    unknown = {name: UnknownArray(arrays[name].shape) for name in hidden & set(arrays)}
    imported = Imported(known, {"x": OnnxValue("x", shape)}, {"x": shape[1:]}, unknown=unknown)  # type: ignore[arg-type]
    for node in proto.graph.node:
        attributes = {a.name: list(a.ints) if a.ints else a.i for a in node.attribute}
        convert(imported, OnnxNode(node.op_type, tuple(node.input), tuple(node.output), attributes, 13))
    return graph_of(imported, "random", "x", [proto.graph.output[0].name])


def assert_equal(one: Pipeline, other: Pipeline) -> None:
    assert one.stages == other.stages
    assert one.outputs == other.outputs
    assert len(one.edges) == len(other.edges)
    for a, b in zip(one.edges, other.edges, strict=True):
        assert (a.writer, a.reader, a.elements, a.buffer_elements) == (
            b.writer,
            b.reader,
            b.elements,
            b.buffer_elements,
        )
        np.testing.assert_array_equal(a.needed, b.needed)
        np.testing.assert_array_equal(a.released, b.released)
        np.testing.assert_array_equal(a.sent is None or a.sent, b.sent is None or b.sent)


def quantised(graph: Graph) -> QuantisedGraph:
    return quantise(graph, random_images(graph.shapes[graph.input], 1, 0))


@pytest.mark.slow
def test_random_networks_give_the_same_pipeline_with_and_without_weights() -> None:
    replicated = aligned = affine = 0
    for seed in range(60):
        proto = RandomNetwork(seed).model(12)
        graph, weightless = import_model(proto, "random"), read_without_weights(proto)
        assert [(type(n), n.inputs, n.output) for n in graph.nodes] == [
            (type(n), n.inputs, n.output) for n in weightless.nodes
        ]
        assert graph.shapes == weightless.shapes
        affine += any(isinstance(n, AffineNode) for n in weightless.nodes)
        whole, shape = partition(quantised(graph).graph), partition(integer_shape(weightless))
        if any(">>" in name for name in whole.graph.shapes):
            aligned += 1  # operands of a Concat whose exponents differ: values that a weightless graph has not
            continue
        axis = ("rows", "columns")[seed % 2]
        split = {p.name: Split(min(2, p.height if axis == "rows" else p.width), axis) for p in whole.partitions}
        for crossbar in (Crossbar(), Crossbar(18, 3)):
            for replicas in ({}, split):
                with_weights, without = (lower(n, crossbar, replicas).pipeline for n in (whole, shape))
                assert_equal(with_weights, without)
                replicated += any(stage.replica for stage in without.stages)
    assert replicated > 60
    assert affine > 5
    assert aligned < 20


def test_a_named_network_is_the_file_that_it_could_have_been() -> None:
    topology, output = topology_of("resnet20")
    file = import_model(onnx_file(topology, output, seed=0), "resnet20")
    with_weights = lower(partition(quantised(file).graph), Crossbar()).pipeline
    assert_equal(with_weights, lower(partition(integer_shape(topology.graph(output))), Crossbar()).pipeline)


def padded_shortcut(stride: tuple[int, int], before: int, after: int, order: str) -> tuple[Topology, str]:
    """x every few rows and columns, between channels of zeros, added to a convolution of it; in either order."""
    net = Topology("option-a", (3, 7, 6))
    channels = 3 + before + after
    kernel = {"weight": (channels, 3, 3, 3)}
    x = net.node("Relu", [net.conv(IMAGE, "first", 3, 3)], "relu")
    y = net.node("Conv", [x], "second", kernel, pads=[1] * 4, strides=list(stride))
    for step in order:
        if step == "s":
            constants = {"starts": [0, 0], "ends": [7, 6], "axes": [2, 3], "steps": stride}
            x = net.node("Slice", [x], "pixels", constants=constants)
        else:
            x = net.node("Pad", [x], "wide", constants={"pads": [0, before, 0, 0, 0, after, 0, 0]})
    both = net.node("Concat", [net.node("Add", [y, x], "sum"), x], "both", axis=1)
    z = net.conv(both, "third", 4, 3)
    z = net.node("Add", [z, net.conv(_bordered(net, both), "fifth", 4, 2, padding=0)], "thirds")
    pooled = net.pool("MaxPool", both, "pooled", 2, 1)
    return net, net.node("Concat", [net.node("Relu", [z], "end"), net.conv(pooled, "fourth", 2, 2, 1, 1)], "y", axis=1)


def _bordered(net: Topology, source: str) -> str:
    """A border of 3 around it: what is zero inside is no border."""
    constants = {"pads": [0, 0, 1, 0, 0, 0, 0, 1], "value": 3.0}
    return net.node("Pad", [source], "bordered", constants=constants)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(0, 3), (2, 2)])
@pytest.mark.parametrize("stride", [(2, 2), (3, 1)])
@pytest.mark.parametrize("order", ["sp", "ps"])
def test_shortcuts_without_weights_execute_as_onnxruntime_computes_them(
    stride: tuple[int, int], before: int, after: int, order: str
) -> None:
    """Also where a convolution and a pool read every other pixel of channels that are zeros in part, over replicas."""
    proto = onnx_file(*padded_shortcut(stride, before, after, order), seed=before)
    network = quantised(import_model(proto, "option-a"))
    images = [network.image(image) for image in random_images((3, 7, 6), 2, 1)]
    expected = expected_integers(proto, network, images)
    graph = partition(network.graph)
    for split in ({}, {p.name: Split(2, "columns") for p in graph.partitions if p.width > 1}):
        for found, wanted in zip(run(lower(graph, Crossbar(20, 4), split), images).outputs, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    pixels = [stage for stage in lower(graph, Crossbar(20, 4)).pipeline.stages if stage.layer in ("pixels", "wide")]
    assert not pixels, "views take no core"


@pytest.mark.parametrize("view", ["Slice", "Pad"])
def test_a_network_that_ends_in_a_view_has_a_core_that_sends_it(view: str) -> None:
    net = Topology("end", (2, 5, 5))
    x = net.conv(IMAGE, "only", 2, 3)
    constants: dict[str, Any] = {"pads": [0, 1, 0, 0, 0, 0, 0, 0]}
    if view == "Slice":
        constants = {"starts": [0], "ends": [9], "axes": [-1], "steps": [2]}
    x = net.node(view, [x], "y", constants=constants)
    proto = onnx_file(net, x, seed=1)
    network = quantised(import_model(proto, "end"))
    images = [network.image(image) for image in random_images((2, 5, 5), 2, 1)]
    expected = expected_integers(proto, network, images)
    for found, wanted in zip(run(lower(partition(network.graph), Crossbar()), images).outputs, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (("Slice", {"starts": [2], "ends": [8], "axes": [2], "steps": [2]}), r"found starts \[2\], ends \[8\]"),
        (("Slice", {"starts": [1], "ends": [6], "axes": [2], "steps": [2]}), r"found starts \[1\], ends \[6\]"),
        (("Slice", {"starts": [0], "ends": [4], "axes": [2], "steps": [2]}), r"found starts \[0\], ends \[4\]"),
        (("Slice", {"starts": [2], "ends": [0], "axes": [1], "steps": [-1]}), r"steps \[-1\] of axes \[1\]"),
        (("Pad", {"pads": [0, 1, 1, 0, 0, 0, 0, 0]}), r"found pads \[0, 1, 1, 0, 0, 0, 0, 0\] of 0"),
        (("Pad", {"pads": [0, 1, 0, 0, 0, 0, 0, 0], "value": 2.0}), r"of 2"),
    ],
)
def test_other_slices_and_borders_of_channels_are_refused(node: tuple[str, dict[str, Any]], found: str) -> None:
    operator, constants = node
    with pytest.raises(ValueError, match=f"^expected .*{found}"):
        Topology("refused", (2, 8, 8)).node(operator, [IMAGE], "y", constants=constants)


def test_nothing_computes_with_weights_that_are_not_known() -> None:
    net = Topology("empty", (2, 5, 5))
    graph = net.graph(net.conv(IMAGE, "only", 2, 3))
    (node,) = graph.nodes
    assert isinstance(node, ConvNode)
    with pytest.raises(ValueError, match=r"found a graph without any \(shape \[2, 2, 3, 3\]\)"):
        matrix(node, column_blocks(node, Crossbar())[0], 0)
    with pytest.raises(ValueError, match="found a graph without any"):
        evaluate(graph, np.zeros((2, 5, 5)))


def test_removing_weights_from_an_imported_graph_is_not_having_read_them() -> None:
    proto = RandomNetwork(3).model(12)
    one, other = without_weights(import_model(proto, "random")), read_without_weights(proto)
    assert [vars(node) for node in one.nodes if not hasattr(node, "divisors")] == [
        vars(node) for node in other.nodes if not hasattr(node, "divisors")
    ]
