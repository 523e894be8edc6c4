"""Activations in as few bits as a permitted loss allows: shorter packets, smaller buffers, fewer ticks of bit-serial crossbars.

Bits decide together which images get another class, so nothing is added up: every choice is quantised anew, biases corrected,
and executed. What is counted are images of another class than with 8 bits everywhere, and those that may be expected to have another one
(`class_changes`): counts of few images are right by luck where many networks are tried, and unlike images that are right, those of another
class do not make up for one another.
The tensor that has most bits an image is made narrower first, for the busiest link or crossbar is what a stream of images waits for.
No packet, buffer or operand becomes larger by it, whatever the mapping; a shift is added where parts of a concatenation come to have
different exponents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.batches import outputs_of_images
from kilotune.codegen.onnx.calibration import RememberedRanges
from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.quantise import QuantisedGraph, quantise
from kilotune.evaluators.cm.class_changes import ClassChanges, class_changes

FEWEST_BITS, MOST_BITS = 2, 8
LIMITS = tuple(2 ** (bits - 1) - 1 for bits in range(FEWEST_BITS, MOST_BITS + 1))
"""The largest magnitudes that activations may be limited to."""


@dataclass(frozen=True)
class NarrowedNetwork:
    """plain: with 8 bits everywhere. points: that might be lost. changes: of the images that were decided on, against 8 bits.
    image_bits, plain_image_bits: of all activations with bits of their own, an image. tried: how many networks
    were executed."""

    quantised: QuantisedGraph
    plain: QuantisedGraph
    points: float
    changes: ClassChanges
    image_bits: int
    plain_image_bits: int
    tried: int


def narrowed(
    graph: Graph, images: Array, points: float, told: Callable[[int, int], None] = lambda tried, image_bits: None
) -> NarrowedNetwork:
    """The classifier `graph` in integers, calibrated on `images` [images, channels, height, width], with activations as narrow as
    `ClassChanges.lost_points` of at most `points` allow. told: how many networks were tried and the bits an
    image of the best, after each. ValueError for what `quantise` refuses with 8 bits."""
    plain, ranges = quantise(graph, images), RememberedRanges(graph, images, LIMITS)
    sizes = {name: prod(graph.shapes[name]) for name in plain.activation_bits}
    scores = _scores(plain, images)
    best, changes, tried = plain, ClassChanges(len(images), 0, 0.0), 1
    open_tensors = set(sizes)
    while open_tensors:
        bits = best.activation_bits
        widest = max(sorted(open_tensors), key=lambda name: bits[name] * sizes[name])
        found = _quantised(graph, images, {**bits, widest: bits[widest] - 1}, ranges)
        lost = None if found is None else class_changes(graph, scores, _scores(found, images))
        tried += found is not None
        told(tried, _image_bits(bits, sizes))
        if found is not None and lost is not None and lost.lost_points <= points:
            best, changes = found, lost
        else:
            open_tensors.remove(widest)
        if best.activation_bits[widest] == FEWEST_BITS:
            open_tensors.discard(widest)
    return _narrowed(graph, (best, plain), points, changes, tried)


def with_widths(
    graph: Graph, images: Array, points: float, bits: Mapping[str, int], changes: ClassChanges, tried: int
) -> NarrowedNetwork:
    """What `narrowed` has found with the same `images` and `points`, from the bits that it chose and what it counted, without trying again.
    ValueError for bits that are none of this network."""
    best, plain = quantise(graph, images, bits_of=bits), quantise(graph, images)
    return _narrowed(graph, (best, plain), points, changes, tried)


def _narrowed(
    graph: Graph, found: tuple[QuantisedGraph, QuantisedGraph], points: float, changes: ClassChanges, tried: int
) -> NarrowedNetwork:
    sizes = {name: prod(graph.shapes[name]) for name in found[1].activation_bits}
    image_bits, plain_bits = (_image_bits(each.activation_bits, sizes) for each in found)
    return NarrowedNetwork(*found, points, changes, image_bits, plain_bits, tried)


def most_tries(graph: Graph, images: Array) -> int:
    """How many networks `narrowed` executes at most: a bit less each time, or a tensor less that may have one less."""
    return 1 + len(quantise(graph, images[:1]).activation_bits) * (MOST_BITS - FEWEST_BITS)


def _quantised(graph: Graph, images: Array, bits: Mapping[str, int], ranges: RememberedRanges) -> QuantisedGraph | None:
    """None: no weights keep the sums exact with these bits."""
    try:
        return quantise(graph, images, bits_of=bits, ranges_of=ranges.of)
    except ValueError:
        return None


def _scores(quantised: QuantisedGraph, images: Array) -> Array:
    """Real ones, [images, elements]."""
    outputs = outputs_of_images(quantised.graph, quantised.image(images)).reshape(len(images), -1)
    return outputs * 2.0 ** quantised.exponents[quantised.graph.output]


def _image_bits(bits: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    return sum(bits[name] * size for name, size in sizes.items())
