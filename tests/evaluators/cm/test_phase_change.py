"""Noise of phase-change cells: the published model's moments, and what is left of a network's classes."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen.cm.blocks import Crossbar, column_blocks, converter_behind
from kilotune.codegen.onnx.batches import outputs_of_images, tensors_of_images
from kilotune.codegen.onnx.converter_steps import with_converters
from kilotune.codegen.onnx.graph import ConvNode, Window
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise
from kilotune.evaluators.cm.noisy_fidelity import (
    AnalogueCores,
    _AnalogueLayers,
    _cells,
    _exact,
    interval,
    noisy_fidelity,
)
from kilotune.evaluators.cm.phase_change import drifted, programmed, read, weights_after
from tests.codegen.cm.digits import digits_images, digits_network

MANY = np.full(200_000, 1.0)


def generator() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.mark.parametrize(("target", "deviation_us"), [(1.0, 1.0554), (0.5, 0.952725)])
def test_programming_spreads_as_measured(target: float, deviation_us: float) -> None:
    """-1.1731 g**2 + 1.9650 g + 0.2635 microsiemens of 25."""
    found = programmed(target * MANY, generator())
    assert found.mean() == pytest.approx(target, abs=1e-3)
    assert found.std() * 25 == pytest.approx(deviation_us, rel=0.01)


def test_conductances_drift_by_a_power_of_time() -> None:
    assert np.array_equal(drifted(MANY, MANY, 0.0, generator()), MANY), "as programmed when they are read first"
    logarithms = np.log(drifted(MANY, MANY, 20.0 * (np.e**4 - 1), generator()))
    assert logarithms.mean() == pytest.approx(-4 * 0.049, rel=0.01)
    assert logarithms.std() == pytest.approx(4 * 0.008, rel=0.01)
    small = np.log(drifted(MANY, 0.01 * MANY, 20.0 * (np.e - 1), generator()))
    assert small.mean() == pytest.approx(-(-0.0155 * np.log(0.01) + 0.0244), rel=0.01)
    unprogrammed = np.log(drifted(MANY, 0 * MANY, 20.0 * (np.e - 1), generator()))
    assert unprogrammed.mean() == pytest.approx(-0.1, rel=0.01)
    assert unprogrammed.std() == pytest.approx(0.045, rel=0.02)
    assert (unprogrammed <= 0).all(), "no conductance grows, though one exponent of 76 would be negative"


def test_reading_adds_noise_that_grows_with_time() -> None:
    for seconds, target, strength in ((20.0, 1.0, 0.0088), (1e6, 0.25, 0.0088 / 0.25**0.65)):
        found = read(MANY, target * MANY, seconds, generator())
        assert found.std() == pytest.approx(strength * np.sqrt(np.log((seconds + 20 + 250e-9) / 500e-9)), rel=0.01)
    nothing = read(MANY, 0 * MANY, 1e6, generator())
    assert nothing.min() == 0, "a deviation of 1.05, and no conductance is negative"


def test_what_drifts_together_is_compensated() -> None:
    weights = np.abs(np.random.default_rng(0).normal(0, 30, (60, 400)))
    largest = float(weights.max())
    fresh, old = (weights_after(weights, largest, seconds, generator()) for seconds in (20.0, 1e8))
    assert old.sum() == pytest.approx(weights.sum(), rel=0.03), "without compensation a half is gone"
    assert np.abs(old - weights).mean() > 1.5 * np.abs(fresh - weights).mean()
    assert np.array_equal(weights_after(0 * weights, 0.0, 20.0, generator()), 0 * weights)


def test_few_columns_whose_weights_cancel_are_compensated_too() -> None:
    """One column of 64 weights with both signs: its sum is nearly nothing, and says nothing of the drift."""
    drawn = np.random.default_rng(1)
    for _ in range(50):
        weights = drawn.normal(0, 30, (1, 64))
        found = weights_after(weights, float(np.abs(weights).max()), 3e7, drawn)
        gain = float((found * weights).sum() / (weights * weights).sum())
        assert gain == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize(("cell_bits", "converter_bits"), [(0, None), (2, None), (2, 6), (0, 8)])
def test_exact_cells_and_converters_give_the_integers(cell_bits: int, converter_bits: int | None) -> None:
    """Also where a layer is cut into many crossbars, weights into slices, and converters round."""
    graph = import_model(digits_network(16), "digits")
    images, _ = digits_images(16)
    quantised, crossbar = quantise(graph, images[:40]), Crossbar(20, 12, 1, cell_bits)
    if converter_bits:
        bits = converter_bits
        seen = quantised.image(images[:40])
        quantised = with_converters(quantised, lambda _, node: converter_behind(node, crossbar, bits, 1), seen)
    integers = quantised.image(images[40:60])
    convolutions = [n for n in quantised.graph.nodes if isinstance(n, ConvNode)]
    blocks = {n.output: column_blocks(n, crossbar) for n in convolutions}
    assert max(b.row_blocks for found in blocks.values() for b in found) > 1
    cells = {n.output: _exact(n, blocks[n.output], crossbar) for n in convolutions}
    layers = _AnalogueLayers(blocks, cells, {}, None)
    found = [t for name, t in tensors_of_images(quantised.graph, integers, layers.compute) if name == graph.output]
    expected = outputs_of_images(quantised.graph, integers)
    np.testing.assert_array_equal(np.moveaxis(np.concatenate(found, axis=1), 1, 0), expected)


def test_slices_that_hold_nothing_are_noisy_too() -> None:
    """Weights of one bit in cells of 2 of 8: three slices of zeros, whose cells are programmed to 0 and not quite."""
    node = ConvNode(("x",), "y", np.ones((1, 50, 1, 1), np.int64), np.zeros(1, np.int64), Window())
    crossbar = Crossbar(64, 64, 1, 2)
    ((slices,),) = _cells(node, column_blocks(node, crossbar), AnalogueCores(crossbar, 20.0), generator())
    assert [place for place, _ in slices] == [0, 2, 4, 6]
    assert 0 < np.abs(slices[3][1]).mean() < 0.1 < 0.5 < np.abs(slices[0][1]).mean()


def test_older_cells_and_fewer_bits_cost_accuracy() -> None:
    graph = import_model(digits_network(16), "digits")
    images, labels = digits_images(16)
    quantised = quantise(graph, images[:64])
    seen, unseen, labels = quantised.image(images[:64]), quantised.image(images[64:264]), labels[64:264]
    classes = outputs_of_images(graph, images[64:264]).reshape(200, -1).argmax(axis=1)

    def accuracy(seconds: float, bits: int | None) -> float:
        cores = AnalogueCores(Crossbar(), seconds, bits, 4)
        found = noisy_fidelity(quantised.graph, cores, seen, unseen, classes, labels)
        assert found.accuracies is not None
        assert len(set(found.accuracies)) > 1
        return interval(found.accuracies)[0]

    fresh, old, coarse = accuracy(20, 8), accuracy(1e9, 8), accuracy(20, 3)
    assert fresh > 0.95
    assert old < fresh - 0.02
    assert coarse < fresh - 0.05


def test_the_interval_is_students() -> None:
    mean, half = interval([0.9, 0.92, 0.94])
    assert mean == pytest.approx(0.92)
    assert half == pytest.approx(4.303 * 0.02 / np.sqrt(3))
