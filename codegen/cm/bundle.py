"""A mapped network as files that somebody else can execute: program.json says what every core does, program.npz holds the numbers.

docs/cm-bundle.md describes both; `runner.py`, which is exported beside them, executes them and imports nothing of this package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as TypeMapping
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import Mapping
from kilotune.codegen.cm.pipeline import Stage
from kilotune.codegen.cm.programs import EdgeLoad, LoweredNetwork, OperandSource, StageProgram
from kilotune.codegen.cm.streams import Stream
from kilotune.codegen.onnx.crossbar_products import matrix
from kilotune.codegen.onnx.graph import (
    AddNode,
    AffineNode,
    ArgMaxNode,
    AveragePoolNode,
    ClipNode,
    ConvNode,
    Graph,
    MaxPoolNode,
    Node,
    PadNode,
    ProductNode,
    ReluNode,
    ShiftNode,
    TableNode,
    TensorShape,
    Window,
    known,
    window_of,
)

VERSION = 6
LOWEST = -(2**62)
"""Below all integers of a network; the negative is above all."""

ABOUT = (
    "A network mapped onto cores with crossbars: stages are what cores do, edges what they send one another (writer -1 is the "
    "global memory). Names with a dot are arrays of program.npz; elements are lists, or ranges from first to last without last."
)


@dataclass(frozen=True, eq=False)
class MappedProgram:
    """program: JSON. arrays: what it names."""

    program: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)


def bundle_of(
    lowered: LoweredNetwork,
    streams: Sequence[Stream],
    ticks: Sequence[int],
    mapping: Mapping,
    hardware: Hardware,
    exponents: TypeMapping[str, int],
) -> MappedProgram:
    """The program of a mapping. streams, ticks: of its pipeline on that hardware. exponents: of the image and of the outputs' tensors,
    whose real values are integers times 2**exponent. ValueError for a weightless network."""
    pipeline, graph = lowered.pipeline, lowered.network.graph
    if graph.bounds is None:
        raise ValueError("expected an integer network, found one without bounds")
    arrays: dict[str, NDArray[Any]] = {}
    addresses, sizes = _addresses(lowered, mapping, streams)
    low, high = graph.bounds[graph.input]
    image = {"exponent": exponents[graph.input], "low": low, "high": high}
    program = {
        "format": "kilotune computational memory",
        "version": VERSION,
        "about": ABOUT,
        "network": pipeline.name,
        "hardware": hardware.name,
        "image": {"shape": list(graph.shapes[graph.input]), **image},
        "outputs": [
            {
                "name": output.name,
                "shape": list(graph.shapes[output.tensor]),
                "exponent": _exponent(graph, output.tensor, exponents),
                **_in_file(graph.shapes[output.tensor], output.channels_last),
            }
            for output in graph.outputs
        ],
        "stages": [
            {
                **_described(stage, core, stage_ticks, sizes[core]),
                **_StageText(number, program, lowered, arrays).text(),
                "results": _results(lowered, number),
            }
            for number, (stage, program, core, stage_ticks) in enumerate(
                zip(pipeline.stages, lowered.programs, mapping.cores, ticks, strict=True)
            )
        ],
        "edges": _edges(lowered, streams, mapping, hardware, addresses, arrays),
    }
    return MappedProgram(program, arrays)


def _exponent(graph: Graph, tensor: str, exponents: TypeMapping[str, int]) -> int:
    """That of an output's tensor; of one that was copied so that a core sends it (`codegen.cm.partition`), that of what it copies."""
    makers = {node.output: node for node in graph.nodes}
    return exponents[tensor if tensor in exponents else makers[tensor].inputs[0]]


def _described(stage: Stage, core: int, ticks: int, memory: int) -> dict[str, Any]:
    return {"name": stage.name, "core": core, "ticks": ticks, "memory_elements": memory}


def _cells(stream: Stream, capacity: int) -> int:
    return capacity or stream.packets


def _addresses(
    lowered: LoweredNetwork, mapping: Mapping, streams: Sequence[Stream]
) -> tuple[list[int], dict[int, int]]:
    """Where the buffer of every edge begins in the memory of its reader's core, and how large the memories of cores are, in elements: one
    buffer after the other."""
    used = dict.fromkeys(mapping.cores, 0)
    found = []
    for edge, stream, capacity in zip(lowered.pipeline.edges, streams, mapping.capacities, strict=False):
        core = mapping.cores[edge.reader]
        found.append(used[core])
        used[core] += _cells(stream, capacity) * edge.elements
    return found, used


def _edges(
    lowered: LoweredNetwork,
    streams: Sequence[Stream],
    mapping: Mapping,
    hardware: Hardware,
    addresses: Sequence[int],
    arrays: dict[str, NDArray[Any]],
) -> list[dict[str, Any]]:
    found = []
    parts = zip(lowered.pipeline.edges, lowered.elements, addresses, strict=True)
    for number, (edge, elements, address) in enumerate(parts):
        stream = streams[number]
        sent = None
        if edge.sent is not None:
            sent = f"edge{number}.sent"
            arrays[sent] = edge.sent.astype(np.uint8)
        links = [hardware.links[k] for k in mapping.routes[number]]
        route = [links[0].source, *(link.target for link in links)] if links else []
        found.append(
            {
                "writer": edge.writer,
                "reader": edge.reader,
                "packet": _listed(elements),
                "elements": edge.elements,
                "sent": sent,
                "bits": stream.cell_bits,
                "cells": _cells(stream, mapping.capacities[number]),
                "address": address,
                "route": ["GMEM" if node == hardware.gmem else node for node in route],
            }
        )
    return found


def _in_file(shape: TensorShape, channels_last: bool) -> dict[str, Any]:
    """In which shape, without the batch, a file's result has the elements of an output, and the axes that bring it to channels, height
    and width, batch first."""
    channels, high, wide = shape
    if channels_last:
        return {"file_shape": [high, wide, channels], "file_axes": [0, 3, 1, 2]}
    return {"file_shape": list(shape), "file_axes": [0, 1, 2, 3]}


def _results(lowered: LoweredNetwork, stage: int) -> list[dict[str, Any]]:
    """Which elements of a stage's packets are which channels of the network's outputs."""
    if stage not in lowered.pipeline.outputs:
        return []
    network, program = lowered.network, lowered.programs[stage]
    first, last = program.channels
    found = []
    for number, output in enumerate(network.graph.outputs):
        for segment in network.segments[output.tensor]:
            if program.partition.number != network.partition_of[segment.tensor]:
                continue
            mine = np.flatnonzero((segment.channels >= first) & (segment.channels < last))
            if len(mine):
                offset = program.exports.index(segment.tensor) * (last - first) - first
                elements = _listed(segment.channels[mine] + offset)
                found.append({"output": number, "channels": _listed(segment.first + mine), "elements": elements})
    return found


def _listed(elements: NDArray[Any]) -> Any:
    first, count = int(elements[0]), len(elements)
    if np.array_equal(elements, np.arange(first, first + count)):
        return {"first": first, "last": first + count}
    return elements.tolist()


class _StageText:
    """What a core does at a pixel, in JSON: steps, each of which writes the next register. Its numbers go to `arrays`."""

    def __init__(
        self, number: int, program: StageProgram, lowered: LoweredNetwork, arrays: dict[str, NDArray[Any]]
    ) -> None:
        self._number, self._program, self._lowered, self._arrays = number, program, lowered, arrays
        self._channels = slice(*program.channels)
        self._steps: list[dict[str, Any]] = []

    def text(self) -> dict[str, Any]:
        program, head = self._program, self._program.partition.head
        registers: dict[str, int] = {}
        if head is not None and program.head is not None:
            self._steps.append(self._head(head, program.head))
            self._add_up(head)
            registers[head.output] = len(self._steps) - 1
        nodes = program.partition.nodes if program.finishes else ()
        for node, operands in zip(nodes, program.operands, strict=False):
            sources = [registers[o.local] if o.local is not None else self._operand(o) for o in operands]
            self._steps.append({**self._operation(node, len(self._steps)), "operands": sources})
            registers[node.output] = len(self._steps) - 1
        exports = [registers[name] for name in program.exports] or [len(self._steps) - 1]
        return {"steps": self._steps, "exports": exports}

    def _add_up(self, head: Node) -> None:
        """The sums of other row blocks and the bias, where there are any."""
        program, edges = self._program, self._lowered.pipeline.edges
        bias = known(head.bias)[self._channels] if isinstance(head, ConvNode) and program.finishes else None
        if bias is None and not program.partials:
            return
        sums = []
        for number in program.partials:
            elements = np.arange(edges[number].elements)
            sums.append(self._operand(OperandSource(len(elements), None, (EdgeLoad(number, elements, elements),))))
        kept = 0 if bias is None else self._kept("bias", bias)
        self._steps.append({**_added([1] * (1 + len(sums))), "bias": kept, "operands": [0, *sums]})

    def _kept(self, what: str, array: NDArray[Any]) -> str:
        name = f"stage{self._number}.{what}"
        self._arrays[name] = _narrow(array)
        return name

    def _operand(self, operand: OperandSource, window: Window | None = None, fill: int = 0) -> dict[str, Any]:
        """What is read around a pixel through a window (None: the pixel itself)."""
        through = window or Window()
        loads = []
        for load in operand.loads:
            writer = self._lowered.readings[load.edge].writer
            reach = through.through(load.stride, load.offset)
            axes = _axes(reach, (writer.top, writer.bottom, writer.left, writer.right))
            loads.append({"edge": load.edge, "source": _listed(load.source), "target": _listed(load.target), **axes})
        return {"channels": operand.channels, "kernel": list(through.kernel), "fill": fill, "loads": loads}

    def _head(self, node: Node, operand: OperandSource) -> dict[str, Any]:
        window = window_of(node) or Window()
        fill = LOWEST if isinstance(node, MaxPoolNode) else int(node.value) if isinstance(node, PadNode) else 0
        read = self._operand(operand, window, fill)
        brought = np.concatenate([load.target for load in operand.loads]) if operand.loads else np.zeros(0, int)
        unwritten = np.setdiff1d(np.arange(operand.channels), brought)
        if fill and len(unwritten):
            shape = self._lowered.network.graph.shapes[node.inputs[0]]
            axes = _axes(window, (0, shape[1], 0, shape[2]))
            read["loads"].append({"edge": None, "source": [], "target": _listed(unwritten), **axes})
        found: dict[str, Any] = {"operands": [read]}
        if isinstance(node, ConvNode):
            return {"operation": "products", **found, **self._products(node, window)}
        if isinstance(node, MaxPoolNode):
            return {"operation": "maximum", **found}
        if isinstance(node, AveragePoolNode):
            kept = self._kept("divisors", node.divisors)
            return {"operation": "average", **found, "divisors": kept, "left": node.left}
        if isinstance(node, PadNode):
            return {**found, "operation": "shift", "right": 0, "low": LOWEST, "high": -LOWEST}
        assert isinstance(node, ArgMaxNode)
        return {"operation": "first largest", **found}

    def _products(self, node: ConvNode, window: Window) -> dict[str, Any]:
        program, taps = self._program, math.prod(window.kernel)
        assert program.block is not None
        cells = matrix(node, program.block, program.row_block)
        low = program.block.row_bounds[program.row_block]
        offset = low - (low // taps) * taps
        rows, converter = [offset, offset + cells.shape[1]], None
        if node.converter is not None:
            read = node.converter
            converter = {
                "right": read.right,
                "largest": read.largest,
                "cell_bits": read.cell_bits,
                "piece_bits": read.piece_bits,
            }
        return {"matrix": self._kept("matrix", cells.astype(np.int64)), "rows": rows, "converter": converter}

    def _operation(self, node: Node, step: int) -> dict[str, Any]:
        """A pointwise node on the channels of the stage."""
        match node:
            case ReluNode():
                return {"operation": "shift", "right": 0, "low": 0, "high": -LOWEST}
            case ClipNode():
                low, high = (int(min(max(end, LOWEST), -LOWEST)) for end in (node.low, node.high))
                return {"operation": "shift", "right": 0, "low": low, "high": high}
            case AffineNode():
                scale, offset = (known(a)[self._channels] for a in (node.scale, node.offset))
                kept = self._kept(f"scale{step}", scale), self._kept(f"offset{step}", offset)
                return {"operation": "affine", "scale": kept[0], "offset": kept[1]}
            case AddNode():
                others = len(node.inputs) - 1
                return _added([1, *[-1 if node.subtracts else 1] * others], node.shifts)
            case ProductNode():
                return {"operation": "product"}
            case TableNode():
                table = known(node.table)
                table = table if table.ndim == 1 else table[self._channels]
                return {"operation": "table", "first": node.first, "table": self._kept(f"table{step}", table)}
            case ShiftNode():
                right: Any = node.right
                right = right if isinstance(right, int) else self._kept(f"right{step}", right[self._channels])
                return {"operation": "shift", "right": right, "low": node.low, "high": node.high}
        raise TypeError(f"{type(node).__name__} is no operation of a digital unit")


def _added(signs: list[int], shifts: Sequence[int] = ()) -> dict[str, Any]:
    return {"operation": "add", "signs": signs, "shifts": list(shifts or [0] * len(signs)), "bias": 0}


def _axes(window: Window, pixels: tuple[int, int, int, int]) -> dict[str, list[int]]:
    """For rows and for columns: tap k at row p is row (p * step + k * tap + offset) / apart, where that is whole, of those from `first` to
    before `last`; pixels: top, bottom, left, right."""
    found = {}
    for axis, name in enumerate(("rows", "columns")):
        first, last = pixels[2 * axis : 2 * axis + 2]
        place = [window.stride[axis], window.dilation[axis], -window.pads[axis], window.spread[axis]]
        found[name] = [*place, first, last]
    return found


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """In the smallest integers that hold it."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    kind = next(
        k for k in (np.int8, np.int16, np.int32, np.int64) if np.iinfo(k).min <= low and high <= np.iinfo(k).max
    )
    return array.astype(kind)
