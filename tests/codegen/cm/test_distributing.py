"""Functions of concatenations on the cores that write the parts: every tensor as before, and no core that only computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.distributing import distributed
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.graph import AffineNode, ClipNode, ShiftNode, TableNode
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import integer_shape, quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.functional import run
from tests.codegen.cm.networks import expected_integers, model, without_weights
from tests.codegen.cm.test_bundle import runs_as_expected


def dense_block() -> Any:
    """Three convolutions, each behind functions of all before it: normalised, with slopes of their own, clipped; the image joins last."""
    rng = np.random.default_rng(8)
    constants: dict[str, Any] = {}

    def constant(*shape: int, least: float = -1.0) -> str:
        constants[f"k{len(constants)}"] = rng.uniform(least, 1, shape).astype(np.float32)
        return f"k{len(constants) - 1}"

    def conv(source: str, inputs: int, outputs: int, name: str) -> Any:
        return helper.make_node("Conv", [source, constant(outputs, inputs, 3, 3)], [name], pads=[1] * 4)

    def normalised(source: str, channels: int, name: str) -> Any:
        others = [constant(channels, least=least) for least in (0.5, -1, -1, 0.1)]
        return helper.make_node("BatchNormalization", [source, *others], [name])

    nodes = [
        conv("x", 2, 3, "a"),
        conv("a", 3, 4, "b"),
        helper.make_node("Concat", ["a", "b"], ["ab"], axis=1),
        normalised("ab", 7, "n"),
        helper.make_node("Relu", ["n"], ["r"]),
        conv("r", 7, 2, "c"),
        helper.make_node("Concat", ["ab", "c"], ["abc"], axis=1),
        normalised("abc", 9, "m"),
        helper.make_node("PRelu", ["m", constant(9, 1, 1)], ["s"]),
        helper.make_node("Clip", ["s", "low", "high"], ["t"]),
        conv("t", 9, 2, "d"),
        helper.make_node("Concat", ["d", "x"], ["dx"], axis=1),
        helper.make_node("Relu", ["dx"], ["y"]),
    ]
    constants |= {"low": np.float32(-0.7), "high": np.float32(0.9)}
    return model(nodes, [1, 2, 5, 6], constants)


def test_every_part_is_computed_where_it_is_written() -> None:
    proto = dense_block()
    graph = import_model(proto, "dense")
    quantised = quantise(graph, random_images((2, 5, 6), 3, 1))
    network, images = partition(quantised.graph), [quantised.image(i) for i in random_images((2, 5, 6), 3, 2)]
    before, after = (evaluate(g, images[0], integer=True) for g in (quantised.graph, network.graph))
    for name, tensor in before.items():
        np.testing.assert_array_equal(after[name], tensor)
    for name, (low, high) in (network.graph.bounds or {}).items():
        assert ((after[name] >= low) & (after[name] <= high)).all()
    split = [node for node in network.graph.nodes if node.output not in before]
    assert {type(node) for node in split} >= {AffineNode, ClipNode, ShiftNode, TableNode}
    # Only the image, which no core writes, is left to a core without a matrix: shifted to what `d` is.
    assert [p.head is None for p in network.partitions] == [False] * 4 + [True]
    lowered = lower(network, Crossbar(30, 3))
    runs_as_expected(lowered, images, np.stack(expected_integers(proto, quantised, images)), run(lowered, images))


def test_without_weights_the_same_cores_compute_them() -> None:
    network = partition(integer_shape(without_weights(import_model(dense_block(), "dense"))))
    assert [p.head is None for p in network.partitions] == [False] * 4 + [True]
    assert [len(p.exports) for p in network.partitions] == [3, 2, 1, 1, 1]


def test_what_reads_the_image_and_networks_without_concatenations_stay_as_they_are() -> None:
    nodes = [helper.make_node("Concat", ["x", "x"], ["xx"], axis=1), helper.make_node("Relu", ["xx"], ["y"])]
    graph = integer_shape(import_model(model(nodes, [1, 2, 3, 3], {}), "image"))
    assert [node.output for node in distributed(graph).nodes] == [node.output for node in graph.nodes]
