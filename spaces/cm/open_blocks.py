"""What the stages of two layers send each other at least, where each of them may be cut into blocks in several ways.

The more blocks a layer is cut into, the fewer channels each sends; the more column blocks its reader is cut into, the more often each
channel is sent. So a stage sends least where its own layer has many blocks and the reader few: less than where both have many or few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.access import AccessPattern, pixels_read
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.cm.streams import Stream
from kilotune.codegen.onnx.graph import Window
from kilotune.spaces.cm.whole_streams import LayerStream

LayerPair = tuple[str, str]
"""A writer and a reader."""

ChannelSpan = tuple[int, int]
"""Channels [first, last) of a layer that a stage writes; none where it writes partial sums."""


@dataclass(frozen=True, eq=False)
class BlockReads:
    """What stages of one layer read of another's channels. elements: int [stages of the reader, channels of the writer]; a channel has
    one for each of the writer's results. pixels: that each is read at, of an image, or more. load: of an element on a link, or more.
    windows: by which they are read."""

    elements: NDArray[np.int64]
    pixels: int
    load: int
    windows: frozenset[Window]

    def packets(self, spans: Sequence[ChannelSpan]) -> NDArray[np.int64]:
        """Loads of packets, [stages of the reader, stages of the writer]."""
        before = np.pad(np.cumsum(self.elements, axis=1), ((0, 0), (1, 0)))
        first, last = np.array(spans).T
        return np.asarray((before[:, last] - before[:, first]) * self.load)


class CutNetwork:
    """A network whose layers are cut into blocks in one way, each there once. members: numbers of stages, by layer."""

    def __init__(self, once: LoweredNetwork, streams: Sequence[Stream]) -> None:
        self._once = once
        self.members: dict[str, list[int]] = {}
        for number, stage in enumerate(once.pipeline.stages):
            self.members.setdefault(stage.layer, []).append(number)
        self.spans: Mapping[str, list[ChannelSpan]] = {
            layer: [once.programs[n].channels if once.programs[n].exports else (0, 0) for n in numbers]
            for layer, numbers in self.members.items()
        }
        between: dict[LayerPair, list[Stream]] = {}
        for stream in streams:
            pair = self.layers_of(stream)
            if pair is not None:
                between.setdefault(pair, []).append(stream)
        self.reads: Mapping[LayerPair, BlockReads] = {pair: self._read(*pair, own) for pair, own in between.items()}

    def layers_of(self, stream: Stream) -> LayerPair | None:
        """Those of a stream between two layers; None for one from or to GMEM, and for partial sums."""
        if GMEM in (stream.writer, stream.reader):
            return None
        writer, reader = (self._once.pipeline.stages[end].layer for end in (stream.writer, stream.reader))
        return None if writer == reader else (writer, reader)

    def _read(self, writer: str, reader: str, streams: Sequence[Stream]) -> BlockReads:
        row = {stage: number for number, stage in enumerate(self.members[reader])}
        channels = self._once.programs[self.members[writer][0]].partition.channels
        elements = np.zeros((len(row), channels), dtype=np.int64)
        pixels, loads, windows = [], [], set[Window]()
        for stream, edge in ((s, s.edge) for s in streams if s.edge is not None):
            first, last = self._once.programs[stream.writer].channels
            np.add.at(elements[row[stream.reader]], first + self._once.elements[edge] % (last - first), 1)
            reading = self._once.readings[edge]
            pixels += [pixels_read(AccessPattern((w,), reading.reader, reading.writer)) for w in reading.windows]
            loads.append(stream.load // stream.elements)
            windows.update(reading.windows)
        return BlockReads(elements, min(pixels), min(loads), frozenset(windows))


def least_taken_in(cut: CutNetwork) -> dict[int, int]:
    """What other layers' stages send each stage of an image at least, however these are cut. By stage."""
    found: dict[int, int] = {}
    for (_, reader), reads in cut.reads.items():
        for stage, elements in zip(cut.members[reader], reads.elements.sum(axis=1).tolist(), strict=True):
            found[stage] = found.get(stage, 0) + elements * reads.load * reads.pixels
    return found


def least_sent_out(cut: CutNetwork, ways: Sequence[CutNetwork]) -> dict[int, int]:
    """What each stage sends other layers' stages of an image at least, where each of these is cut in one of the ways. By stage."""
    found: dict[int, int] = {}
    for pair in cut.reads:
        reads, spans = [way.reads[pair] for way in ways], cut.spans[pair[0]]
        sent = np.min([each.packets(spans).sum(axis=0) * each.pixels for each in reads], axis=0)
        for stage, load in zip(cut.members[pair[0]], sent.tolist(), strict=True):
            found[stage] = found.get(stage, 0) + load
    return found


def thinnest_streams(streams: Sequence[LayerStream], ways: Sequence[CutNetwork]) -> Iterator[LayerStream]:
    """With the least packet that is the largest between two layers, each cut in one of the ways. None where layers are read by several
    windows, of which other blocks need other ones."""
    for stream in streams:
        pair = stream.writer.name, stream.reader.name
        if all(way.reads[pair].windows == {stream.window} for way in ways):
            loads = (way.reads[pair].packets(other.spans[pair[0]]).max() for way in ways for other in ways)
            yield replace(stream, load=int(min(loads)))
