"""Ranges of tensors: the exponent with the least squared error, and what a trained network keeps by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from kilotune.codegen.onnx.calibration import tensor_ranges
from kilotune.codegen.onnx.graph import ConvNode
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise
from kilotune.codegen.onnx.reference import evaluate
from tests.codegen.cm.networks import model, single

LIMIT = 127


def exponent_of(values: np.ndarray) -> int:
    graph = import_model(single("Relu", [1, 1, 1, values.size]), "values")
    return tensor_ranges(graph, values.reshape(1, 1, 1, -1), LIMIT)[graph.input].exponent()


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1.0, 255.0, 3e9]), st.booleans())
def test_no_other_exponent_has_a_smaller_error(seed: int, scale: float, heavy: bool) -> None:
    """Against the error itself: rounding errors are uniform where there are many values."""
    generator = np.random.default_rng(seed)
    values = generator.standard_cauchy(4000) if heavy else generator.normal(size=4000)
    values = np.asarray(values * scale, np.float32)

    def error(exponent: int) -> float:
        integers = np.clip(np.rint(values / 2.0**exponent), -LIMIT, LIMIT)
        return float(np.square(integers * 2.0**exponent - values.astype(np.float64)).sum())

    chosen = exponent_of(values)
    top = int(np.ceil(np.log2(np.abs(values).max() / LIMIT)))
    assert error(chosen) <= 1.25 * min(error(e) for e in range(top - 7, top + 1))


@pytest.mark.parametrize(("largest", "exponent"), [(127.0, 0), (130.0, 1), (254.0, 1), (63.5, -1), (0.0, 0)])
def test_a_value_that_fits_is_not_cut(largest: float, exponent: int) -> None:
    assert exponent_of(np.full(1, largest)) == exponent


def test_one_value_far_out_is_cut_for_the_many() -> None:
    """A thousand values of up to 100 and one of 300: two steps for all of them cost more than what it loses."""
    many = np.random.default_rng(0).uniform(-100, 100, 400_000)
    assert exponent_of(np.append(many, 300.0)) == 0
    assert exponent_of(np.append(many[:1000], 300.0)) == 2


def test_scores_do_not_saturate() -> None:
    """Two that both do are equal, and the first is taken for the larger one."""
    scores = np.random.default_rng(0).normal(size=(1000, 2, 1, 1))
    scores[7] = [[[200.0]], [[300.0]]]
    graph = import_model(single("Conv", [1, 2, 1, 1], [np.eye(2, dtype=np.float32).reshape(2, 2, 1, 1)]), "scores")
    quantised = quantise(graph, scores)
    found = evaluate(quantised.graph, quantised.image(scores[7]), integer=True)["y"].reshape(-1)
    assert 200 < found[0] < found[1] < 32767
    assert quantised.exponents["y"] == -3  # 300 takes 13 of 16 bits, and results may be eight times as large


def test_what_a_relu_cuts_off_takes_no_bits() -> None:
    """Sums from -1000 to 100 behind which a Relu stands: eight bits for 0 to 100."""
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[1, 1]),
    ]
    graph = import_model(
        model(
            [*nodes, helper.make_node("Add", ["y", "y"], ["z"])],
            [1, 1, 8, 8],
            {"k": np.ones((1, 1, 1, 1), np.float32)},
            output="z",
        ),
        "cut",
    )
    images = np.random.default_rng(0).uniform(-1000, 100, (4, 1, 8, 8))
    quantised = quantise(graph, images)
    assert quantised.exponents["sum"] == quantised.exponents["a"] == -1
    assert quantised.bounds["sum"] == quantised.bounds["y"] == (0, 255)
    assert quantised.bounds["sum/sum"][0] == -127 * 64


@pytest.mark.parametrize(("least", "bounds"), [(0, (0, 255)), (-1, (-127, 127))])
def test_pixels_without_a_sign(least: int, bounds: tuple[int, int]) -> None:
    images = np.random.default_rng(0).integers(least, 256, (4, 1, 16, 16)).astype(float)
    quantised = quantise(import_model(single("Relu", [1, 1, 16, 16]), "pixels"), images)
    assert quantised.bounds["x"] == bounds
    assert quantised.exponents["x"] == (0 if least == 0 else 1)


def test_each_output_channel_has_a_scale_of_its_own() -> None:
    weights = np.array([1.0, 1 / 1024], np.float32).reshape(2, 1, 1, 1) * np.float32(0.9)
    graph = import_model(single("Conv", [1, 1, 4, 4], [weights]), "scales")
    images = np.random.default_rng(0).normal(size=(8, 1, 4, 4))
    conv = quantise(graph, images).graph.nodes[0]
    assert isinstance(conv, ConvNode)
    assert np.abs(conv.weight).reshape(-1).tolist() == [115, 115], "0.9 of 128, not 0 for the small one"


def test_biases_make_up_for_what_rounding_does_to_the_mean() -> None:
    """Weights of 64.4 steps each lose 0.4 steps of 50 inputs whose mean is 1; the sum's mean must not be 20 steps short."""
    weights = np.full((1, 50, 1, 1), 64.4 / 127, np.float32)
    weights[0, 0] = 1.0
    graph = import_model(single("Conv", [1, 50, 1, 1], [weights]), "biased")
    images = np.random.default_rng(0).uniform(0.9, 1.1, (32, 50, 1, 1)).astype(np.float32)
    quantised = quantise(graph, images)
    conv = quantised.graph.nodes[0]
    assert isinstance(conv, ConvNode)
    sums = [evaluate(quantised.graph, quantised.image(i), integer=True)[conv.output].item() for i in images]
    unit = 2.0 ** (quantised.exponents[graph.input] - 6)  # 1.0 needs an exponent of -6
    exact = float(np.mean([evaluate(graph, image)[graph.output] for image in images]))
    lost = float(np.abs(np.mean(sums) * unit - exact))
    uncorrected = abs(float(conv.bias.item()) * unit)
    assert lost < 0.1 * uncorrected


def test_a_channel_without_weights_keeps_its_bias() -> None:
    """Pruned networks have such channels."""
    weights = np.array([0.0, 1.0], np.float32).reshape(2, 1, 1, 1)
    bias = np.array([0.3, 0.0], np.float32)
    graph = import_model(single("Conv", [1, 1, 3, 3], [weights, bias]), "pruned")
    quantised = quantise(graph, np.random.default_rng(0).normal(size=(4, 1, 3, 3)))
    found = evaluate(quantised.graph, np.zeros((1, 3, 3)), integer=True)[graph.output]
    np.testing.assert_allclose(found[0] * 2.0 ** quantised.exponents[graph.output], 0.3, atol=0.02)


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("operator", ["Concat", "Add", "Sub"])
def test_an_operand_that_is_always_zero_takes_no_bits_of_the_others(operator: str, scale: float) -> None:
    """A Relu that lets nothing through says nothing of how fine its neighbours have to be."""
    generator = np.random.default_rng(5)
    weights = {
        "w1": generator.normal(size=(4, 2, 1, 1)),
        "w2": generator.normal(size=(4, 4, 1, 1)),
        "dead": np.full(4, -100.0 * scale),
        "w3": generator.normal(size=(3, 8 if operator == "Concat" else 4, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a0"]),
        helper.make_node("Relu", ["a0"], ["a"]),
        helper.make_node("Conv", ["a", "w2", "dead"], ["d0"]),
        helper.make_node("Relu", ["d0"], ["d"]),
        helper.make_node(operator, ["a", "d"], ["c"], **({"axis": 1} if operator == "Concat" else {})),
        helper.make_node("Conv", ["c", "w3"], ["y"]),
    ]
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    graph = import_model(model(nodes, [1, 2, 6, 6], constants), "dead")
    images = scale * generator.normal(size=(32, 2, 6, 6))
    quantised = quantise(graph, images)
    exact = evaluate(graph, images[0].astype(np.float32), integer=False)["y"]
    found = evaluate(quantised.graph, quantised.image(images[0]), integer=True)["y"] * 2.0 ** quantised.exponents["y"]
    assert np.linalg.norm(found - exact) < 0.05 * np.linalg.norm(exact)
