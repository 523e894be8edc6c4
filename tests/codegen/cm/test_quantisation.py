"""Integer networks: bounds that keep float32 exact, closeness to the floats, and noise."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.graph import ConvNode, ShiftNode
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import EXACT_LIMIT, quantise, random_images
from kilotune.codegen.onnx.reference import evaluate, pointwise
from kilotune.evaluators.cm.functional import run
from kilotune.evaluators.cm.stage_execution import Noise
from kilotune.experiments.models.onnx_networks import lenet5, resnet20
from tests.codegen.cm.networks import expected_integers, model, outputs_of, single

pytestmark = pytest.mark.slow


def test_no_image_can_leave_the_exact_integers_of_float32() -> None:
    graph = import_model(resnet20(0, 4, 8), "net")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 2, 0))
    shifts = {n.inputs[0]: np.asarray(n.right) for n in quantised.graph.nodes if isinstance(n, ShiftNode)}
    limits = set()
    for node in quantised.graph.nodes:
        if isinstance(node, ConvNode):
            low, high = quantised.bounds[node.inputs[0]]
            worst = np.where(node.weight > 0, high, low).astype(np.int64), np.where(node.weight > 0, low, high)
            sums = [(w * node.weight).reshape(len(node.weight), -1).sum(axis=1) for w in worst]
            reached = np.maximum(*np.abs(sums)) + np.abs(node.bias) + 2 ** np.maximum(shifts[node.output] - 1, 0)
            assert reached.max() < EXACT_LIMIT
        if isinstance(node, ShiftNode):
            limits.add((node.low, node.high))
    assert limits == {(-127, 127), (0, 255), (-32767, 32767)}, "signed, behind a Relu, and the scores"


def test_a_layer_too_wide_for_eight_bits_gets_fewer() -> None:
    generator = np.random.default_rng(0)
    wide = generator.choice([-1.0, 1.0], (2, 40_000, 1, 1)).astype(np.float32)
    graph = import_model(single("Conv", [1, 40_000, 1, 1], [wide]), "net")
    quantised = quantise(graph, random_images((40_000, 1, 1), 1, 0))
    conv = quantised.graph.nodes[0]
    assert isinstance(conv, ConvNode)
    sums = np.abs(conv.weight).reshape(2, -1).sum(axis=1, dtype=np.int64) * 127
    assert sums.max() < EXACT_LIMIT <= 2.01 * sums.max(), "no more bits are given up than needed"
    assert quantised.weight_bits["y"] < 8


def test_integers_follow_the_floats() -> None:
    graph = import_model(lenet5(), "net")
    calibration = random_images(graph.shapes[graph.input], 4, 0)
    errors = {}
    for bits in (6, 8, 10):
        quantised = quantise(graph, calibration, bits, bits)
        image = random_images(graph.shapes[graph.input], 1, 9)[0]
        exact = evaluate(graph, image)[graph.output]
        integers = evaluate(quantised.graph, quantised.image(image), integer=True)[graph.output]
        found = integers * 2.0 ** quantised.exponents[graph.output]
        errors[bits] = float(np.abs(found - exact).max() / np.abs(exact).max())
    assert errors[10] < errors[8] < errors[6]
    assert errors[8] < 0.1


def test_shift_rounds_to_nearest_and_saturates() -> None:
    shift = ShiftNode(("x",), "y", 2, -127, 127)
    found = pointwise(shift, [np.array([-7, -6, -5, -2, -1, 0, 1, 2, 505, 506, 512, -1000])])
    assert found.tolist() == [-2, -1, -1, 0, 0, 0, 0, 1, 126, 127, 127, -127]


def test_channels_are_shifted_by_their_own_bits() -> None:
    shift = ShiftNode(("x",), "y", np.array([2, 0, -3, 62]), -127, 127)
    values = np.array([[6, -6], [6, -6], [6, -20], [2**22, -(2**22)]])
    assert pointwise(shift, [values]).tolist() == [[2, -1], [6, -6], [48, -127], [0, 0]]


@pytest.mark.parametrize("bits", [1, 13])
def test_bits_out_of_range(bits: int) -> None:
    graph = import_model(lenet5(), "net")
    with pytest.raises(ValueError, match="expected 2 to 12 bits"):
        quantise(graph, random_images(graph.shapes[graph.input], 1, 0), bits)


def test_noise_is_seeded_and_grows() -> None:
    graph = import_model(lenet5(), "net")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 1, 0))
    lowered = lower(partition(quantised.graph), Crossbar())
    image = [quantised.image(random_images(graph.shapes[graph.input], 1, 4)[0])]
    exact = run(lowered, image).outputs[0]

    def noisy(noise: Noise) -> np.ndarray:
        return run(lowered, image, noise=noise).outputs[0]

    assert np.array_equal(noisy(Noise()), exact)
    for small, large in ((Noise(0.002), Noise(0.05)), (Noise(0, 0.05), Noise(0, 3.0))):
        assert np.array_equal(noisy(large), noisy(large))
        assert not np.array_equal(noisy(large), exact)
        assert np.abs(noisy(small) - exact).sum() < np.abs(noisy(large) - exact).sum()
    assert not np.array_equal(noisy(Noise(0.05, 0, 1)), noisy(Noise(0.05, 0, 2)))


def test_the_raw_sum_and_its_shift_are_both_there() -> None:
    graph = import_model(lenet5(), "net")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 1, 0))
    image = quantised.image(random_images(graph.shapes[graph.input], 1, 4)[0])
    tensors = evaluate(quantised.graph, image, integer=True)
    shift = next(node for node in quantised.graph.nodes if node.output == "conv1")
    assert isinstance(shift, ShiftNode)
    factors = 2.0 ** -np.broadcast_to(shift.right, len(tensors["conv1"]))
    expected = np.clip(np.floor(tensors["conv1/sum"] * factors[:, None, None] + 0.5), 0, 255)
    np.testing.assert_array_equal(tensors["conv1"], expected)


def test_weights_near_the_smallest_numbers_keep_their_bits() -> None:
    """float32 has no 2**133. Each channel has an exponent of its own, so that it keeps its seven bits."""
    weights = np.array([127, -64, 32], np.float32).reshape(3, 1, 1, 1) * np.float32(1e-39)
    graph = import_model(single("Conv", [1, 1, 3, 3], [weights]), "tiny")
    conv = quantise(graph, random_images((1, 3, 3), 1, 0)).graph.nodes[0]
    assert isinstance(conv, ConvNode)
    first, second, third = (abs(int(w)) for w in conv.weight.reshape(-1))
    assert min(first, second, third) >= 64


def test_a_border_of_minus_infinity_is_below_everything() -> None:
    """As frameworks export a padded MaxPool."""
    nodes = [
        helper.make_node("Pad", ["x", "pads", "value"], ["p"]),
        helper.make_node("MaxPool", ["p"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    constants = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "value": np.float32("-inf")}
    proto = model(nodes, [1, 2, 4, 4], constants)
    graph = import_model(proto, "border")
    quantised = quantise(graph, random_images(graph.shapes["x"], 1, 0))
    image = -np.abs(quantised.image(random_images(graph.shapes["x"], 1, 3)[0]))
    found = evaluate(quantised.graph, image, integer=True)["y"]
    np.testing.assert_array_equal(found, outputs_of(proto, [image])[0])


def test_sums_of_an_infinite_border_are_a_sentence() -> None:
    nodes = [
        helper.make_node("Pad", ["x", "pads", "value"], ["p"]),
        helper.make_node("Conv", ["p", "k"], ["y"]),
    ]
    constants = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "value": np.float32("inf")}
    graph = import_model(model(nodes, [1, 1, 4, 4], constants | {"k": np.ones((1, 1, 3, 3), np.float32)}), "border")
    with pytest.raises(ValueError, match="'y': expected finite sums, found an overflow or infinity"):
        quantise(graph, random_images(graph.shapes["x"], 1, 0))


@pytest.mark.parametrize("shift", [1, 64])
def test_names_of_the_file_never_meet_names_made_here(shift: int) -> None:
    """TensorFlow likes `block/sum`."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["a/sum"], kernel_shape=[1, 1]),
        helper.make_node("Conv", ["x", "l"], ["b"]),
        *(helper.make_node("Relu", ["b"], [f"a>>{n}"]) for n in range(1, 8)),
        helper.make_node("Concat", ["a", "b", "a/sum", *(f"a>>{n}" for n in range(1, 8))], ["y"], axis=1),
    ]
    weights = rng.normal(size=(2, 3, 1, 1)).astype(np.float32)
    proto = model(nodes, [1, 3, 4, 4], {"k": weights, "l": weights * shift})
    graph = import_model(proto, "names")
    images = random_images(graph.shapes["x"], 2, 1)
    quantised = quantise(graph, images)
    names = [node.output for node in quantised.graph.nodes]
    assert len(set(names)) == len(names)
    network = partition(quantised.graph)
    assert len({p.name for p in network.partitions}) == len(network.partitions)
    integers = [quantised.image(image) for image in images]
    execution = run(lower(network, Crossbar()), integers)
    for found, expected in zip(execution.outputs, expected_integers(proto, quantised, integers), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_output_that_holds_the_image_itself_is_sent_by_a_core() -> None:
    proto = model([helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], [1, 2, 3, 3], {})
    quantised = quantise(import_model(proto, "twice"), random_images((2, 3, 3), 1, 0))
    image = quantised.image(random_images((2, 3, 3), 1, 1)[0])
    execution = run(lower(partition(quantised.graph), Crossbar()), [image])
    np.testing.assert_array_equal(execution.outputs[0], np.concatenate([image, image]))


def test_a_share_that_calibration_did_not_see_is_still_told() -> None:
    """A detector that is calibrated on pictures with nothing in them finds what is in others."""
    graph = import_model(model([helper.make_node("Sigmoid", ["x"], ["y"])], [1, 1, 2, 2], {}), "net")
    nothing = np.linspace(-7.9, -4, 4).reshape(1, 2, 2)
    quantised = quantise(graph, [nothing])
    something = np.float64([[[-7, -0.5], [0.5, 7]]])
    found = evaluate(quantised.graph, quantised.image(something), integer=True)["y"] * 2.0 ** quantised.exponents["y"]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-something)), atol=1e-4)


def test_a_result_that_is_no_share_keeps_the_range_that_was_seen() -> None:
    graph = import_model(model([helper.make_node("Exp", ["x"], ["y"])], [1, 1, 2, 2], {}), "net")
    quantised = quantise(graph, [np.linspace(-7.9, 0, 4).reshape(1, 2, 2)])
    assert quantised.exponents["y"] == -11, (
        "exp(0) = 1 needs -14 of the 16 bits, 3 are to spare, exp(7.9) = 2697 would need -3"
    )
