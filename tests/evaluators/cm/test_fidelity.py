"""What the integers of a trained network cost, at every scale of its input."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.fidelity import class_count, fidelities, fidelity
from tests.codegen.cm.digits import digits_images, digits_network
from tests.codegen.cm.networks import model, outputs_of, single


@pytest.mark.parametrize("largest", [1, 16, 255])
def test_digits_lose_at_most_half_a_point_at_any_scale(largest: int) -> None:
    proto = digits_network(largest)
    graph = import_model(proto, "digits")
    images, labels = digits_images(largest)
    found = fidelity(graph, quantise(graph, images[:64]), images[64:], labels[64:])
    exact = np.array([outputs_of(proto, [image])[0].argmax() for image in images[64:]])
    assert found.images == len(images) - 64
    assert found.float_accuracy == float((exact == labels[64:]).mean()) > 0.98
    assert found.accuracy is not None
    assert found.accuracy >= found.float_accuracy - 0.005
    assert found.agreement is not None
    assert found.agreement > 0.99
    assert found.relative_error < 0.07


def test_noise_does_not_do_for_images_of_another_scale() -> None:
    """Why images are asked for: 13 % at inputs from 0 to 16."""
    graph = import_model(digits_network(16), "digits")
    images, labels = digits_images(16)
    noise = quantise(graph, random_images(graph.shapes[graph.input], 1, 0))
    found = fidelity(graph, noise, images[64:], labels[64:])
    assert found.accuracy is not None
    assert found.accuracy < 0.2


def test_figures_by_hand() -> None:
    """A network that copies its image, with integers of step 1 from images up to 127: 0.5 is rounded to the even 0."""
    graph = import_model(single("Relu", [1, 2, 1, 1]), "copy")
    quantised = quantise(graph, np.full((1, 2, 1, 1), 127.0))
    images = np.array([[3, 4], [0.5, 0], [2, 9], [4, 1]], np.float32).reshape(4, 2, 1, 1)
    found = fidelity(graph, quantised, images, np.array([1, 1, 1, 1]))
    assert found.relative_error == pytest.approx(0.5 / np.sqrt(25 + 0.25 + 85 + 17))
    assert (found.agreement, found.accuracy, found.float_accuracy) == (1.0, 0.5, 0.5)


def test_how_many_classes_there_are() -> None:
    """Scores', or those that an ArgMax chooses among; a map has none."""
    chosen = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("ArgMax", ["a"], ["y"], axis=1)]
    protos = (model(chosen, [1, 4, 1, 1], {}), single("Relu", [1, 4, 1, 1]), single("Relu", [1, 4, 3, 3]))
    assert [class_count(import_model(proto, "net")) for proto in protos] == [4, 4, None]


def test_images_of_one_class_only_where_the_output_is_a_vector() -> None:
    graph = import_model(single("Relu", [1, 2, 3, 3]), "map")
    images = np.random.default_rng(0).normal(size=(3, 2, 3, 3))
    found = fidelity(graph, quantise(graph, images), images, np.zeros(3))
    assert (found.agreement, found.accuracy) == (None, None)
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("ArgMax", ["a"], ["y"], axis=1)]
    graph = import_model(model(nodes, [1, 4, 1, 1], {}), "class")
    images = np.random.default_rng(0).uniform(0, 1, size=(50, 4, 1, 1))
    quantised = quantise(graph, images)
    meant = np.array([evaluate(graph, image)["y"].item() for image in images])
    integers = np.array([evaluate(quantised.graph, quantised.image(i), integer=True)["y"].item() for i in images])
    found = fidelity(graph, quantised, images, meant)
    assert (found.agreement, found.accuracy, found.float_accuracy) == ((meant == integers).mean(),) * 2 + (1.0,)


def test_steps_are_the_first_images_and_the_last_is_all_of_them() -> None:
    graph = import_model(digits_network(16), "digits")
    images, labels = digits_images(16)
    quantised, unseen, meant = quantise(graph, images[:64]), images[64:90], labels[64:90]
    steps = list(fidelities(graph, quantised, unseen, meant))
    assert [step.images for step in steps] == [1, 4, 16, 26]
    assert steps == [fidelity(graph, quantised, unseen[: step.images], meant[: step.images]) for step in steps]
