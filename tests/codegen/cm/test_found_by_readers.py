"""Networks that a reader's random files found wrong: from the file to the exported runner, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.fidelity import fidelity
from kilotune.evaluators.cm.functional import run
from kilotune.experiments.problems.cm.image_data import load_images
from tests.codegen.cm.networks import expected_integers, model, outputs_of
from tests.codegen.cm.test_bundle import runs_as_expected


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(0, 0.5, shape).astype(np.float32)


def arithmetic_around_a_transposition() -> Any:
    """As many rows and columns as channels, so that nothing but the numbers says which is which."""
    nodes = [
        helper.make_node("Mul", ["x", "first"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 3, 1]),
        helper.make_node("Add", ["b", "last"], ["c"]),
        helper.make_node("Transpose", ["c"], ["d"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["d", "w"], ["y"], pads=[1] * 4),
    ]
    return model(nodes, [1, 4, 4, 4], {"first": weights(4, 1, 1), "last": weights(4), "w": weights(3, 4, 3, 3)})


def arithmetic_around_a_reshape() -> Any:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Reshape", ["a", "flat"], ["b"]),
        helper.make_node("Mul", ["b", "half"], ["c"]),
        helper.make_node("MatMul", ["c", "v"], ["y"]),
    ]
    constants = {"flat": np.int64([1, -1]), "half": np.float32(0.5), "w": weights(2, 3, 2, 2), "v": weights(32, 5)}
    return model(nodes, [1, 3, 5, 5], constants)


def arithmetic_on_the_first_part_of_a_pooling() -> Any:
    nodes = [
        helper.make_node("AveragePool", ["x"], ["a"], kernel_shape=[2, 2]),
        helper.make_node("Split", ["a", "halves"], ["b", "c"], axis=1),
        helper.make_node("Add", ["b", "k"], ["d"]),
        helper.make_node("Concat", ["c", "d"], ["y"], axis=1),
    ]
    return model(nodes, [1, 4, 5, 6], {"halves": np.int64([2, 2]), "k": weights(2, 1, 1)})


def one_channel_excited() -> Any:
    nodes = [
        helper.make_node("GlobalMaxPool", ["x"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "w"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["d"]),
        helper.make_node("Reshape", ["d", "pixel"], ["e"]),
        helper.make_node("Mul", ["x", "e"], ["y"]),
    ]
    return model(nodes, [1, 1, 5, 4], {"w": weights(1, 1), "pixel": np.int64([1, 1, 1, 1])})


def every_other_pixel_enlarged() -> Any:
    numbers = {
        name: np.int64(values) for name, values in (("f", [1, 0]), ("e", [99, 99]), ("a", [2, 3]), ("n", [2, 2]))
    }
    nodes = [
        helper.make_node("Slice", ["x", "f", "e", "a", "n"], ["a0"]),
        helper.make_node("ConvTranspose", ["a0", "w"], ["y"], strides=[2, 2]),
    ]
    return model(nodes, [1, 2, 6, 7], {**numbers, "w": weights(2, 3, 3, 2)})


def normalised_behind_a_transposition() -> Any:
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]),
        helper.make_node("Add", ["a", "last"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Transpose", ["c"], ["d"], perm=[0, 3, 1, 2]),
        helper.make_node("LRN", ["d"], ["e"], size=3, alpha=0.5),
        helper.make_node("Conv", ["e", "w"], ["y"]),
    ]
    return model(nodes, [1, 4, 4, 4], {"last": weights(4), "w": weights(3, 4, 3, 3)})


def gaps_rounded_up() -> Any:
    """What is left over at the bottom is as wide as the kernel, which has gaps."""
    pool = {"kernel_shape": [2, 4], "strides": [3, 2], "dilations": [2, 3], "ceil_mode": 1}
    return model([helper.make_node("MaxPool", ["x"], ["y"], **pool)], [1, 2, 7, 12], {})


@pytest.mark.parametrize(
    "network",
    [
        normalised_behind_a_transposition,
        gaps_rounded_up,
        every_other_pixel_enlarged,
        arithmetic_around_a_transposition,
        arithmetic_around_a_reshape,
        arithmetic_on_the_first_part_of_a_pooling,
        one_channel_excited,
    ],
)
def test_the_file_the_integers_and_the_runner_agree(network: Any) -> None:
    proto = network()
    graph = import_model(proto, "net")
    drawn = random_images(graph.shapes[graph.input], 2, 5)
    for image, exact in zip(drawn, outputs_of(proto, drawn), strict=True):
        found = graph.outputs[0].as_file(evaluate(graph, image)[graph.output])
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)
    quantised = quantise(graph, drawn)
    images = [quantised.image(image) for image in drawn]
    expected = np.stack(expected_integers(proto, quantised, images))
    lowered = lower(partition(quantised.graph), Crossbar(20, 3))
    runs_as_expected(lowered, images, expected, run(lowered, images))


def test_results_may_be_larger_than_those_that_calibrated() -> None:
    proto = model([helper.make_node("Conv", ["x", "w"], ["y"])], [1, 2, 4, 4], {"w": weights(3, 2, 1, 1)})
    graph = import_model(proto, "net")
    images = np.stack(random_images(graph.shapes[graph.input], 2, 5))
    quantised = quantise(graph, images / 4)
    assert fidelity(graph, quantised, images[:1] / 4).relative_error < 0.02
    exact = evaluate(graph, images[0])["y"]
    seen = max(np.abs(evaluate(graph, image / 4)["y"]).max() for image in images)
    assert np.abs(exact).max() > 2 * seen, "beyond what calibration has seen"
    limit = quantised.bounds["y"][1] * 2.0 ** quantised.exponents["y"]
    assert limit > np.abs(exact).max()


def test_sequences_come_without_a_height(tmp_path: Path) -> None:
    sequences = weights(6, 3, 8)
    np.savez(tmp_path / "s.npz", images=sequences)
    found = load_images(tmp_path / "s.npz", (3, 1, 8), 2).images
    assert found.shape == (6, 3, 1, 8)
    assert {s.tobytes() for s in found} == {s.tobytes() for s in sequences}
