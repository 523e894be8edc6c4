"""What analogue crossbars cost: the classes of an integer network whose products are made by noisy cells and few-bit converters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import Array, FloatArray
from kilotune.codegen.cm.blocks import Crossbar, column_blocks
from kilotune.codegen.onnx.batches import tensors_of_images
from kilotune.codegen.onnx.converters import ColumnBlock, digits, slice_count
from kilotune.codegen.onnx.crossbar_products import PIXELS_AT_ONCE, matrix
from kilotune.codegen.onnx.graph import ConvNode, Graph, Node, known
from kilotune.codegen.onnx.reference import compute, patches
from kilotune.evaluators.cm.phase_change import weights_after

INTERVAL_95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t for 2 to 10 draws."""


@dataclass(frozen=True)
class AnalogueCores:
    """seconds: since programming. converter_bits: with a sign, of a column's result, whose range is what calibration images need, where a
    layer has no converter of its own; None: exact. draws: how often all cells are programmed anew, at least 2, at most 10."""

    crossbar: Crossbar
    seconds: float
    converter_bits: int | None = 8
    draws: int = 10


@dataclass(frozen=True)
class NoisyFidelity:
    """Shares by draw of images of the right class, and of the class of the floats; the former None without labels."""

    agreements: tuple[float, ...]
    accuracies: tuple[float, ...] | None


def interval(shares: Sequence[float]) -> tuple[float, float]:
    """The mean of some draws and half the width of its 95 % interval."""
    mean = float(np.mean(shares))
    return mean, INTERVAL_95[len(shares) - 2] * float(np.std(shares, ddof=1)) / math.sqrt(len(shares))


def noisy_fidelity(
    graph: Graph,
    cores: AnalogueCores,
    calibration: Array,
    images: Array,
    classes: Array,
    labels: Array | None = None,
    seed: int = 0,
) -> NoisyFidelity:
    """An integer network with a class an image. calibration, images: integers; classes: those of the float network for `images`."""
    blocks = {n.output: column_blocks(n, cores.crossbar) for n in graph.nodes if isinstance(n, ConvNode)}
    ranges = _ranges(graph, blocks, cores.crossbar, calibration)
    found = []
    for draw in range(cores.draws):
        generator = np.random.default_rng((seed, draw))
        cells = {
            n.output: _cells(n, blocks[n.output], cores, generator) for n in graph.nodes if isinstance(n, ConvNode)
        }
        computed = _AnalogueLayers(blocks, cells, ranges, cores.converter_bits)
        parts = [
            t.argmax(axis=0).reshape(-1)
            for name, t in tensors_of_images(graph, images, computed.compute)
            if name == graph.output
        ]
        found.append(np.concatenate(parts))
    agreements = tuple(float((f == classes).mean()) for f in found)
    return NoisyFidelity(agreements, None if labels is None else tuple(float((f == labels).mean()) for f in found))


CoreSlices = tuple[tuple[int, FloatArray], ...]
"""What a core's cells compute with, [columns, rows] for each slice of the weights, and the slices' places."""

Cells = list[list[CoreSlices]]
"""By column block and row block."""


def _cells(
    node: ConvNode, blocks: Sequence[ColumnBlock], cores: AnalogueCores, generator: np.random.Generator
) -> Cells:
    bits = cores.crossbar.cell_bits
    largest = float((1 << bits) - 1 if bits else np.abs(known(node.weight)).max(initial=0))

    def noisy(slices: CoreSlices) -> CoreSlices:
        return tuple((place, weights_after(cells, largest, cores.seconds, generator)) for place, cells in slices)

    return [[noisy(slices) for slices in rows] for rows in _exact(node, blocks, cores.crossbar)]


def _ranges(
    graph: Graph, blocks: Mapping[str, Sequence[ColumnBlock]], crossbar: Crossbar, images: Array
) -> dict[str, float]:
    """The largest magnitude of a column's result in each layer, without noise."""
    exact = {n.output: _exact(n, blocks[n.output], crossbar) for n in graph.nodes if isinstance(n, ConvNode)}
    layers = _AnalogueLayers(blocks, exact, {}, None)
    for _ in tensors_of_images(graph, images, layers.compute):
        pass
    return layers.largest


def _exact(node: ConvNode, blocks: Sequence[ColumnBlock], crossbar: Crossbar) -> Cells:
    """What cells are programmed to, those of slices too that hold nothing but 0."""

    def cut(weights: Array) -> CoreSlices:
        slices = digits(weights, crossbar.cell_bits, slice_count(node.weight_bits, crossbar.cell_bits))
        return tuple((place, cells.astype(np.float64)) for place, cells in slices)

    return [[cut(matrix(node, b, row).astype(np.int64)) for row in range(b.row_blocks)] for b in blocks]


class _AnalogueLayers:
    """compute: what `reference.compute` is, with convolutions on crossbars. largest: of any column's result, by layer."""

    def __init__(
        self,
        blocks: Mapping[str, Sequence[ColumnBlock]],
        cells: Mapping[str, Cells],
        ranges: Mapping[str, float],
        bits: int | None,
    ) -> None:
        self._blocks, self._cells, self._ranges, self._bits = blocks, cells, ranges, bits
        self.largest: dict[str, float] = {}

    def compute(self, node: Node, operands: list[Array]) -> Array:
        """Any node."""
        return self._products(node, operands[0]) if isinstance(node, ConvNode) else compute(node, operands)

    def _products(self, node: ConvNode, tensor: Array) -> Array:
        gathered = patches(tensor.astype(np.float64), node.window, 0.0)
        pixels = gathered.shape[3:]
        result = np.zeros((node.weight.shape[0], math.prod(pixels)))
        for block, rows in zip(self._blocks[node.output], self._cells[node.output], strict=True):
            operand = gathered[block.first_input : block.last_input].reshape(-1, result.shape[1])
            for row, slices in enumerate(rows):
                low, high = block.row_bounds[row], block.row_bounds[row + 1]
                result[block.first : block.last] += self._sums(node, slices, operand[low:high])
        bias = known(node.bias).reshape(-1, 1)
        return np.asarray(np.rint(result).astype(np.int64) + bias).reshape(-1, *pixels)

    def _sums(self, node: ConvNode, slices: CoreSlices, operand: FloatArray) -> FloatArray:
        """A core's, as its converters give them: those of the layer, or of so many bits over the layer's range."""
        if node.converter is None:
            found = (self._converted(node.output, cells @ operand) * 2.0**place for place, cells in slices)
            return np.asarray(sum(found))
        pieces = range(0, operand.shape[1], PIXELS_AT_ONCE)
        whole = operand.astype(np.int32)
        parts = [node.converter.products(slices, whole[:, start : start + PIXELS_AT_ONCE]) for start in pieces]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def _converted(self, layer: str, sums: FloatArray) -> FloatArray:
        """Rounded and limited by the converters."""
        self.largest[layer] = max(self.largest.get(layer, 0.0), float(np.abs(sums).max(initial=0)))
        if self._bits is None or not self._ranges.get(layer):
            return sums
        steps = 2 ** (self._bits - 1) - 1
        unit = self._ranges[layer] / steps
        return np.asarray(np.clip(np.rint(sums / unit), -steps, steps) * unit)
