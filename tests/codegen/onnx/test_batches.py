"""Many images at once compute what they compute one by one."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen.onnx import batches
from kilotune.codegen.onnx.batches import operations_of, outputs_of_images, tensors_of_images
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from tests.codegen.cm.digits import digits_network
from tests.codegen.cm.networks import RandomNetwork


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("integer", [False, True])
def test_a_batch_is_its_images_one_after_another(seed: int, integer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_ELEMENTS_AT_ONCE", 6000)  # batches of some images, the last one smaller
    graph = import_model(RandomNetwork(seed).model(10), "random")
    images = np.asarray(random_images(graph.shapes[graph.input], 7, seed))
    if integer:
        quantised = quantise(graph, images[:2])
        graph, images = quantised.graph, quantised.image(images)
    found: dict[str, list[np.ndarray]] = {}
    for name, tensor in tensors_of_images(graph, images):
        found.setdefault(name, []).append(tensor)
    for k, image in enumerate(images):
        for name, expected in evaluate(graph, image, integer).items():
            np.testing.assert_allclose(np.concatenate(found[name], axis=1)[:, k], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(
        outputs_of_images(graph, images), np.moveaxis(np.concatenate(found[graph.output], axis=1), 1, 0)
    )


def test_multiplications_of_an_image() -> None:
    graph = import_model(digits_network(1), "digits")
    assert operations_of(graph) == 64 * 9 * 6 + 16 * 9 * 6 * 12 + 48 * 10
