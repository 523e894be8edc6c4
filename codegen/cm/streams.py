"""What flows over the links: one stream an edge, one an output stage; iterations that nobody reads are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Int32Array
from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import ACTIVATION_BITS, GMEM, Pipeline


@dataclass(frozen=True, eq=False)
class Stream:
    """Packets, one a writer iteration that is sent, from a writer to a reader; either may be GMEM.

    sends: bool [writer iterations]. needed, released: int32 [reader iterations], as of `Edge` but counted in packets;
    empty when the reader is GMEM. elements: of a packet. edge: its number in the pipeline; None for an output. load: what a
    packet is on a link, in elements or in bits as the hardware charges. cell_bits: what its cell in a buffer takes.
    """

    writer: int
    reader: int
    sends: NDArray[np.bool_]
    needed: Int32Array
    released: Int32Array
    elements: int
    edge: int | None
    load: int
    cell_bits: int

    @cached_property
    def packets(self) -> int:
        """Per image."""
        return int(self.sends.sum())

    @property
    def image_load(self) -> int:
        """What a link on its route carries for it per image, in elements or in bits."""
        return self.packets * self.load

    @cached_property
    def minimum_capacity(self) -> int:
        """Packets of room without which the reader cannot run; with it, it may still wait for others that wait for it."""
        if not len(self.needed):
            return 0
        before = np.concatenate(([0], self.released[:-1]))
        return max(1, int((self.needed - before).max()))


def streams_of(pipeline: Pipeline, hardware: Hardware | None = None) -> tuple[Stream, ...]:
    """The edges' streams in their order, then the outputs'. hardware: how it charges packets; None: an element each, a byte a
    cell."""

    def charged(elements: int, bits: int) -> tuple[int, int]:
        bits = bits or elements * ACTIVATION_BITS
        if hardware is not None and hardware.charges_bits:
            return bits, bits
        return elements, elements * 8 * (1 if hardware is None else hardware.element_bytes)

    streams = []
    for number, edge in enumerate(pipeline.edges):
        iterations = pipeline.writer_iterations(edge)
        sends = np.ones(iterations, dtype=bool) if edge.sent is None else edge.sent
        counts = np.concatenate(([0], np.cumsum(sends))).astype(np.int32)
        needed, released = counts[edge.needed], counts[edge.released]
        charges = charged(edge.elements, edge.packet_bits)
        streams.append(Stream(edge.writer, edge.reader, sends, needed, released, edge.elements, number, *charges))
    nothing = np.zeros(0, dtype=np.int32)
    for output in pipeline.outputs:
        stage = pipeline.stages[output]
        sends = np.ones(stage.iterations, dtype=bool)
        charges = charged(stage.output_elements, stage.output_bits)
        streams.append(Stream(output, GMEM, sends, nothing, nothing, stage.output_elements, None, *charges))
    return tuple(streams)


def touching(streams: Sequence[Stream], stages: int) -> tuple[tuple[int, ...], ...]:
    """The numbers of the streams that each stage writes or reads."""
    found: list[list[int]] = [[] for _ in range(stages)]
    for number, stream in enumerate(streams):
        for end in {stream.writer, stream.reader} - {GMEM}:
            found[end].append(number)
    return tuple(map(tuple, found))


def stream_name(pipeline: Pipeline, stream: Stream) -> str:
    """For people: writer -> reader."""
    ends = ("GMEM" if end == GMEM else pipeline.stages[end].name for end in (stream.writer, stream.reader))
    return " -> ".join(ends)
