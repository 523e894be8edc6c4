"""Integer networks of one network of floats with bits of their own: activations a tensor, weights and converters a layer.

Bits decide together which images get another class, so each choice is quantised anew, biases corrected, converters' steps fitted, and
executed. What they lose is told by the images that have another class than with 8 bits everywhere and exact sums, and by how far scores are
off, as in `activation_widths`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.cm.blocks import Crossbar, converter_behind
from kilotune.codegen.onnx.batches import outputs_of_images
from kilotune.codegen.onnx.calibration import RememberedRanges
from kilotune.codegen.onnx.converter_steps import with_converters
from kilotune.codegen.onnx.converters import ColumnConverter
from kilotune.codegen.onnx.graph import WEIGHT_BITS, ConvNode, Graph, ShiftNode
from kilotune.codegen.onnx.quantise import QuantisedGraph, integer_shape, quantise
from kilotune.evaluators.cm.activation_widths import LIMITS
from kilotune.evaluators.cm.class_changes import ClassChanges, class_changes
from kilotune.evaluators.cm.fidelity import chosen_classes
from kilotune.evaluators.cm.noisy_fidelity import AnalogueCores, NoisyFidelity, noisy_fidelity

NETWORKS_KEPT = 16
NOISE_SEED = 1
"""Cells that bits are chosen by are others than those that accuracy is told of."""


@dataclass(frozen=True)
class BitWidths:
    """Bits with a sign, by the name of a tensor, or of the tensor that a layer writes in the network of floats; those left out have 8, and
    converters that are left out are exact."""

    activations: Mapping[str, int]
    weights: Mapping[str, int]
    converters: Mapping[str, int]

    @property
    def key(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """To remember things by."""
        return tuple(tuple(sorted(each.items())) for each in (self.activations, self.weights, self.converters))


NO_WIDTHS = BitWidths({}, {}, {})


class BitNetworks:
    """All of a classifier `graph`, calibrated on `images` [images, channels, height, width], on one kind of crossbars. piece_bits: of an
    operand, that enter at once; 0: all. labels: classes of the images; None: noise is compared with the floats' classes."""

    def __init__(self, graph: Graph, images: Array, labels: Array | None, crossbar: Crossbar, piece_bits: int) -> None:
        self.graph, self.images, self.labels = graph, np.asarray(images, np.float32), labels
        self.crossbar, self._piece_bits = crossbar, piece_bits
        parts = graph.parts or {}
        self.layers = tuple(n.output for n in graph.nodes if isinstance(n, ConvNode) and n.output not in parts)
        self._kept: dict[object, QuantisedGraph] = {}
        self._changes: dict[object, ClassChanges] = {}
        self._noisy: dict[object, NoisyFidelity] = {}

    @cached_property
    def plain(self) -> QuantisedGraph:
        """With 8 bits everywhere and exact sums."""
        return self.quantised(NO_WIDTHS)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Those that have bits of their own."""
        return tuple(self.plain.activation_bits)

    def quantised(self, widths: BitWidths) -> QuantisedGraph:
        """The network with these bits; the last few are kept. ValueError where no weights, or no converters, keep the sums below 2**24."""
        found = self._kept.pop(widths.key, None)
        if found is None:
            found = self._with_converters(self._exact(widths), widths.converters)
            while len(self._kept) >= NETWORKS_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[widths.key] = found
        return found

    def outline(self, widths: BitWidths) -> Graph:
        """The network with these bits, but for the steps of its converters, which cost an execution and are 1: what an accelerator is asked
        for is told by it nearly as well. ValueError as of `quantised`."""
        graph, bits = self._exact(widths).graph, widths.converters
        shifts = {node.inputs[0]: node.output for node in graph.nodes if isinstance(node, ShiftNode)}
        nodes = tuple(
            replace(n, converter=converter_behind(n, self.crossbar, bits[shifts[n.output]], self._piece_bits))
            if isinstance(n, ConvNode) and shifts.get(n.output) in bits
            else n
            for n in graph.nodes
        )
        return replace(graph, nodes=nodes)

    def changes(self, widths: BitWidths) -> ClassChanges:
        """Against the network with 8 bits everywhere, on the images. ValueError as of `quantised`."""
        found = self._changes.get(widths.key)
        if found is None:
            quantised = self.quantised(widths)
            found = self._changes[widths.key] = class_changes(
                self.graph,
                self._scores(self.plain, self.plain_outputs),
                self._scores(quantised, self._outputs(quantised)),
            )
        return found

    def noisy(self, widths: BitWidths, cores: AnalogueCores) -> NoisyFidelity:
        """What is left on noisy cells, on the images for calibration. ValueError as of `quantised`."""
        found = self._noisy.get((widths.key, cores))
        if found is None:
            quantised = self.quantised(widths)
            integers = quantised.image(self.images)
            found = noisy_fidelity(
                quantised.graph, cores, integers, integers, self._float_classes, self.labels, NOISE_SEED
            )
            self._noisy[widths.key, cores] = found
        return found

    def narrowest(self, weight_bits: int, converter_bits: int) -> Graph:
        """The shape of a network with a bit for each element, and so many for each weight and conversion (0: exact). None of the networks
        with at least so many bits a weight takes fewer cells. It has no weights, and where a network shifts parts of a concatenation it has
        no shift."""
        shape = integer_shape(self.graph)
        converter = ColumnConverter(converter_bits, ()) if converter_bits else None
        nodes = tuple(
            replace(n, weight_bits=weight_bits, converter=converter) if isinstance(n, ConvNode) else n
            for n in shape.nodes
        )
        return replace(shape, nodes=nodes, bounds=dict.fromkeys(shape.bounds or {}, (0, 1)))

    def _exact(self, widths: BitWidths) -> QuantisedGraph:
        """Without converters."""
        of = widths.activations, widths.weights
        return quantise(self.graph, self.images, bits_of=of[0], weights_of=of[1], ranges_of=self._ranges.of)

    def _with_converters(self, quantised: QuantisedGraph, bits: Mapping[str, int]) -> QuantisedGraph:
        if not bits:
            return quantised

        def behind(name: str, node: ConvNode) -> ColumnConverter | None:
            return converter_behind(node, self.crossbar, bits[name], self._piece_bits) if name in bits else None

        return with_converters(quantised, behind, quantised.image(self.images))

    @cached_property
    def _ranges(self) -> RememberedRanges:
        return RememberedRanges(self.graph, self.images, LIMITS)

    @cached_property
    def plain_outputs(self) -> Array:
        """What `plain` makes of the images, integers [images, elements]."""
        return self._outputs(self.plain)

    @cached_property
    def _float_classes(self) -> Array:
        return chosen_classes(self.graph, outputs_of_images(self.graph, self.images).reshape(len(self.images), -1))

    @staticmethod
    def _scores(quantised: QuantisedGraph, outputs: Array) -> Array:
        """Real ones of integer outputs."""
        return outputs * 2.0 ** quantised.exponents[quantised.graph.output]

    def _outputs(self, quantised: QuantisedGraph) -> Array:
        return outputs_of_images(quantised.graph, quantised.image(self.images)).reshape(len(self.images), -1)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": {}}  # workers quantise again what they need


def weight_levels(cell_bits: int) -> tuple[int, ...]:
    """The bits of weights that are worth a decision, the most first: as many as their slices hold. Without slices 8 alone."""
    if not cell_bits:
        return (WEIGHT_BITS,)
    magnitudes = range(cell_bits * (-(-(WEIGHT_BITS - 1) // cell_bits) - 1), 0, -cell_bits)
    return (WEIGHT_BITS, *(magnitude + 1 for magnitude in magnitudes))
