"""Channels of a network scaled alike by powers of two, so that one exponent a tensor fits all of them.

An integer tensor has one exponent, that of its largest channel: where batch normalisation was folded into weights, channels may be a
hundred times as small, and nothing is left of them in 8 bits. What writes a channel may multiply it by 2**k, and whoever reads
it divide its weights by that, where only nodes lie between that scale along: sums, the largest of a window, max(a, 0) (Nagel et al. 2019,
"Data-Free Quantization Through Weight Equalization and Bias Correction", Section 4.1). The network computes the same floats, bit by bit but
for those near to the smallest and the largest.

A channel becomes as large as costs least: rounding its elements costs less by each bit, and rounding the weights that read it more,
for these become small beside the others of their row. Weights of a layer that reads each channel alone have exponents of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Array, FloatArray
from kilotune.codegen.onnx.batches import all_outputs_of_images, tensors_of_images
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    AveragePoolNode,
    ChannelPadNode,
    ClipNode,
    ConcatNode,
    ConvNode,
    ExpandNode,
    FunctionNode,
    Graph,
    MaxPoolNode,
    Node,
    PadNode,
    PermuteNode,
    ProductNode,
    ReluNode,
    SubsampleNode,
    known,
)
from kilotune.codegen.onnx.quantise import quantise

MOST_BITS = 6
"""By how many a channel is made larger at most."""

SWEEPS = 8

CLEARLY = 0.75
"""Errors of so much of what they were are taken for better: other images than those that it is judged on may show other channels."""

STEPS, WEIGHT_STEPS = 255, 127
"""Into how many steps the largest value of an activation and of a weight is cut."""

HOMOGENEOUS = ("LeakyRelu", "PRelu", "Abs", "Neg")
"""Functions of s * x that are s times those of x, for every s > 0."""

SCALING = (
    *(ReluNode, MaxPoolNode, AveragePoolNode, SubsampleNode, ExpandNode),
    *(AddNode, ConcatNode, PermuteNode, ChannelPadNode, ProductNode),
)
ClassNumbers = NDArray[np.int64]


def equalised_where_better(graph: Graph, images: Array) -> Graph:
    """`equalised` where that brings the integers clearly nearer to the floats, and `graph` where it does not: what a channel shows on other
    images may be too large for it then. Judged on every other image, with what the rest shows."""
    seen, others = (images[::2], images[1::2]) if len(images) > 1 else (images, images)
    exact = all_outputs_of_images(graph, np.asarray(others, np.float32))
    plain, scaled = (_error(each, seen, others, exact) for each in (graph, equalised(graph, seen)))
    return equalised(graph, images) if scaled < CLEARLY * plain else graph


def _error(graph: Graph, seen: Array, others: Array, exact: list[Array]) -> float:
    """The largest relative error of an output of the integers; inf where there are none."""
    try:
        quantised = quantise(graph, seen)
    except ValueError:
        return math.inf
    integers = all_outputs_of_images(quantised.graph, quantised.image(others))
    exponents = [quantised.exponents[output.tensor] for output in graph.outputs]
    errors = [
        float(np.linalg.norm(found * 2.0**exponent - meant) / max(float(np.linalg.norm(meant)), 1e-30))
        for found, exponent, meant in zip(integers, exponents, exact, strict=True)
    ]
    return max(errors)


def equalised(graph: Graph, images: Array) -> Graph:
    """A network that computes the floats of `graph`, with channels as large as is best for 8 bits of what `images` show, [images, channels,
    height, width]."""
    classes = _channel_classes(graph)
    exponents = _chosen(graph, classes, _ChannelSizes.of(graph, images))
    bits = {name: exponents[places] for name, places in classes.items()}
    return replace(graph, nodes=tuple(_scaled(node, bits) for node in graph.nodes))


@dataclass(frozen=True)
class _ChannelSizes:
    """By tensor each channel's largest magnitude and mean square on some images."""

    largest: Mapping[str, FloatArray]
    squares: Mapping[str, FloatArray]

    @classmethod
    def of(cls, graph: Graph, images: Array) -> _ChannelSizes:
        largest: dict[str, FloatArray] = {}
        squares: dict[str, FloatArray] = {}
        for name, tensor in tensors_of_images(graph, np.asarray(images, np.float32)):
            values = np.abs(np.where(np.isfinite(tensor), tensor, 0)).reshape(len(tensor), -1).astype(np.float64)
            square = np.square(values).sum(axis=1) / (len(images) * math.prod(tensor.shape[2:]))
            largest[name] = np.maximum(largest.get(name, 0.0), values.max(axis=1))
            squares[name] = squares.get(name, 0.0) + square
        return cls(largest, squares)


def _channel_classes(graph: Graph) -> dict[str, ClassNumbers]:
    """By tensor the class of each channel, of all those that are scaled alike; 0: those that are not scaled."""
    starts = np.cumsum([1, *(shape[0] for shape in graph.shapes.values())])
    places = {
        name: np.arange(start, start + shape[0])
        for (name, shape), start in zip(graph.shapes.items(), starts.tolist(), strict=False)
    }
    parents = np.arange(starts[-1]).tolist()

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    for one, other in _equal_channels(graph, places):
        for pair in zip(one.tolist(), other.tolist(), strict=True):
            least, further = sorted(map(root, pair))
            parents[further] = least
    return {name: np.array(list(map(root, own.tolist())), np.int64) for name, own in places.items()}


def _equal_channels(graph: Graph, places: Mapping[str, ClassNumbers]) -> Iterator[tuple[ClassNumbers, ClassNumbers]]:
    """Channels that are scaled alike, pair by pair; one is 0 where the other is not scaled."""
    for name in (graph.input, *graph.output_tensors):
        yield places[name], np.zeros_like(places[name])
    for node in graph.nodes:
        read, written = [places[name] for name in node.inputs], places[node.output]
        if not _scales_along(node):
            for each in (*read, written) if not isinstance(node, ConvNode | AffineNode) else ():
                yield each, np.zeros_like(each)
        elif isinstance(node, AddNode):
            for each in read:
                yield each, written
        elif isinstance(node, PermuteNode):
            yield read[0][list(node.order)], written
        elif isinstance(node, ChannelPadNode):
            yield read[0], written[node.before : len(written) - node.after]
        else:
            yield np.concatenate(read) if isinstance(node, ConcatNode) else read[0], written
            if isinstance(node, ProductNode):
                yield read[1], np.zeros_like(written)


def _scales_along(node: Node) -> bool:
    """Whether channels that are scaled come out scaled, of a product those of the first operand."""
    if isinstance(node, PadNode):
        return node.value == 0 or math.isinf(node.value)
    if isinstance(node, FunctionNode):
        return node.function in HOMOGENEOUS and not node.gated
    return isinstance(node, SCALING)


def _chosen(graph: Graph, classes: Mapping[str, ClassNumbers], found: _ChannelSizes) -> ClassNumbers:
    """Exponents by class, sweep after sweep: what a channel may cost depends on how large the others of its rows have become."""
    exponents = np.zeros(1 + max(int(each.max()) for each in classes.values()), np.int64)
    for _ in range(SWEEPS):
        bits = {name: exponents[each] for name, each in classes.items()}
        scaled = replace(graph, nodes=tuple(_scaled(node, bits) for node in graph.nodes))
        now = _ChannelSizes(
            {name: np.ldexp(found.largest[name], own) for name, own in bits.items()},
            {name: np.ldexp(found.squares[name], 2 * own) for name, own in bits.items()},
        )
        rounding, weights = _costs(scaled, classes, now, len(exponents))
        tried = np.arange(MOST_BITS + 1)[:, None]
        best = (weights * 4.0**tried + rounding * 4.0**-tried).argmin(axis=0)
        room = np.minimum(MOST_BITS - exponents, _room(scaled, classes, now, len(exponents)))
        further = np.where(rounding > 0, np.minimum(best, room), 0)
        if not further.any():
            break
        exponents += further
    return exponents


def _room(graph: Graph, classes: Mapping[str, ClassNumbers], found: _ChannelSizes, count: int) -> ClassNumbers:
    """By class, by how many bits its channels are smaller than the largest one, in every tensor that has a place of its own."""
    room, readers = np.full(count, MOST_BITS), graph.readers()
    room[0] = 0
    for name, own in classes.items():
        each = readers[name]
        cut = len(each) == 1 and isinstance(each[0], ReluNode | ClipNode | MaxPoolNode)  # its sums go on to that one
        if name in graph.output_tensors or not cut:
            largest = found.largest[name]
            there = np.flatnonzero(largest)  # what is 0 is so at any scale
            smaller = np.floor(np.log2(largest.max() / largest[there])).astype(np.int64)
            np.minimum.at(room, own[there], smaller)
    return room


def _costs(
    graph: Graph, classes: Mapping[str, ClassNumbers], found: _ChannelSizes, count: int
) -> tuple[FloatArray, FloatArray]:
    """By class, what rounding its elements and the weights that read them adds to the squares of what these layers compute, as shares of
    them; up to a factor that is the same for all."""
    rounding, weights = np.zeros(count), np.zeros(count)
    for node in graph.nodes:
        name, power = node.inputs[0], float(found.squares[node.output].sum())
        step = found.largest[name].max() / STEPS
        if isinstance(node, AffineNode) and power:
            np.add.at(rounding, classes[name], step * step * np.square(known(node.scale).astype(np.float64)) / power)
        elif isinstance(node, ConvNode) and power:
            weight = known(node.weight).astype(np.float64)
            by_group = weight.reshape(node.groups, -1, *weight.shape[1:])
            squares = np.square(by_group).sum(axis=(1, 3, 4)).reshape(-1)
            np.add.at(rounding, classes[name], step * step * squares / power)
            if weight.shape[1] > 1:
                steps = np.abs(by_group).max(axis=(2, 3, 4)) / WEIGHT_STEPS
                noise = np.square(steps).sum(axis=1) * math.prod(weight.shape[2:])
                np.add.at(weights, classes[name], found.squares[name] * np.repeat(noise, weight.shape[1]) / power)
    return rounding, weights


def _scaled(node: Node, bits: Mapping[str, ClassNumbers]) -> Node:
    if isinstance(node, ConvNode):
        weight, bias = known(node.weight), known(node.bias)
        out, into = bits[node.output], bits[node.inputs[0]].reshape(node.groups, -1)
        inside = np.repeat(into, len(weight) // node.groups, axis=0)
        scaled = np.ldexp(weight, (out[:, None] - inside)[:, :, None, None]).astype(weight.dtype)
        return replace(node, weight=scaled, bias=np.ldexp(bias, out).astype(bias.dtype))
    if isinstance(node, AffineNode):
        out, inside = bits[node.output], bits[node.inputs[0]]
        scale, offset = known(node.scale), known(node.offset)
        return replace(
            node,
            scale=np.ldexp(scale, out - inside).astype(scale.dtype),
            offset=np.ldexp(offset, out).astype(offset.dtype),
        )
    return node
