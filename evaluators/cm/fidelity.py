"""How close an integer network comes to the float network that it was made from, on images that calibration has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.batches import outputs_of_images
from kilotune.codegen.onnx.graph import ArgMaxNode, Graph
from kilotune.codegen.onnx.quantise import QuantisedGraph


@dataclass(frozen=True)
class Fidelity:
    """images: how many were compared. relative_error: the root of the summed squares of all differences of outputs over that of
    the float outputs. agreement: the share of images of the same class, None where outputs are no scores of classes.
    accuracy, float_accuracy: shares of right classes; None without labels."""

    images: int
    relative_error: float
    agreement: float | None = None
    accuracy: float | None = None
    float_accuracy: float | None = None


def fidelity(graph: Graph, quantised: QuantisedGraph, images: Array, labels: Array | None = None) -> Fidelity:
    """`quantised` against `graph`, in single precision. images: real, [images, channels, height, width]; labels: [images].

    A class is the largest element of an output that is a vector, or what an ArgMax computes.
    """
    exact = outputs_of_images(graph, np.asarray(images, np.float32)).reshape(len(images), -1).astype(np.float64)
    integers = outputs_of_images(quantised.graph, quantised.image(images)).reshape(len(images), -1)
    scaled = integers * 2.0 ** quantised.exponents[graph.output]
    size = float(np.sqrt(np.square(exact).sum()))
    error = float(np.sqrt(np.square(scaled - exact).sum()))
    relative = error / size if size else float(error > 0)
    if not is_classifier(graph):
        return Fidelity(len(images), relative)
    found, meant = (chosen_classes(graph, outputs) for outputs in (scaled, exact))
    agreement = float((found == meant).mean())
    if labels is None:
        return Fidelity(len(images), relative, agreement)
    right, right_floats = (float((x == labels).mean()) for x in (found, meant))
    return Fidelity(len(images), relative, agreement, right, right_floats)


def chosen_classes(graph: Graph, outputs: Array) -> Array:
    """Classes by a classifier's outputs [images, elements]: the largest element, or what an ArgMax has computed."""
    return np.asarray(outputs[:, 0] if _ends_in_classes(graph) else outputs.argmax(axis=1))


def is_classifier(graph: Graph) -> bool:
    """Whether the output says one class of an image."""
    channels, high, wide = graph.shapes[graph.output]
    return (high, wide) == (1, 1) and (channels > 1 or _ends_in_classes(graph))


def _ends_in_classes(graph: Graph) -> bool:
    return any(isinstance(node, ArgMaxNode) and node.output == graph.output for node in graph.nodes)
