"""A graph on many images: several at once, and no tensor longer than somebody reads it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.graph import ConvNode, Graph, Node, TensorShape, window_of
from kilotune.codegen.onnx.reference import compute

MOST_ELEMENTS_AT_ONCE = 1 << 22
"""Elements of the largest tensor of a batch, or of what its windows gather."""


def tensors_of_images(
    graph: Graph, images: Array, compute_node: Callable[[Node, list[Array]], Array] = compute
) -> Iterator[tuple[str, Array]]:
    """Every tensor of the graph, [channels, images, height, width], batch after batch in the order of the nodes.

    images: [images, channels, height, width]; integers for a quantised graph, floats otherwise, whose precision is kept.
    compute_node: what a node computes of its operands, where that is something else.
    """
    size = images_at_once(graph)
    last = {name: number for number, node in enumerate(graph.nodes) for name in node.inputs}
    for start in range(0, len(images), size):
        batch = np.ascontiguousarray(np.moveaxis(images[start : start + size], 0, 1))
        tensors: dict[str, Array] = {graph.input: batch}
        yield graph.input, batch
        for number, node in enumerate(graph.nodes):
            result = compute_node(node, [tensors[name] for name in node.inputs])
            tensors[node.output] = result
            yield node.output, result
            for name in {*node.inputs, node.output}:
                if last.get(name, -1) <= number:
                    tensors.pop(name, None)


def outputs_of_images(graph: Graph, images: Array) -> Array:
    """The first output of every image, [images, channels, height, width]; see `tensors_of_images`."""
    return all_outputs_of_images(graph, images)[0]


def all_outputs_of_images(graph: Graph, images: Array) -> list[Array]:
    """By output, that of every image, [images, channels, height, width]."""
    found: dict[str, list[Array]] = {name: [] for name in graph.output_tensors}
    for name, tensor in tensors_of_images(graph, images):
        if name in found:
            found[name].append(np.moveaxis(tensor, 1, 0))
    return [np.concatenate(found[output.tensor]) for output in graph.outputs]


def images_at_once(graph: Graph) -> int:
    """How many images a batch has, so that no array of it is too large."""
    return max(1, MOST_ELEMENTS_AT_ONCE // max(_gathered(graph, graph.shapes), default=1))


def _gathered(graph: Graph, shapes: Mapping[str, TensorShape]) -> Iterator[int]:
    """Elements of an image that each node makes or gathers."""
    yield math.prod(shapes[graph.input])
    for node in graph.nodes:
        channels, high, wide = shapes[node.output]
        yield channels * high * wide
        window = window_of(node)
        if window is not None:
            inputs = shapes[node.inputs[0]][0] // (node.groups if isinstance(node, ConvNode) else 1)
            yield inputs * math.prod(window.kernel) * high * wide


def images_as_integers(images: Array, exponent: int, bounds: tuple[int, int]) -> NDArray[np.int64]:
    """Real images as the integers of a quantised network: rounded to nearest, saturated at `bounds`."""
    scaled = np.rint(np.asarray(images, np.float64) * 2.0**-exponent)
    return np.clip(scaled, *bounds).astype(np.int64)


def operations_of(graph: Graph) -> int:
    """Multiplications of an image's convolutions."""
    nodes = [node for node in graph.nodes if isinstance(node, ConvNode)]
    return sum(math.prod(node.weight.shape) * math.prod(graph.shapes[node.output][1:]) for node in nodes)
