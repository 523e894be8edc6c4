"""Integer networks: bounds that keep float32 exact, closeness to the floats, and noise."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.graph import Conv, Shift
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import EXACT_LIMIT, quantise, random_images, raw_name
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.functional import run
from kilotune.evaluators.cm.stage_execution import Noise
from kilotune.experiments.models.onnx_networks import lenet5, resnet20
from tests.cm_code.networks import single


def test_no_image_can_leave_the_exact_integers_of_float32() -> None:
    graph = import_model(resnet20(0, 4, 8), "net")
    quantised = quantise(graph, random_images(graph.shapes[graph.input], 2, 0))
    for node in quantised.graph.nodes:
        if isinstance(node, Conv):
            worst = np.where(node.weight > 0, 127, -127).astype(np.int64)
            reached = (worst * node.weight).reshape(len(node.weight), -1).sum(axis=1) + np.abs(node.bias)
            assert reached.max() < EXACT_LIMIT
        if isinstance(node, Shift):
            assert (node.low, node.high) == (-127, 127)


def test_a_layer_too_wide_for_eight_bits_gets_fewer() -> None:
    generator = np.random.default_rng(0)
    wide = generator.choice([-1.0, 1.0], (2, 40_000, 1, 1)).astype(np.float32)
    graph = import_model(single("Conv", [1, 40_000, 1, 1], [wide]), "net")
    quantised = quantise(graph, random_images((40_000, 1, 1), 1, 0))
    conv = quantised.graph.nodes[0]
    assert isinstance(conv, Conv)
    sums = np.abs(conv.weight).reshape(2, -1).sum(axis=1, dtype=np.int64) * 127
    assert sums.max() < EXACT_LIMIT <= 2 * sums.max(), "no more bits are given up than needed"
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


def test_shift_is_a_floor_and_saturates() -> None:
    shift = Shift(("x",), "y", 2, -127, 127)
    from kilotune.codegen.onnx.reference import pointwise

    found = pointwise(shift, [np.array([-5, -4, -1, 0, 3, 4, 507, 512, -1000])])
    assert found.tolist() == [-2, -1, -1, 0, 0, 1, 126, 127, -127]


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
    shift = quantised.graph.producer("conv1")
    assert isinstance(shift, Shift)
    expected = np.clip(np.floor(tensors[raw_name("conv1")] / 2**shift.right), -127, 127)
    np.testing.assert_array_equal(tensors["conv1"], expected)
