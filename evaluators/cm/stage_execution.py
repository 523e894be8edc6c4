"""What a core computes in one iteration: the crossbar's products, then the digital unit's operations. Integers, exact."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.access import Rectangle
from kilotune.codegen.cm.programs import OperandSource, StageProgram
from kilotune.codegen.onnx.crossbar_products import matrix
from kilotune.codegen.onnx.graph import (
    ArgMaxNode,
    AveragePoolNode,
    ConvNode,
    MaxPoolNode,
    PadNode,
    ShiftNode,
    Window,
    known,
    window_of,
)
from kilotune.codegen.onnx.reference import pointwise, rounded_quotient
from kilotune.evaluators.cm.cells import CircularBuffer

IntVector = NDArray[np.int64]
Taps = tuple[slice, NDArray[np.int64]]

LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Noise:
    """Seeded imperfections of the analogue part, both normal, in place of converters of few bits.

    weight_sigma: of a programmed weight, as a fraction of the layer's largest magnitude. adc_sigma: of a column's
    result, in units of the layer's output (the last bit after its shift).
    """

    weight_sigma: float = 0.0
    adc_sigma: float = 0.0
    seed: int = 0


@dataclass(frozen=True, eq=False)
class _WindowLoad:
    """One edge's share of a window: by output row and by output column, the kernel positions that it holds."""

    edge: int
    rows: tuple[Taps, ...]
    columns: tuple[Taps, ...]
    source: NDArray[np.int64] | slice
    target: NDArray[np.int64] | slice


class StageExecutor:
    """Executes a stage's iterations from its buffers."""

    def __init__(
        self, name: str, program: StageProgram, buffers: Mapping[int, CircularBuffer], noise: Noise | None
    ) -> None:
        self.name, self._program, self._buffers = name, program, buffers
        partition = program.partition
        self._head = partition.head
        self._generator = np.random.default_rng((noise.seed if noise else 0, zlib.crc32(name.encode())))
        self._window = Window() if self._head is None else window_of(self._head) or Window()
        self._loads = [] if program.head is None else self._window_loads(program.head)
        self._zeros = _unwritten(program.head)
        self._nodes = [
            (node, [self._point(o) for o in operands])
            for node, operands in zip(partition.nodes, program.operands, strict=False)
        ]
        self._matrix: NDArray[np.float64] | None = None
        if isinstance(self._head, ConvNode) and program.block is not None:
            self._matrix = matrix(self._head, program.block, program.row_block)
            self._converter = None if noise else self._head.converter
            self._slices = self._converter.slices(self._matrix.astype(np.int64)) if self._converter else ()
            taps = self._window.kernel[0] * self._window.kernel[1]
            low = program.block.row_bounds[program.row_block]
            offset = low - (low // taps) * taps
            self._rows = slice(offset, offset + self._matrix.shape[1])
            if noise and noise.weight_sigma:
                spread = noise.weight_sigma * float(np.abs(known(self._head.weight)).max(initial=0))
                self._matrix = self._matrix + self._generator.normal(0, spread, self._matrix.shape)
        self._adc: NDArray[np.float64] | None = None
        if noise and noise.adc_sigma and self._matrix is not None:
            shift = next((n.right for n in partition.nodes if isinstance(n, ShiftNode)), 0)
            shifts = np.broadcast_to(shift, (partition.channels,))[slice(*program.channels)]
            self._adc = noise.adc_sigma * 2.0 ** shifts.astype(np.float64)

    def run(self, image: int, iteration: int) -> IntVector:
        """The output packet of an iteration of an image. DataHazardError when an operand is not there."""
        program = self._program
        row, column = program.rectangle.pixel(iteration)
        tensors: dict[str, IntVector] = {}
        result = self._head_result(image, iteration, row, column)
        for edge in program.partials:
            result = result + self._at(edge, image, iteration, row, column)
        if not program.finishes:
            return result
        if self._head is not None:
            if isinstance(self._head, ConvNode):
                result = result + known(self._head.bias)[slice(*program.channels)]
            tensors[self._head.output] = result
        channels = slice(*program.channels)
        for node, operands in self._nodes:
            values = [
                tensors[o] if isinstance(o, str) else self._gather(o, image, iteration, row, column) for o in operands
            ]
            tensors[node.output] = pointwise(node, values, channels)
        # a layer that nothing reads, behind a Split say, sends empty packets
        return np.concatenate([result[:0], *(tensors[name] for name in program.exports)])

    def _head_result(self, image: int, iteration: int, row: int, column: int) -> IntVector:
        head, program = self._head, self._program
        if head is None or program.head is None:
            return np.zeros(0, dtype=np.int64)
        fill = LOWEST if isinstance(head, MaxPoolNode) else int(head.value) if isinstance(head, PadNode) else 0
        patch = np.full((program.head.channels, *self._window.kernel), fill, dtype=np.int64)
        if self._zeros.size and not (isinstance(head, PadNode) and self._on_the_border(row, column)):
            patch[self._zeros] = 0
        for load in self._loads:
            (down, lines), (across, cells) = (
                load.rows[row - program.rectangle.top],
                load.columns[column - program.rectangle.left],
            )
            if len(lines) and len(cells):
                ranks = (lines[:, None] + cells).reshape(-1)
                packets = self._buffers[load.edge].read(self.name, image, iteration, ranks)[:, load.source]
                patch[load.target, down, across] = packets.T.reshape(-1, len(lines), len(cells))
        if isinstance(head, ConvNode):
            return self._products(patch.reshape(-1)[self._rows])
        if isinstance(head, MaxPoolNode):
            return np.asarray(patch.max(axis=(1, 2)))
        if isinstance(head, AveragePoolNode):
            return rounded_quotient(patch.sum(axis=(1, 2)) << head.left, head.divisors[row, column])
        if isinstance(head, ArgMaxNode):
            return np.asarray([patch[:, 0, 0].argmax()])
        return np.asarray(patch[:, 0, 0])

    def _products(self, operand: IntVector) -> IntVector:
        """The crossbar's, as its columns are read."""
        assert self._matrix is not None
        if self._converter is not None:
            return self._converter.products(self._slices, operand)
        sums = self._matrix @ operand.astype(np.float64)
        if self._adc is not None:
            sums = sums + self._generator.normal(0, self._adc, sums.shape)
        return np.rint(sums).astype(np.int64)

    def _on_the_border(self, row: int, column: int) -> bool:
        """Whether a pixel that a PadNode writes lies outside the image that it pads."""
        (top, left, bottom, right), partition = self._window.pads, self._program.partition
        return not (top <= row < partition.height - bottom and left <= column < partition.width - right)

    def _window_loads(self, operand: OperandSource) -> list[_WindowLoad]:
        rectangle, found = self._program.rectangle, []
        for load in operand.loads:
            writer = self._buffers[load.edge].reading.writer
            window = self._window.through(load.stride, load.offset)
            rows, columns = (_axis_taps(window, axis, rectangle, writer) for axis in (0, 1))
            found.append(_WindowLoad(load.edge, rows, columns, _as_slice(load.source), _as_slice(load.target)))
        return found

    def _point(self, operand: OperandSource) -> OperandSource | str:
        return operand.local if operand.local is not None else operand

    def _gather(self, operand: OperandSource, image: int, iteration: int, row: int, column: int) -> IntVector:
        """The channels of one pixel, from the writer that owns it; those that nobody writes are 0."""
        values = np.zeros(operand.channels, dtype=np.int64)
        for load in operand.loads:
            writer = self._buffers[load.edge].reading.writer
            y, x = (p * step + least for p, step, least in zip((row, column), load.stride, load.offset, strict=True))
            if writer.top <= y < writer.bottom and writer.left <= x < writer.right:
                values[load.target] = self._at(load.edge, image, iteration, y, x)[load.source]
        return values

    def _at(self, edge: int, image: int, iteration: int, row: int, column: int) -> IntVector:
        buffer = self._buffers[edge]
        rank = np.asarray([buffer.reading.writer.rank(row, column)])
        return np.asarray(buffer.read(self.name, image, iteration, rank)[0])


def _unwritten(operand: OperandSource | None) -> NDArray[np.int64]:
    """Channels that no load brings: zeros."""
    if operand is None:
        return np.zeros(0, dtype=np.int64)
    brought = [load.target for load in operand.loads]
    return np.setdiff1d(np.arange(operand.channels), np.concatenate(brought) if brought else [])


def _axis_taps(window: Window, axis: int, reader: Rectangle, writer: Rectangle) -> tuple[Taps, ...]:
    """For each output row (column): which kernel rows lie in the writer's rectangle, and their share of the rank."""
    outputs = range(reader.top, reader.bottom) if axis == 0 else range(reader.left, reader.right)
    start, stop = (writer.top, writer.bottom) if axis == 0 else (writer.left, writer.right)
    scale, apart = writer.steps[axis], window.spread[axis]
    found = []
    for output in outputs:
        taps = output * window.stride[axis] - window.pads[axis] + np.arange(window.kernel[axis]) * window.dilation[axis]
        inside = np.flatnonzero((taps >= start * apart) & (taps < stop * apart) & (taps % apart == 0))
        step = int(inside[1] - inside[0]) if len(inside) > 1 else 1
        span = slice(int(inside[0]), int(inside[-1]) + 1, step) if len(inside) else slice(0, 0)
        found.append((span, (taps[inside] // apart - start) * scale))
    return tuple(found)


def _as_slice(positions: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Consecutive positions as a slice: NumPy copies less."""
    first, count = int(positions[0]), len(positions)
    if np.array_equal(positions, np.arange(first, first + count)):
        return slice(first, first + count)
    return positions
