"""How close an integer network comes to the float network that it was made from, on images that calibration has not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.batches import all_outputs_of_images
from kilotune.codegen.onnx.graph import ArgMaxNode, Graph
from kilotune.codegen.onnx.quantise import QuantisedGraph

GROWTH = 4
"""How many times as many images have been compared after each step of `fidelities`, so that all steps cost about as much as one."""


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
    *_, found = fidelities(graph, quantised, images, labels)
    return found


def fidelities(
    graph: Graph, quantised: QuantisedGraph, images: Array, labels: Array | None = None
) -> Iterator[Fidelity]:
    """As `fidelity`, on the first image alone, then on ever more, and last on all: for whoever may have to stop."""
    floats, scaled = list[list[Array]](), list[list[Array]]()
    exponents = [quantised.exponents[output.tensor] for output in graph.outputs]
    done, end = 0, 1
    while done < len(images):
        block = images[done:end]
        integers = all_outputs_of_images(quantised.graph, quantised.image(block))
        scaled.append([values * 2.0**exponent for values, exponent in zip(integers, exponents, strict=True)])
        floats.append(all_outputs_of_images(graph, np.asarray(block, np.float32)))
        done, end = done + len(block), GROWTH * end
        found, exact = ([np.concatenate(parts) for parts in zip(*blocks, strict=True)] for blocks in (scaled, floats))
        yield _fidelity(graph, found, exact, None if labels is None else labels[:done])


def _fidelity(graph: Graph, scaled: Sequence[Array], exact: Sequence[Array], labels: Array | None) -> Fidelity:
    """By outputs [images, channels, height, width]."""
    images = len(exact[0])
    relative = max(relative_error(found, meant) for found, meant in zip(scaled, exact, strict=True))
    if not is_classifier(graph):
        return Fidelity(images, relative)
    found, meant = (chosen_classes(graph, outputs[0].reshape(images, -1)) for outputs in (scaled, exact))
    agreement = float((found == meant).mean())
    if labels is None:
        return Fidelity(images, relative, agreement)
    right, right_floats = (float((x == labels).mean()) for x in (found, meant))
    return Fidelity(images, relative, agreement, right, right_floats)


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
