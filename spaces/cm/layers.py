"""Convolutional networks by their shapes: pipelines by formula, for studies of mapping that need no weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.pipeline import GMEM, Edge, IntArray, Pipeline, Stage
from kilotune.spaces.cm.replication import ONCE, LayerShape, Replication

IMAGE = "image"


@dataclass(frozen=True)
class Read:
    """A layer reads another one's output through a window. At (y, x) it sees rows y * stride - padding and the following
    `kernel`, of the columns the same."""

    source: str
    kernel: int = 1
    stride: int = 1
    padding: int = 0


@dataclass(frozen=True)
class ConvLayer:
    """height, width: of the output. reads[0] feeds the crossbar, further ones are added to its result (residuals).
    Without a matrix (pooling) the core's DPU does it all."""

    name: str
    channels: int
    height: int
    width: int
    reads: tuple[Read, ...]
    matrix: bool = True


@dataclass(frozen=True)
class ReplicaBlock:
    """Output pixels of a replica: rows [top, bottom), columns [left, right)."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def pixels(self) -> int:
        return (self.bottom - self.top) * (self.right - self.left)


@dataclass(frozen=True)
class ConvNetwork:
    """`image`: height, width and channels of the input. crossbar: rows and columns of a core's matrix."""

    name: str
    image: tuple[int, int, int]
    layers: tuple[ConvLayer, ...]
    crossbar: tuple[int, int] = (256, 256)

    def shapes(self) -> tuple[LayerShape, ...]:
        """What there is to replicate; see `replication`."""
        pipeline = self.pipeline({})
        counts = {layer.name: sum(s.layer == layer.name for s in pipeline.stages) for layer in self.layers}
        return tuple(LayerShape(layer.name, layer.height, layer.width, counts[layer.name]) for layer in self.layers)

    def pipeline(self, replicas: Mapping[str, Replication]) -> Pipeline:
        """The pipeline in which each layer is replicated so (left out: once)."""
        return _LayerAssembly(self, replicas).pipeline()


@dataclass(frozen=True)
class _ColumnBlockResult:
    """The stage that holds the result of a replica's column block, and which channels these are."""

    stage: int
    rectangle: ReplicaBlock
    first: int
    last: int


class _LayerAssembly:
    def __init__(self, network: ConvNetwork, replicas: Mapping[str, Replication]) -> None:
        self._network, self._replicas = network, replicas
        self._stages: list[Stage] = []
        self._edges: list[Edge] = []
        height, width, channels = network.image
        self._parts = {IMAGE: [_ColumnBlockResult(GMEM, ReplicaBlock(0, height, 0, width), 0, channels)]}

    def pipeline(self) -> Pipeline:
        """Layer by layer."""
        for layer in self._network.layers:
            self._add(layer)
        height, width, channels = self._network.image
        outputs = tuple(part.stage for part in self._parts[self._network.layers[-1].name])
        return Pipeline(self._network.name, tuple(self._stages), tuple(self._edges), height * width, channels, outputs)

    def _add(self, layer: ConvLayer) -> None:
        rows, columns = self._network.crossbar
        main = layer.reads[0]
        source = self._parts[main.source]
        inputs = max(part.last for part in source)
        taps = main.kernel**2
        row_blocks = split(inputs, -(-inputs // max(1, rows // taps)) if layer.matrix else 1)
        column_blocks = split(layer.channels, -(-layer.channels // columns) if layer.matrix else 1)
        parts = []
        rectangles = replica_rectangles(layer.height, layer.width, self._replicas.get(layer.name, ONCE))
        for replica, rectangle in enumerate(rectangles):
            for c, (first, last) in enumerate(column_blocks):
                blocks = []
                for r, (low, high) in enumerate(row_blocks):
                    name = f"{layer.name}.{replica}" if len(rectangles) > 1 else layer.name
                    name += f"/{r},{c}" if len(row_blocks) * len(column_blocks) > 1 else ""
                    blocks.append(len(self._stages))
                    sums = len(row_blocks) - 1 + len(layer.reads) - 1 if r == len(row_blocks) - 1 else 0
                    operations = (last - first) * (1 + sums)
                    matrix = ((high - low) * taps, last - first) if layer.matrix else (0, 0)
                    stage = Stage(name, layer.name, rectangle.pixels, *matrix, operations, last - first, replica, r, c)
                    self._stages.append(stage)
                    self._read(source, blocks[-1], rectangle, main, low, high)
                # Partial sums go to the last block, which adds them up and goes on with the result.
                for block in blocks[:-1]:
                    part = _ColumnBlockResult(block, rectangle, 0, last - first)
                    self._read([part], blocks[-1], rectangle, Read(layer.name), 0, last - first)
                for extra in layer.reads[1:]:
                    self._read(self._parts[extra.source], blocks[-1], rectangle, extra, first, last)
                parts.append(_ColumnBlockResult(blocks[-1], rectangle, first, last))
        self._parts[layer.name] = parts

    def _read(
        self,
        parts: Sequence[_ColumnBlockResult],
        reader: int,
        rectangle: ReplicaBlock,
        window: Read,
        low: int,
        high: int,
    ) -> None:
        """Edges from all parts that hold some of channels [low, high) of pixels that the window sees."""
        for part in parts:
            channels = min(high, part.last) - max(low, part.first)
            if channels <= 0:
                continue
            shape = (window.kernel, window.stride, window.padding)
            needed, released, sent = window_counts(part.rectangle, rectangle, *shape)
            if sent.any():
                self._edges.append(Edge(part.stage, reader, needed, released, channels, 0, sent))


@lru_cache(maxsize=4096)
def window_counts(
    writer: ReplicaBlock, reader: ReplicaBlock, kernel: int, stride: int = 1, padding: int = 0
) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    """`needed`, `released` and `sent` of an edge between two rectangles of pixels; read-only arrays."""
    wide = writer.right - writer.left
    y = np.repeat(np.arange(reader.top, reader.bottom), reader.right - reader.left) * stride - padding
    x = np.tile(np.arange(reader.left, reader.right), reader.bottom - reader.top) * stride - padding
    reads = np.arange(len(y))
    last_read = np.full(writer.pixels, -1, dtype=np.int64)
    needed = np.zeros(len(y), dtype=np.int64)
    for dy in range(kernel):
        for dx in range(kernel):
            row, column = y + dy, x + dx
            seen = (row >= writer.top) & (row < writer.bottom) & (column >= writer.left) & (column < writer.right)
            index = (row[seen] - writer.top) * wide + column[seen] - writer.left
            np.maximum.at(last_read, index, reads[seen])
            needed[seen] = np.maximum(needed[seen], index + 1)
    # The first writer iteration that an iteration behind j still reads ends what j releases.
    free_after = np.maximum.accumulate(last_read)
    released = np.searchsorted(free_after, reads, side="right")
    released[-1] = writer.pixels
    arrays = np.maximum.accumulate(needed).astype(np.int32), released.astype(np.int32), last_read >= 0
    for array in arrays:
        array.setflags(write=False)
    return arrays


def replica_rectangles(height: int, width: int, replication: Replication) -> list[ReplicaBlock]:
    """Blocks of rows or columns, as equal as they can be."""
    if replication.axis == "rows":
        return [ReplicaBlock(first, last, 0, width) for first, last in split(height, replication.count)]
    return [ReplicaBlock(0, height, first, last) for first, last in split(width, replication.count)]


def split(total: int, blocks: int) -> list[tuple[int, int]]:
    """[first, last) of each block, as equal as they can be."""
    edges = [total * k // blocks for k in range(blocks + 1)]
    return list(pairwise(edges))
