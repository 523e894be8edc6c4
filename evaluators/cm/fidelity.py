"""How close an integer network comes to the float network that it was made from, on images that calibration has not seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.batches import all_outputs_of_images
from kilotune.codegen.onnx.graph import ArgMaxNode, Graph
from kilotune.codegen.onnx.quantise import QuantisedGraph


@dataclass(frozen=True)
class Fidelity:
    """images: how many were compared. relative_error: the root of the summed squares of all differences of an output over that of
    the float output, the largest of all outputs. agreement: the share of images of the same class, None where outputs are no scores
    of classes.
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
    exact = all_outputs_of_images(graph, np.asarray(images, np.float32))
    integers = all_outputs_of_images(quantised.graph, quantised.image(images))
    exponents = [quantised.exponents[output.tensor] for output in graph.outputs]
    scaled = [found * 2.0**exponent for found, exponent in zip(integers, exponents, strict=True)]
    relative = max(relative_error(found, meant) for found, meant in zip(scaled, exact, strict=True))
    if not is_classifier(graph):
        return Fidelity(len(images), relative)
    found, meant = (chosen_classes(graph, outputs[0].reshape(len(images), -1)) for outputs in (scaled, exact))
    agreement = float((found == meant).mean())
    if labels is None:
        return Fidelity(len(images), relative, agreement)
    right, right_floats = (float((x == labels).mean()) for x in (found, meant))
    return Fidelity(len(images), relative, agreement, right, right_floats)


def relative_error(found: Array, exact: Array) -> float:
    """The root of the summed squared differences over that of `exact`; 1 where that is 0 and anything differs."""
    exact = exact.astype(np.float64)
    size, error = (float(np.sqrt(np.square(values).sum())) for values in (exact, found - exact))
    return error / size if size else float(error > 0)


def chosen_classes(graph: Graph, outputs: Array) -> Array:
    """Classes by a classifier's outputs [images, elements]: the largest element, or what an ArgMax has computed."""
    return np.asarray(outputs[:, 0] if _ends_in_classes(graph) else outputs.argmax(axis=1))


def is_classifier(graph: Graph) -> bool:
    """Whether the only output says one class of an image."""
    channels, high, wide = graph.shapes[graph.output]
    return len(graph.outputs) == 1 and (high, wide) == (1, 1) and (channels > 1 or _ends_in_classes(graph))


def class_count(graph: Graph) -> int | None:
    """How many classes a classifier's output tells apart; None where the output is no scores of classes, or where nodes are left for the
    host, which may choose among others."""
    if graph.left or not is_classifier(graph):
        return None
    scores = next(
        (n.inputs[0] for n in graph.nodes if isinstance(n, ArgMaxNode) and n.output == graph.output), graph.output
    )
    return graph.shapes[scores][0]


def _ends_in_classes(graph: Graph) -> bool:
    return any(isinstance(node, ArgMaxNode) and node.output == graph.output for node in graph.nodes)
