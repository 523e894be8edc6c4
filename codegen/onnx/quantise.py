"""Integer networks: weights, activations and requantising shifts, small enough that float32 computes the same integers.

Every tensor t has an exponent e: the real value is about t * 2**e. Activations lie in [-(2**(b-1) - 1), 2**(b-1) - 1]
for b bits. A convolution sums products exactly, adds its bias, and a `ShiftNode` brings the sum to the exponent of its
output: floor(sum / 2**s), saturated. Exponents are powers of two of one tensor as a whole, from the largest magnitude
in calibration images. Averages are floor(sum / count); the operands of an Add are shifted right to the coarsest exponent.

Every partial sum stays below 2**24 in magnitude, whatever the image and the order of summation, so that float32
arithmetic is exact: a layer whose weights could exceed it gets fewer weight bits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ClipNode,
    ConcatNode,
    ConvNode,
    Graph,
    Node,
    PadNode,
    ShiftNode,
    TensorShape,
    UnknownArray,
    known,
)
from kilotune.codegen.onnx.reference import evaluate

EXACT_LIMIT = 2**24
"""Integers of smaller magnitude are exact in float32, and so are their sums in any order."""


@dataclass(frozen=True)
class QuantisedGraph:
    """An integer network. exponents: by tensor; weight_bits: what each convolution's weights really need."""

    graph: Graph
    exponents: Mapping[str, int]
    weight_bits: Mapping[str, int]
    activation_limit: int

    def image(self, image: Array) -> NDArray[np.int64]:
        """A real image as the network's integers: rounded to nearest, saturated."""
        scaled = np.rint(np.asarray(image, np.float64) * 2.0 ** -self.exponents[self.graph.input])
        return np.clip(scaled, -self.activation_limit, self.activation_limit).astype(np.int64)


def with_random_weights(graph: Graph, seed: int) -> Graph:
    """The network of `graph` with seeded normal weights of variance 1 / fan-in, and small biases."""
    generator = np.random.default_rng(seed)

    def drawn(node: Node) -> Node:
        if isinstance(node, ConvNode):
            spread = 1 / math.sqrt(math.prod(node.weight.shape[1:]))
            weight = generator.standard_normal(node.weight.shape, dtype=np.float32) * np.float32(spread)
            return dataclasses.replace(node, weight=weight, bias=generator.normal(0, 0.1, node.bias.shape))
        if isinstance(node, AffineNode):
            scale = generator.uniform(0.5, 1.5, node.scale.shape)
            return dataclasses.replace(node, scale=scale, offset=generator.normal(0, 0.1, node.offset.shape))
        return node

    return dataclasses.replace(graph, nodes=tuple(drawn(node) for node in graph.nodes))


def integer_shape(graph: Graph) -> Graph:
    """What `quantise` makes of a weightless graph: the nodes of its integer network, of unknown weights and scales.

    All exponents count as equal, so no operand of a Concat is shifted to another one's; where calibration finds
    different exponents there, the integer network has such a shift besides.
    """
    state = _QuantisationState(graph, dict.fromkeys(graph.shapes, 0.0), _limit(8), _limit(8))
    state.exponents[graph.input] = 0
    for node in graph.nodes:
        state.add(node)
    return dataclasses.replace(graph, nodes=tuple(state.nodes), shapes=dict(state.shapes))


def random_images(shape: TensorShape, count: int, seed: int) -> list[Array]:
    """Seeded normal images, for calibration and for trials."""
    return list(np.random.default_rng(seed).normal(0, 1, (count, *shape)))


def quantise(graph: Graph, images: Sequence[Array], activation_bits: int = 8, weight_bits: int = 8) -> QuantisedGraph:
    """The integer network. ValueError when a layer cannot be held below 2**24 with any weights but zero, or a sum of
    the images is not finite."""
    maxima = dict.fromkeys(graph.shapes, 0.0)
    for image in images:
        for name, tensor in evaluate(graph, image).items():
            maxima[name] = max(maxima[name], float(np.abs(tensor).max(initial=0)))
    state = _QuantisationState(graph, maxima, _limit(activation_bits), _limit(weight_bits))
    state.exponents[graph.input] = _fit(maxima[graph.input], state.limit)
    for node in graph.nodes:
        state.add(node)
    integer = dataclasses.replace(graph, nodes=tuple(state.nodes), shapes=dict(state.shapes))
    return QuantisedGraph(integer, state.exponents, state.bits, state.limit)


@dataclass
class _QuantisationState:
    graph: Graph
    maxima: Mapping[str, float]
    limit: int
    weight_limit: int
    nodes: list[Node] = field(default_factory=list)
    exponents: dict[str, int] = field(default_factory=dict)
    bits: dict[str, int] = field(default_factory=dict)
    aligned: dict[tuple[str, int], str] = field(default_factory=dict)
    shapes: dict[str, TensorShape] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = dict(self.graph.shapes)

    def add(self, node: Node) -> None:
        exponent = self.exponents[node.inputs[0]]
        if isinstance(node, ConvNode | AffineNode) and _weightless(node):
            self._requantised(node, exponent)
        elif isinstance(node, ConvNode):
            self._convolution(node, exponent)
        elif isinstance(node, AffineNode):
            self._affine(node, exponent)
        elif isinstance(node, AddNode):
            coarsest = max(self.exponents[name] for name in node.inputs)
            shifts = tuple(min(coarsest - self.exponents[name], 62) for name in node.inputs)
            self._requantised(dataclasses.replace(node, shifts=shifts), coarsest)
        elif isinstance(node, ConcatNode):
            coarsest = max(self.exponents[name] for name in node.inputs)
            inputs = tuple(self._aligned(name, coarsest) for name in node.inputs)
            self._kept(dataclasses.replace(node, inputs=inputs), coarsest)
        else:
            if isinstance(node, AveragePoolNode) and int(np.prod(node.window.kernel)) * self.limit >= EXACT_LIMIT // 4:
                raise ValueError(f"{node.output!r}: an average over {node.window.kernel} is too large to be exact")
            self._kept(self._scaled(node, exponent), 0 if isinstance(node, ArgMaxNode) else exponent)

    def _scaled(self, node: Node, exponent: int) -> Node:
        if isinstance(node, ClipNode):
            low, high = (b if math.isinf(b) else float(round(b * 2.0**-exponent)) for b in (node.low, node.high))
            return dataclasses.replace(node, low=low, high=high)
        if isinstance(node, PadNode):
            bounded = min(max(node.value * 2.0**-exponent, -self.limit), self.limit)  # infinity: below or above all
            return dataclasses.replace(node, value=round(bounded))
        return node

    def _convolution(self, node: ConvNode, exponent: int) -> None:
        real_weight, real_bias = known(node.weight), known(node.bias)
        peak = _peak(real_weight)
        scale = _fit(peak, self.weight_limit)
        while True:
            weight = np.rint(np.ldexp(real_weight, -scale, dtype=np.float64)).astype(np.int16)
            bias = np.rint(np.ldexp(real_bias, -(scale + exponent), dtype=np.float64))
            sums = np.abs(weight).reshape(len(weight), -1).sum(axis=1, dtype=np.int64) * self.limit + np.abs(bias)
            if sums.max(initial=0) < EXACT_LIMIT:
                break
            if peak and not weight.any():
                raise ValueError(f"{node.output!r}: no weights keep its sums below 2**24: bias {_peak(real_bias):g}")
            scale += 1
        self.bits[node.output] = int(np.abs(weight).max(initial=0)).bit_length() + 1
        self._requantised(dataclasses.replace(node, weight=weight, bias=bias.astype(np.int64)), scale + exponent)

    def _affine(self, node: AffineNode, exponent: int) -> None:
        real_scale, real_offset = known(node.scale), known(node.offset)
        scale = _fit(_peak(real_scale), self.weight_limit)
        while (_peak(real_offset) * 2.0 ** -(scale + exponent) + self.limit * self.weight_limit) >= EXACT_LIMIT:
            scale += 1
        factors = np.rint(real_scale * 2.0**-scale).astype(np.int64)
        offset = np.rint(real_offset * 2.0 ** -(scale + exponent)).astype(np.int64)
        self._requantised(dataclasses.replace(node, scale=factors, offset=offset), scale + exponent)

    def _requantised(self, node: Node, exponent: int) -> None:
        """The node's exact sums have `exponent`: a shift brings them to that of its output."""
        if not math.isfinite(self.maxima[node.output]):
            raise ValueError(f"{node.output!r}: expected finite sums, found an overflow or infinity")
        target = max(_fit(self.maxima[node.output], self.limit), exponent)
        raw = self._free_name(f"{node.output}/sum")
        self.nodes.append(dataclasses.replace(node, output=raw))
        self.nodes.append(ShiftNode((raw,), node.output, min(target - exponent, 62), -self.limit, self.limit))
        self.shapes[raw] = self.shapes[node.output]
        self.exponents[raw], self.exponents[node.output] = exponent, target

    def _kept(self, node: Node, exponent: int) -> None:
        self.nodes.append(node)
        self.exponents[node.output] = exponent

    def _aligned(self, name: str, exponent: int) -> str:
        distance = min(exponent - self.exponents[name], 62)
        if distance == 0:
            return name
        aligned = self.aligned.get((name, distance))
        if aligned is None:
            aligned = self.aligned[name, distance] = self._free_name(f"{name}>>{distance}")
            self.nodes.append(ShiftNode((name,), aligned, distance, -self.limit, self.limit))
            self.shapes[aligned] = self.shapes[name]
            self.exponents[aligned] = exponent
        return aligned

    def _free_name(self, name: str) -> str:
        """One that no tensor of the file has."""
        while name in self.shapes:
            name += "'"
        return name


def _weightless(node: ConvNode | AffineNode) -> bool:
    return isinstance(node.weight if isinstance(node, ConvNode) else node.scale, UnknownArray)


def _peak(array: Array) -> float:
    return float(max(array.max(initial=0), -array.min(initial=0)))


def _limit(bits: int) -> int:
    if not 2 <= bits <= 12:
        raise ValueError(f"expected 2 to 12 bits, found {bits}")
    return int(2 ** (bits - 1) - 1)


def _fit(maximum: float, limit: int) -> int:
    """The smallest exponent e with maximum <= limit * 2**e; 0 when all is 0."""
    if maximum == 0:
        return 0
    exponent = math.ceil(math.log2(maximum / limit))
    while maximum > limit * 2.0**exponent:
        exponent += 1
    return exponent
