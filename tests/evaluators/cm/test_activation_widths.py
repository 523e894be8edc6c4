"""Activations in fewer bits: what they are held to, what stays right, and what becomes smaller."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.onnx.batches import outputs_of_images
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import QuantisedGraph, quantise
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm import activation_widths
from kilotune.evaluators.cm.activation_widths import most_tries, narrowed
from kilotune.evaluators.cm.class_changes import expected_changes
from kilotune.evaluators.cm.fidelity import fidelity
from kilotune.spaces.cm.space import CmSpace
from tests.codegen.cm.digits import digits_images, digits_network

PIXELS = {"x": 64, "centred": 64, "pool1": 16 * 6, "pool2": 4 * 12}
"""Elements an image of the tensors that have bits of their own."""


def digits() -> tuple[Graph, np.ndarray, np.ndarray]:
    images, labels = digits_images(16)
    return import_model(digits_network(16), "digits"), images, labels


def classes(quantised: QuantisedGraph, images: np.ndarray) -> list[int]:
    """One image after the other, by the definition of the operators."""
    output = quantised.graph.output
    return [
        int(evaluate(quantised.graph, quantised.image(image), integer=True)[output].reshape(-1).argmax())
        for image in images
    ]


def test_it_says_how_far_it_has_come() -> None:
    graph, images, _ = digits()
    told: list[tuple[int, int]] = []
    found = narrowed(graph, images[:40], 5.0, lambda tried, image_bits: told.append((tried, image_bits)))
    assert [tried for tried, _ in told] == sorted(tried for tried, _ in told)
    assert told[-1][0] == found.tried
    assert told[0][1] == found.plain_image_bits
    assert all(after <= before for (_, before), (_, after) in pairwise(told))
    assert told[-1][1] - found.image_bits in {0, *PIXELS.values()}, "the last one that was tried may be the best"


@pytest.mark.parametrize("points", [0.0, 3.0])
def test_no_more_images_change_their_class_than_are_permitted(points: float) -> None:
    graph, images, labels = digits()
    seen = images[:100]
    found = narrowed(graph, seen, points)
    before, after = classes(quantise(graph, seen), seen), classes(found.quantised, seen)
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    assert found.changes.changed == changed
    assert changed + changed**0.5 <= points
    assert found.changes.expected - 0.5 <= points
    bits = found.quantised.activation_bits
    assert found.image_bits == sum(bits[name] * count for name, count in PIXELS.items())
    assert found.plain_image_bits == 8 * sum(PIXELS.values())
    assert found.image_bits < 0.7 * found.plain_image_bits
    assert len(set(bits.values())) > 1, "a layer each"
    assert found.tried <= most_tries(graph, seen)
    accuracy, plain = (
        fidelity(graph, each, images[100:], labels[100:]).accuracy for each in (found.quantised, found.plain)
    )
    assert accuracy is not None
    assert plain is not None
    assert plain - accuracy <= 0.01 + points / 100, "on images that it has not seen: none of 100 may be one of 100"


def test_what_is_lost_by_luck_alone_counts_as_well() -> None:
    """No image of these changes its class, and of others some may be expected to."""
    graph, images, _ = digits()
    seen = images[:100]
    counted = narrowed(graph, seen, 0.0)
    scores = [outputs_of_images(q.graph, q.image(seen)).reshape(100, -1) for q in (counted.plain, counted.quantised)]
    exponents = [q.exponents[q.graph.output] for q in (counted.plain, counted.quantised)]
    real = [found * 2.0**exponent for found, exponent in zip(scores, exponents, strict=True)]
    assert counted.changes.expected == pytest.approx(expected_changes(*real))
    assert 0 < counted.changes.expected <= 0.5
    bits = dict(counted.quantised.activation_bits)
    further = [{**bits, name: count - 1} for name, count in bits.items()]
    unchanged = [
        one for one in further if classes(quantise(graph, seen, bits_of=one), seen) == classes(counted.plain, seen)
    ]
    assert unchanged, "luck alone would have gone on with these"


def test_a_tensor_of_most_bits_is_narrowed_first_and_all_where_everything_is_permitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, images, _ = digits()
    asked: list[dict[str, int]] = []

    def recorded(
        graph: Graph, images: np.ndarray, bits_of: Mapping[str, int] = MappingProxyType({}), **further: Any
    ) -> QuantisedGraph:
        asked.append({**dict.fromkeys(PIXELS, 8), **bits_of})
        return quantise(graph, images, bits_of=bits_of, **further)

    monkeypatch.setattr(activation_widths, "quantise", recorded)
    everything = narrowed(graph, images[:20], 100.0)
    assert set(everything.quantised.activation_bits.values()) == {2}
    for before, after in pairwise(asked[: everything.tried]):
        (narrower,) = (name for name in PIXELS if after[name] != before[name])
        assert after[narrower] == before[narrower] - 1
        assert PIXELS[narrower] * before[narrower] == max(PIXELS[n] * before[n] for n in PIXELS if before[n] > 2)
    assert everything.tried == 1 + 6 * len(PIXELS) == most_tries(graph, images[:20])


def test_integers_have_the_bits_that_are_said() -> None:
    """Without a sign behind a Relu and of pixels, with one elsewhere; the largest integers are reached, so that no bit is idle."""
    graph, images, _ = digits()
    wanted = {"x": 4, "centred": 5, "pool1": 3, "pool2": 6}
    quantised = quantise(graph, images[:64], bits_of=wanted)
    assert quantised.activation_bits == wanted
    assert {name: quantised.bounds[name] for name in wanted} == {
        "x": (0, 15),
        "centred": (-15, 15),
        "pool1": (0, 7),
        "pool2": (0, 63),
    }
    computed = [evaluate(quantised.graph, quantised.image(image), integer=True) for image in images[:30]]
    for name, bits in wanted.items():
        values = np.array([tensors[name] for tensors in computed if name in tensors])
        if len(values):
            assert quantised.bounds[name][0] <= values.min()
            assert 2 ** (bits - 2) <= np.abs(values).max() <= quantised.bounds[name][1]


def test_packets_and_operands_are_as_narrow() -> None:
    graph, images, _ = digits()
    quantised = quantise(graph, images[:64], bits_of={"x": 5, "pool1": 3})
    space = CmSpace.of(quantised.graph, load_hardware("mesh-8x8-bits"))
    once = space.lowered({})
    stages = {stage.layer: stage for stage in once.pipeline.stages}
    assert stages["conv2"].input_bits == 3
    loads = {(s.writer, s.reader): s.load for s in once.streams}
    numbers = [stage.layer for stage in once.pipeline.stages]
    (pixels,) = (load for (writer, _), load in loads.items() if writer == -1)
    assert pixels == 5
    assert loads[numbers.index("pool1"), numbers.index("conv2")] == 6 * 3


def test_bits_of_what_has_none_of_its_own_are_refused() -> None:
    graph, images, _ = digits()
    with pytest.raises(ValueError, match="'conv1' has no bits of its own"):
        quantise(graph, images[:4], bits_of={"conv1": 4})
    with pytest.raises(ValueError, match="expected 2 to 12 bits, found 1"):
        quantise(graph, images[:4], bits_of={"x": 1})
