"""Integer networks: weights, activations and requantising shifts, small enough that float32 computes the same integers.

Every tensor t has an exponent e: the real value is about t * 2**e. Activations lie in [-(2**(b-1) - 1), 2**(b-1) - 1]
for b bits; their exponents are those with the least squared error on calibration images (`calibration`). Weights have an
exponent for each output channel. A convolution sums products exactly, adds its bias, and a `ShiftNode` brings the sum of each
channel to the exponent of the output: floor(sum / 2**s + 1/2), saturated. Averages are floor(sum / count + 1/2); the operands
of an Add are shifted to the finest exponent that keeps their sum exact. Functions are tables of all their arguments, and products of
tensors are exact before their shift. Biases are corrected for what rounding the weights
does to the mean of a channel (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias Correction",
Section 4.2, with means from the calibration images).

Tensors that are never negative, behind a Relu or pixels that calibration saw so, lie in [0, 2**b - 1] instead, and the
network's output has 16 bits; where it is a function of magnitude 1 at most (shares, as of Sigmoid), for all of its values, whatever
calibration saw of them. `bounds` says of each tensor between what integers it lies.

Every partial sum stays below 2**24 in magnitude, whatever the image and the order of summation, also when half of a shift's
unit is added, so that float32 arithmetic is exact: a channel whose weights could exceed it gets fewer weight bits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Array
from kilotune.codegen.onnx.batches import images_as_integers
from kilotune.codegen.onnx.bounds import Bounds, hull, result_bounds
from kilotune.codegen.onnx.calibration import TensorRange, tensor_ranges
from kilotune.codegen.onnx.function_tables import function_values, table_of
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ClipNode,
    ConcatNode,
    ConvNode,
    FunctionNode,
    Graph,
    MaxPoolNode,
    Node,
    PadNode,
    ProductNode,
    ReluNode,
    ShiftNode,
    TableNode,
    TensorShape,
    UnknownArray,
    known,
)
from kilotune.codegen.onnx.integer_weights import EXACT_LIMIT, integer_affine, integer_convolution

OUTPUT_LIMIT = 2**15 - 1
"""Largest magnitude of the network's output, which only the host reads."""

SPARE_OUTPUT_BITS = 3
"""How many bits of an output are for results larger than any that calibration has seen: nothing behind it saturates."""

MOST_LEFT, MOST_RIGHT = 38, 62
"""Bits of a shift: no sum of int64 overflows."""

MOST_ALIGNED_BITS = 12
"""How far an operand of an Add is shifted left at most."""


@dataclass(frozen=True)
class QuantisedGraph:
    """An integer network. exponents: by tensor, but for the sums before a shift, whose channels have their own; weight_bits: what
    each convolution's weights really need; bounds: of every tensor; activation_bits: of the image and of each tensor that a shift or a
    table brings to bits of its own, but for the network's output."""

    graph: Graph
    exponents: Mapping[str, int]
    weight_bits: Mapping[str, int]
    bounds: Mapping[str, Bounds]
    activation_bits: Mapping[str, int]

    def image(self, image: Array) -> NDArray[np.int64]:
        """A real image, or several, as the network's integers: rounded to nearest, saturated."""
        return images_as_integers(image, self.exponents[self.graph.input], self.bounds[self.graph.input])


def integer_shape(graph: Graph) -> Graph:
    """What `quantise` makes of a weightless graph: the nodes of its integer network, of unknown weights and scales.

    All exponents count as equal, so no operand of a Concat is shifted to another one's; where calibration finds
    different exponents there, the integer network has such a shift besides.
    """
    state = _QuantisationState(graph, {}, _limit(8), _limit(8))
    state.start(0, (-_limit(8), _limit(8)))
    for node in graph.nodes:
        state.add(node)
    return state.integer_graph()


def random_images(shape: TensorShape, count: int, seed: int) -> list[Array]:
    """Seeded normal images, for calibration and for trials."""
    return list(np.random.default_rng(seed).normal(0, 1, (count, *shape)))


def quantise(
    graph: Graph,
    images: Sequence[Array] | Array,
    activation_bits: int = 8,
    weight_bits: int = 8,
    bits_of: Mapping[str, int] = MappingProxyType({}),
    weights_of: Mapping[str, int] = MappingProxyType({}),
    ranges_of: Callable[[int, Mapping[str, int]], Mapping[str, TensorRange]] | None = None,
) -> QuantisedGraph:
    """The integer network, calibrated on `images`, each [channels, height, width]. bits_of: of those of `QuantisedGraph.activation_bits`
    that have others, 2 to 12. weights_of: bits of the weights of those convolutions that have others, 2 to 12. ranges_of:
    `tensor_ranges` of these images by `limit` and `limits`, from a caller who has them remembered.

    ValueError when `bits_of` names a tensor without bits of its own, or `weights_of` no convolution, when a layer cannot be held below
    2**24 with any weights but zero, or a sum of the images is not finite.
    """
    limit = _limit(activation_bits)
    shape = graph.shapes[graph.input]
    seen = np.asarray(images, np.float32).reshape(-1, *shape)
    limits = {name: _limit(bits) for name, bits in bits_of.items()}
    ranges = tensor_ranges(graph, seen, limit, limits) if ranges_of is None else ranges_of(limit, limits)
    state = _QuantisationState(graph, ranges, limit, _limit(weight_bits), weights_of)
    state.start(*_image_scale(seen, ranges[graph.input]))
    for node in graph.nodes:
        state.add(node)
    strange = [name for name in bits_of if name not in (graph.input, *state.own)]
    if strange:
        raise ValueError(f"{strange[0]!r} has no bits of its own")
    strange = [name for name in weights_of if name not in state.bits]
    if strange:
        raise ValueError(f"{strange[0]!r} has no weights")
    own = {name: ranges[name].limit.bit_length() + 1 for name in (graph.input, *state.own)}
    return QuantisedGraph(state.integer_graph(), state.exponents, state.bits, state.bounds, own)


def _image_scale(images: Array, found: TensorRange) -> tuple[int, Bounds]:
    """The exponent with the least squared error, and the bounds. Pixels are often whole numbers, whose rounding errors are not
    uniform; where none is negative, none is expected to be."""
    signed = bool((images < 0).any())
    bounds = (-found.limit, found.limit) if signed else (0, 2 * found.limit + 1)
    top = found.largest_exponent()

    def squared_error(exponent: int) -> float:
        integers = images_as_integers(images, exponent, bounds)
        return float(np.square(np.ldexp(integers.astype(np.float64), exponent) - images).sum())

    return min((top, top - 1, top - 2), key=squared_error), bounds


@dataclass
class _QuantisationState:
    graph: Graph
    ranges: Mapping[str, TensorRange]
    limit: int
    weight_limit: int
    weights_of: Mapping[str, int] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    exponents: dict[str, int] = field(default_factory=dict)
    bits: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, Bounds] = field(default_factory=dict)
    aligned: dict[tuple[str, int, int], str] = field(default_factory=dict)
    own: dict[str, None] = field(default_factory=dict)
    """Tensors that have bits of their own."""
    shapes: dict[str, TensorShape] = field(init=False)
    readers: Mapping[str, Sequence[Node]] = field(init=False)

    def __post_init__(self) -> None:
        self.readers = self.graph.readers()
        self.shapes = dict(self.graph.shapes)

    def start(self, exponent: int, bounds: Bounds) -> None:
        """With the image."""
        self.exponents[self.graph.input], self.bounds[self.graph.input] = exponent, bounds

    def integer_graph(self) -> Graph:
        """With all nodes that were added."""
        return dataclasses.replace(
            self.graph, nodes=tuple(self.nodes), shapes=dict(self.shapes), bounds=dict(self.bounds)
        )

    def add(self, node: Node) -> None:
        exponent = self.exponents[node.inputs[0]]
        if isinstance(node, ConvNode | AffineNode) and not self.ranges:
            self._requantised(node, exponent)
        elif isinstance(node, ConvNode):
            self._convolution(node, exponent)
        elif isinstance(node, AffineNode):
            self._affine(node, exponent)
        elif isinstance(node, AddNode):
            self._sum(node)
        elif isinstance(node, FunctionNode):
            self._function(node, exponent)
        elif isinstance(node, AveragePoolNode):
            self._average(node, exponent)
        elif isinstance(node, ProductNode):
            self._requantised(node, sum(self.exponents[name] for name in node.inputs))
        elif isinstance(node, ConcatNode):
            self._concatenation(node)
        else:
            self._kept(self._scaled(node, exponent), 0 if isinstance(node, ArgMaxNode) else exponent)

    def _sum(self, node: AddNode) -> None:
        """Operands shifted to the finest exponent, as far as that takes no more than `MOST_ALIGNED_BITS`."""
        exponents = [self.exponents[name] for name in self._with_range(node.inputs)]
        most_left = MOST_ALIGNED_BITS - len(node.inputs).bit_length()
        finest = max(min(exponents), max(exponents) - most_left)
        distances = (finest - self.exponents[name] for name in node.inputs)
        shifts = tuple(min(max(distance, -most_left), MOST_RIGHT) for distance in distances)
        self._requantised(dataclasses.replace(node, shifts=shifts), finest)

    def _concatenation(self, node: ConcatNode) -> None:
        """Operands shifted to the coarsest exponent; those that are never negative to half of what they have, where others are."""
        largest = self.limit if hull([self.bounds[name] for name in node.inputs])[0] < 0 else 2 * self.limit + 1
        coarsest = max(
            self.exponents[name] + (self.bounds[name][1] > largest) for name in self._with_range(node.inputs)
        )
        inputs = tuple(self._aligned(name, coarsest, largest) for name in node.inputs)
        self._kept(dataclasses.replace(node, inputs=inputs), coarsest)

    def _with_range(self, names: Sequence[str]) -> Sequence[str]:
        """Those tensors whose exponent says something, or all if none does: of one that was 0 on all images (behind a Relu that never
        let anything through) nothing is known, and the scale of others does not depend on it."""
        return [name for name in names if name not in self.ranges or self.ranges[name].counts.any()] or names

    def _scaled(self, node: Node, exponent: int) -> Node:
        if isinstance(node, ClipNode):
            low, high = (b if math.isinf(b) else float(round(b * 2.0**-exponent)) for b in (node.low, node.high))
            return dataclasses.replace(node, low=low, high=high)
        if isinstance(node, PadNode):
            low, high = self.bounds[node.inputs[0]]  # infinity: below or above all
            limits = (low, high) if math.isinf(node.value) else (-self.limit, max(high, self.limit))
            return dataclasses.replace(node, value=round(min(max(node.value * 2.0**-exponent, limits[0]), limits[1])))
        return node

    def _convolution(self, node: ConvNode, exponent: int) -> None:
        operand, target = self.bounds[node.inputs[0]], self._target(node.output)[0]
        bits = self.weights_of.get(node.output, self.weight_limit.bit_length() + 1)
        node, means = dataclasses.replace(node, weight_bits=bits), self.ranges[node.inputs[0]].means
        integers, scales = integer_convolution(node, exponent, operand, target, means, _limit(bits))
        self.bits[node.output] = int(np.abs(known(integers.weight)).max(initial=0)).bit_length() + 1
        self._requantised(integers, scales + exponent)

    def _affine(self, node: AffineNode, exponent: int) -> None:
        operand, target = self.bounds[node.inputs[0]], self._target(node.output)[0]
        integers, scales = integer_affine(node, exponent, operand, target, self.weight_limit)
        self._requantised(integers, scales + exponent)

    def _function(self, node: FunctionNode, exponent: int) -> None:
        """As a table. A function that is never negative takes no sign."""
        operand = self.bounds[node.inputs[0]]
        if not self.ranges:
            arguments = UnknownArray((operand[1] - operand[0] + 1,))
            self._kept(TableNode(node.inputs, node.output, operand[0], arguments), 0)
            return
        values = function_values(node, operand, exponent, self.shapes[node.output][0])
        target, limits = self._target(node.output, bool((values >= 0).all()))
        most = float(np.abs(values).max())
        if (
            self._is_result(node.output) and 0 < most <= 1
        ):  # a share: a result has the bits for what calibration did not see
            target = max(target, math.ceil(math.log2(most)) - OUTPUT_LIMIT.bit_length())
        self._kept(table_of(node, values, operand, target, limits), target)

    def _average(self, node: AveragePoolNode, exponent: int) -> None:
        """In steps finer than the operand's, where means are small, as far as they stay exact."""
        magnitude = max(abs(end) for end in self.bounds[node.inputs[0]])
        most = (EXACT_LIMIT // 4 - 1) // max(1, math.prod(node.window.kernel) * magnitude)
        if most < 1:
            raise ValueError(f"{node.output!r}: an average over {node.window.kernel} is too large to be exact")
        wanted = self._target(node.output)[0] if self.ranges else exponent
        left = min(max(0, exponent - wanted), most.bit_length() - 1)
        self._requantised(dataclasses.replace(node, left=left), exponent - left)

    def _requantised(self, node: Node, exponents: int | NDArray[np.int64]) -> None:
        """The node's exact sums have `exponents`, of all channels or of each: a shift brings them to that of its output."""
        found = self.ranges.get(node.output)
        if found is not None and not found.finite:
            raise ValueError(f"{node.output!r}: expected finite sums, found an overflow or infinity")
        target, limits = self._target(node.output)
        raw = self._free_name(f"{node.output}/sum")
        self._append(dataclasses.replace(node, output=raw))
        distances = np.clip(target - np.asarray(exponents, np.int64).reshape(-1), -MOST_LEFT, MOST_RIGHT)
        right = int(distances[0]) if (distances == distances[0]).all() else distances
        self.shapes[raw] = self.shapes[node.output]
        self._kept(ShiftNode((raw,), node.output, right, *limits), target)

    def _target(self, name: str, cut: bool = False) -> tuple[int, Bounds]:
        """The exponent of a tensor, and its bounds: by its own range, or by that of the only one that reads it where that cuts it
        further, for saturating first and Relu, Clip or MaxPool then is the same as the other way round. `cut`: whether what
        comes of it is never negative.

        The network's output has the bits of `OUTPUT_LIMIT`, some of them to spare (`SPARE_OUTPUT_BITS`): scores of classes that become
        equal are no scores any more.
        """
        readers, found = self.readers[name], self.ranges.get(name)
        if self._is_result(name):
            extra = (OUTPUT_LIMIT // self.limit).bit_length() - 1 - SPARE_OUTPUT_BITS
            return 0 if found is None else found.largest_exponent() - extra, (-OUTPUT_LIMIT, OUTPUT_LIMIT)
        if (
            len(readers) == 1
            and name not in self.graph.output_tensors
            and isinstance(readers[0], ReluNode | ClipNode | MaxPoolNode)
        ):
            reader = readers[0]
            positive = isinstance(reader, ReluNode) or (isinstance(reader, ClipNode) and reader.low >= 0)
            return self._target(reader.output, cut or positive)
        limit = self.limit if found is None else found.limit
        exponent = 0 if found is None else found.exponent() - cut
        self.own[name] = None
        return exponent, (0, 2 * limit + 1) if cut else (-limit, limit)

    def _is_result(self, name: str) -> bool:
        """Whether the host alone reads a tensor."""
        return name in self.graph.output_tensors and not self.readers[name]

    def _kept(self, node: Node, exponent: int) -> None:
        self._append(node)
        self.exponents[node.output] = exponent

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        operands = [self.bounds[name] for name in node.inputs]
        if isinstance(node, ConvNode | AffineNode) and not self.ranges:
            self.bounds[node.output] = (-EXACT_LIMIT + 1, EXACT_LIMIT - 1)
        elif isinstance(node, TableNode) and isinstance(node.table, UnknownArray):
            self.bounds[node.output] = (-self.limit, self.limit)
        else:
            self.bounds[node.output] = result_bounds(node, operands, self.shapes[node.inputs[0]])

    def _aligned(self, name: str, exponent: int, largest: int) -> str:
        distance = min(max(exponent - self.exponents[name], -MOST_ALIGNED_BITS), MOST_RIGHT)
        if distance == 0:
            return name
        aligned = self.aligned.get((name, distance, largest))
        if aligned is None:
            aligned = self.aligned[name, distance, largest] = self._free_name(f"{name}>>{distance}")
            self.shapes[aligned] = self.shapes[name]
            self._kept(ShiftNode((name,), aligned, distance, -self.limit, largest), exponent)
        return aligned

    def _free_name(self, name: str) -> str:
        """One that no tensor of the file has."""
        while name in self.shapes:
            name += "'"
        return name


def _limit(bits: int) -> int:
    if not 2 <= bits <= 12:
        raise ValueError(f"expected 2 to 12 bits, found {bits}")
    return int(2 ** (bits - 1) - 1)
