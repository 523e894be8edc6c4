"""Lowering: from partitions and a plan to stages, edges with exact counts, and what every stage computes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.access import AccessPattern, EdgeCounts, Rectangle, RememberedCounts, is_read
from kilotune.codegen.cm.blocks import Crossbar, column_blocks, input_channels, spans
from kilotune.codegen.cm.element_bits import ElementBits
from kilotune.codegen.cm.partition import INPUT, Partition, PartitionGraph
from kilotune.codegen.cm.pipeline import GMEM, Edge, Pipeline, Stage
from kilotune.codegen.cm.programs import EdgeLoad, LoweredNetwork, OperandSource, StageProgram
from kilotune.codegen.cm.replicas import CHANNELS, LayerReplication, rectangles
from kilotune.codegen.onnx.converters import ColumnBlock, slice_count
from kilotune.codegen.onnx.graph import AveragePoolNode, ConvNode, MaxPoolNode, Node, Window, window_of

POINT = Window()


def lower(
    network: PartitionGraph,
    crossbar: Crossbar,
    replicas: Mapping[str, LayerReplication] | None = None,
    by_columns: bool = False,
    counts_of: Callable[[AccessPattern], EdgeCounts] | None = None,
    chained: Collection[str] = (),
    most_pooled: int = 0,
) -> LoweredNetwork:
    """Lower with `replicas` by partition name; a partition left out is there once. by_columns: GMEM sends columns.
    counts_of: the `counts` of edges, for a caller who has them remembered from one lowering to the next. chained: names of
    partitions each row block of which adds its sums to those that the one before has sent it; elsewhere all send theirs to the last.
    most_pooled: elements that a pooling may have to keep on one core; one that keeps more is shared out by channels. 0: any number.

    ValueError for an unknown partition, axis, or more replicas than output rows or columns.
    """
    known = {p.name for p in network.partitions}
    unknown = sorted(set(replicas or {}) - known)
    if unknown:
        raise ValueError(f"there is no layer {unknown[0]!r}; there are {', '.join(sorted(known))}")
    assembly = _NetworkAssembly(network, crossbar, by_columns, counts_of or RememberedCounts(), chained, most_pooled)
    for partition in network.partitions:
        split = (replicas or {}).get(partition.name)
        count, axis = (1, "rows") if split is None else (split.count, split.axis)
        assembly.add(partition, rectangles(partition, count, axis), count if axis == CHANNELS else 1)
    return assembly.lowered()


@dataclass(frozen=True)
class _StagePart:
    """A stage that writes channels [first, last) of a partition's exports at the pixels of a rectangle."""

    stage: int
    rectangle: Rectangle
    first: int
    last: int


@dataclass(eq=False)
class _Wire:
    """An edge in the making: united windows and elements of the writer's packet."""

    writer: int
    reader: int
    rectangles: tuple[Rectangle, Rectangle]
    windows: list[Window] = field(default_factory=list)
    elements: set[int] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class _Request:
    wire: int
    elements: NDArray[np.int64]
    target: NDArray[np.int64]
    stride: tuple[int, int]
    offset: tuple[int, int]


class _NetworkAssembly:
    def __init__(
        self,
        network: PartitionGraph,
        crossbar: Crossbar,
        by_columns: bool,
        counts_of: Callable[[AccessPattern], EdgeCounts],
        chained: Collection[str],
        most_pooled: int,
    ) -> None:
        self._counts_of, self._chained, self._most_pooled = counts_of, chained, most_pooled
        self._network, self._crossbar, self._by_columns = network, crossbar, by_columns
        graph = network.graph
        self._bits = ElementBits(graph)
        channels, high, wide = graph.shapes[graph.input]
        image = _StagePart(GMEM, Rectangle(0, high, 0, wide, by_columns), 0, channels)
        self._parts: dict[int, list[_StagePart]] = {INPUT: [image]}
        self._element_bits: dict[int, list[int]] = {GMEM: [self._bits.of(graph.input)] * channels}
        self._exports: dict[int, tuple[str, ...]] = {INPUT: (graph.input,)}
        self._stages: list[Stage] = []
        self._programs: list[StageProgram] = []
        self._edges: list[Edge] = []
        self._readings: list[AccessPattern] = []
        self._elements: list[NDArray[np.int64]] = []
        self._wires: dict[int, _Wire] = {}

    def add(self, partition: Partition, replicas: Sequence[Rectangle], sharers: int) -> None:
        """sharers: how many times as many cores share the channels of a pooling."""
        head = partition.head
        shares = self._pooled_channels(partition, sharers)
        blocks: Sequence[ColumnBlock | None] = (
            column_blocks(head, self._crossbar) if isinstance(head, ConvNode) else [None] * len(shares)
        )
        self._exports[partition.number] = partition.exports
        parts = []
        for replica, rectangle in enumerate(replicas):
            for column, block in enumerate(blocks):
                channels = (block.first, block.last) if block else shares[column]
                rows = block.row_blocks if block else 1
                name = partition.name + (f".{replica}" if len(replicas) > 1 else "")
                partials: list[int] = []
                for row in range(rows):
                    title = name + (f"/{row},{column}" if rows * len(blocks) > 1 else "")
                    place = (replica, row, column)
                    chained = partition.name in self._chained
                    summands = partials[-1:] if chained else partials if row == rows - 1 else ()
                    self._stage(partition, rectangle, channels, block, title, place, summands)
                    partials.append(len(self._stages) - 1)
                parts.append(_StagePart(len(self._stages) - 1, rectangle, *channels))
        self._parts[partition.number] = parts

    def _pooled_channels(self, partition: Partition, sharers: int) -> list[tuple[int, int]]:
        """Channels [first, last) of each core's share of a partition without a matrix: all on one, but for a pooling that keeps
        more than a core may, or has `sharers`. Shares take half of that at most, for the next image comes in meanwhile."""
        head = partition.head
        if not isinstance(head, AveragePoolNode | MaxPoolNode):
            return [(0, partition.channels)]
        _, high, wide = self._network.graph.shapes[head.inputs[0]]
        (down, across), (apart, _) = head.window.kernel, head.window.dilation
        kept = min((down - 1) * apart * wide + across, high * wide) * partition.channels
        most = self._most_pooled or kept
        shares = -(-2 * kept // most) if kept > most else 1
        return spans(partition.channels, min(shares * sharers, partition.channels))

    def lowered(self) -> LoweredNetwork:
        graph = self._network.graph
        outputs = {
            part.stage
            for tensor in graph.output_tensors
            for segment in self._network.segments[tensor]
            for part in self._parts[self._network.partition_of[segment.tensor]]
        }
        channels, high, wide = graph.shapes[graph.input]
        stages, edges = tuple(self._stages), tuple(self._edges)
        pipeline = Pipeline(graph.name, stages, edges, high * wide, channels, tuple(sorted(outputs)))
        programs, readings, elements = tuple(self._programs), tuple(self._readings), tuple(self._elements)
        return LoweredNetwork(self._network, pipeline, programs, readings, elements, self._by_columns)

    def _stage(
        self,
        partition: Partition,
        rectangle: Rectangle,
        channels: tuple[int, int],
        block: ColumnBlock | None,
        title: str,
        place: tuple[int, int, int],
        summands: Sequence[int],
    ) -> None:
        """summands: the row blocks whose sums are added here."""
        reader, width = len(self._stages), channels[1] - channels[0]
        self._wires = {}
        last = block is None or place[1] == block.row_blocks - 1
        head, first_input, size = self._head(partition, rectangle, channels, block, place[1], reader)
        sums = [self._partial(stage, reader, rectangle, width) for stage in summands]
        operands = [self._operands(partition, node, rectangle, channels, reader) for node in partition.nodes if last]
        partial_bits = [sum(self._element_bits[stage]) for stage in summands]
        numbers = self._close()
        taps = 0 if block or partition.head is None else _taps(partition.head) * size
        operations = taps + (width * max(1, len(sums) + len(operands)) if last or block else 0)
        rows = block.row_bounds[place[1] + 1] - block.row_bounds[place[1]] if block else 0
        exports = partition.exports if last else ()
        slices, conversion_bits = self._columns(partition)
        matrix = (rows, width * slices) if block else (0, 0)
        self._element_bits[reader] = bits = self._bits.packet(partition, block, place[1], bool(summands), width)
        described = (title, partition.name, rectangle.size, *matrix, operations, len(bits), *place)
        input_bits = self._bits.operand(partition)
        read = (rows if block else taps) * input_bits + sum(partial_bits)
        for node, sources in zip(partition.nodes, operands, strict=False):
            names = zip(node.inputs, sources, strict=True)
            read += width * sum(self._bits.of(name) for name, source in names if not isinstance(source, OperandSource))
        self._stages.append(Stage(*described, sum(bits), input_bits, read, slices, conversion_bits))
        self._programs.append(
            StageProgram(
                partition,
                rectangle,
                channels,
                block,
                place[1],
                None if head is None else self._operand(head, size, numbers),
                first_input,
                tuple(numbers[wire] for wire in sums),
                tuple(
                    tuple(o if isinstance(o, OperandSource) else self._operand(o, width, numbers) for o in node)
                    for node in operands
                ),
                exports,
            )
        )

    def _columns(self, partition: Partition) -> tuple[int, int]:
        """How many a weight takes, and the bits of what is read of one; 0: those of the hardware."""
        head = partition.head
        if not isinstance(head, ConvNode):
            return 1, 0
        return slice_count(head.weight_bits, self._crossbar.cell_bits), head.converter.bits if head.converter else 0

    def _head(
        self,
        partition: Partition,
        rectangle: Rectangle,
        channels: tuple[int, int],
        block: ColumnBlock | None,
        row: int,
        reader: int,
    ) -> tuple[list[_Request] | None, int, int]:
        """Requests of the window, the first input channel and how many."""
        node = partition.head
        if node is None:
            return None, 0, 0
        window = window_of(node)
        assert window is not None
        inputs = self._network.graph.shapes[node.inputs[0]][0]
        low, high = (
            input_channels(node, block, row) if isinstance(node, ConvNode) and block is not None else (0, inputs)
        )
        if isinstance(node, AveragePoolNode | MaxPoolNode):
            low, high = channels
        return self._request(node.inputs[0], low, high, window, rectangle, reader), low, high - low

    def _operands(
        self, partition: Partition, node: Node, rectangle: Rectangle, channels: tuple[int, int], reader: int
    ) -> list[OperandSource | list[_Request]]:
        found: list[OperandSource | list[_Request]] = []
        for name in node.inputs:
            source = self._network.segments[name]
            if source and self._network.partition_of[source[0].tensor] == partition.number:
                found.append(OperandSource(channels[1] - channels[0], source[0].tensor))
            else:
                found.append(self._request(name, *channels, POINT, rectangle, reader))
        return found

    def _partial(self, stage: int, reader: int, rectangle: Rectangle, width: int) -> int:
        wire = self._wire(stage, reader, (rectangle, rectangle))
        self._wires[wire].windows.append(POINT)
        self._wires[wire].elements.update(range(width))
        return wire

    def _request(
        self, tensor: str, low: int, high: int, window: Window, rectangle: Rectangle, reader: int
    ) -> list[_Request]:
        """Channels [low, high) of a tensor at the window's pixels: who writes them, and where in the packets."""
        found = []
        for segment in self._network.segments[tensor]:
            start, stop = max(low, segment.first), min(high, segment.first + len(segment.channels))
            if start >= stop:
                continue
            channels = segment.channels[start - segment.first : stop - segment.first]
            target = np.arange(start - low, stop - low)
            owner = self._network.partition_of[segment.tensor]
            export = self._exports[owner].index(segment.tensor)
            seen = window.through(segment.stride, segment.offset)
            for part in self._parts[owner]:
                mine = (channels >= part.first) & (channels < part.last)
                reading = AccessPattern((seen,), rectangle, part.rectangle)
                if not mine.any() or not is_read(reading):
                    continue
                wire = self._wire(part.stage, reader, (rectangle, part.rectangle))
                elements = channels[mine] - part.first + export * (part.last - part.first)
                if seen not in self._wires[wire].windows:
                    self._wires[wire].windows.append(seen)
                self._wires[wire].elements.update(elements.tolist())
                found.append(_Request(wire, elements, target[mine], segment.stride, segment.offset))
        return found

    def _wire(self, writer: int, reader: int, pair: tuple[Rectangle, Rectangle]) -> int:
        """The reader's wire from a writer; wires are keyed by writer."""
        if writer not in self._wires:
            self._wires[writer] = _Wire(writer, reader, pair)
        return writer

    def _close(self) -> dict[int, int]:
        """Make the wires edges; their numbers by writer."""
        numbers = {}
        for writer in sorted(self._wires):
            wire = self._wires[writer]
            reading = AccessPattern(tuple(wire.windows), *wire.rectangles)
            needed, released, sent = self._counts_of(reading)
            numbers[writer] = len(self._edges)
            every = None if bool(sent.all()) else sent
            bits = self._element_bits[writer]
            packet_bits = sum(bits[element] for element in wire.elements)
            edge = Edge(writer, wire.reader, needed, released, len(wire.elements), 0, every, packet_bits)
            self._edges.append(edge)
            self._readings.append(reading)
            self._elements.append(np.asarray(sorted(wire.elements)))
        return numbers

    def _operand(self, requests: list[_Request], channels: int, numbers: Mapping[int, int]) -> OperandSource:
        loads = []
        for request in requests:
            packet = self._elements[numbers[request.wire]]
            source = np.searchsorted(packet, request.elements)
            loads.append(EdgeLoad(numbers[request.wire], source, request.target, request.stride, request.offset))
        return OperandSource(channels, None, tuple(loads))


def _taps(node: Node) -> int:
    window = window_of(node)
    return 1 if window is None else window.most_taps
