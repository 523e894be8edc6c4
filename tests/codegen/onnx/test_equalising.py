"""Channels scaled by powers of two: the same floats, and integers as near to them as if nobody had scaled them before."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from onnx import helper

from kilotune.codegen.onnx.batches import outputs_of_images, tensors_of_images
from kilotune.codegen.onnx.equalising import MOST_BITS, equalised, equalised_where_better
from kilotune.codegen.onnx.graph import ConvNode, Graph, known
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise
from kilotune.evaluators.cm.fidelity import fidelity
from tests.codegen.cm.networks import model

CHANNELS = 8


def residual_network(spread: bool) -> Graph:
    """Layers with a depthwise one, a sum, a slope for what is negative, a slice and a concatenation between them. spread: channels
    between the layers are up to 32 times as small as they might be."""
    rng = np.random.default_rng(4)
    scale = 2.0 ** -np.random.default_rng(5).integers(0, 6 if spread else 1, (3, CHANNELS))
    summed = scale[2]
    before = [np.ones(3), scale[0], scale[1], scale[1], np.concatenate([summed[:4], summed])]
    after = [scale[0], scale[1], summed, summed, np.ones(5)]

    def layer(number: int, outputs: int, inputs: int, kernel: int, depthwise: bool = False) -> tuple[Any, Any]:
        weight = rng.normal(0, 1, (outputs, inputs, kernel, kernel)) / np.sqrt(inputs * kernel * kernel)
        into = before[number][:, None, None, None] if depthwise else before[number][None, :, None, None]
        weight = weight * after[number][:, None, None, None] / into
        return weight.astype(np.float32), (rng.normal(0, 0.2, outputs) * after[number]).astype(np.float32)

    constants: dict[str, Any] = {"slope": np.full((CHANNELS, 1, 1), 0.1, np.float32)}
    for name, number, shape in (("a", 0, (8, 3, 3)), ("b", 1, (8, 8, 3)), ("d", 3, (8, 8, 1)), ("e", 4, (5, 12, 7))):
        constants[f"{name}w"], constants[f"{name}b"] = layer(number, *shape)
    constants["cw"], constants["cb"] = layer(2, 8, 1, 3, depthwise=True)
    constants |= {"from": np.array([0]), "to": np.array([4]), "axis": np.array([1])}
    node, same = helper.make_node, {"pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["x", "aw", "ab"], ["a"], **same),
        node("PRelu", ["a", "slope"], ["p"]),
        node("Conv", ["p", "bw", "bb"], ["b"], **same),
        node("Relu", ["b"], ["r"]),
        node("Conv", ["r", "cw", "cb"], ["c"], group=CHANNELS, **same),
        node("Conv", ["r", "dw", "db"], ["d"]),
        node("Add", ["c", "d"], ["s"]),
        node("Relu", ["s"], ["t"]),
        node("Slice", ["t", "from", "to", "axis"], ["h"]),
        node("Concat", ["h", "t"], ["k"], axis=1),
        node("Conv", ["k", "ew", "eb"], ["y"]),
    ]
    return import_model(model(nodes, [1, 3, 7, 7], constants), "spread")


def images(count: int = 24) -> np.ndarray:
    return np.random.default_rng(8).normal(0, 1, (count, 3, 7, 7)).astype(np.float32)


def test_scaled_channels_are_found_again() -> None:
    """The error is that of a network which was never disturbed, and nearly as small."""
    seen, unseen = images()[:12], images()[12:]

    def error(graph: Graph, floats: Graph) -> float:
        return fidelity(floats, quantise(graph, seen), unseen).relative_error

    plain, disturbed = residual_network(False), residual_network(True)
    np.testing.assert_allclose(
        outputs_of_images(plain, unseen), outputs_of_images(disturbed, unseen), rtol=1e-3, atol=1e-4
    )
    before, after = error(disturbed, disturbed), error(equalised(disturbed, seen), disturbed)
    assert before > 3 * error(plain, plain)
    assert after < 1.5 * error(plain, plain)


def test_floats_are_the_same_and_scaled_by_powers_of_two() -> None:
    graph = residual_network(True)
    found = equalised(graph, images())
    np.testing.assert_allclose(
        outputs_of_images(found, images()), outputs_of_images(graph, images()), rtol=1e-5, atol=1e-6
    )
    tensors, by_tensor = dict(tensors_of_images(graph, images())), dict[str, list[float]]()
    for name, scaled in tensors_of_images(found, images()):
        plain = tensors[name].reshape(len(scaled), -1)
        factors = (np.abs(scaled.reshape(len(scaled), -1)).max(axis=1) + 1e-30) / (np.abs(plain).max(axis=1) + 1e-30)
        bits = np.log2(factors)
        np.testing.assert_allclose(bits, np.rint(bits), atol=1e-3)
        assert bits.min() >= -1e-3
        assert bits.max() <= MOST_BITS + 1e-3
        if name in ("x", "y"):
            assert not np.rint(bits).any()
        by_tensor[name] = np.rint(bits).tolist()
    assert by_tensor["c"] == by_tensor["d"] == by_tensor["s"] == by_tensor["t"], "what is added is scaled alike"
    assert by_tensor["k"] == by_tensor["t"][:4] + by_tensor["t"]
    assert by_tensor["a"] == by_tensor["p"]
    assert by_tensor["b"] == by_tensor["r"]
    assert any(by_tensor["r"])
    assert any(by_tensor["t"])


def test_it_is_left_where_it_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = residual_network(True)
    assert equalised_where_better(graph, images()) is not graph
    assert equalised_where_better(graph, images()[:1]) is not graph
    worse = "kilotune.codegen.onnx.equalising.equalised"

    def wrong(graph: Graph, images: np.ndarray) -> Graph:
        """One channel a thousand times as large as the others of its tensor."""
        return dataclasses.replace(
            graph,
            nodes=tuple(
                dataclasses.replace(node, weight=known(node.weight) * np.array([1000.0, *[1] * 7])[:, None, None, None])
                if isinstance(node, ConvNode) and node.output == "a"
                else node
                for node in graph.nodes
            ),
        )

    monkeypatch.setattr(worse, wrong)
    assert equalised_where_better(graph, images()) is graph
