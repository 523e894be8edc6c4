"""How large buffers are: what streams occupy when nothing is in their way, and room for what comes in while a reader falls behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.streams import Stream
from kilotune.evaluators.cm.bound import core_ticks, link_loads, link_ticks
from kilotune.evaluators.cm.occupancy import occupancies
from kilotune.search.space import Option
from kilotune.spaces.cm.lowered import LoweredPipeline

SUM_TICKS = 8

ALL_OF_IT = "all"
"""The option that fills the memory of each of a layer's cores, all of its input buffers with the same ticks."""

AS_HELD = "held"
"""The option that gives each of a layer's buffers what its stream holds over contended links when no buffer is bounded; where a core has
not so much memory, as large a part of that as it has; where it has more, that is shared out as with `ALL_OF_IT`. As long as no stream
holds more than it did then, nothing is held up: ticks are those of unbounded buffers."""

HELD_IMAGES = 16
"""Images that are simulated to see what streams hold: more than are under way in a deep network."""

BUFFER_OPTIONS: tuple[Option, ...] = (128, 64, 32, 256, 0, 512, 1024, 2048, ALL_OF_IT, AS_HELD)
"""By how many ticks a layer's reader may fall behind before its input buffers hold up the writers."""

PARTS = 1024
"""Steps in which what a stream holds is cut down to what its reader's core has room for."""

MOST_ROOM = 4
"""In paces: what nothing is gained by more of."""

MOST_SHARED_ROOM = 2
"""Where stages share cores: with more, those that run ahead take their time from the others, and it takes longer till all go on alike."""


@dataclass(frozen=True)
class OccupiedBuffers:
    """packets: by stream, when nothing is in their way. pace: the ticks in which the image is sent, those of the busiest core or link."""

    packets: tuple[int, ...]
    pace: int


def buffer_capacities(
    lowered: LoweredPipeline,
    cores: Sequence[int],
    occupied: OccupiedBuffers,
    hardware: Hardware,
    rooms: Mapping[str, Option],
    held: Sequence[int] = (),
) -> tuple[int, ...]:
    """Packets by stream: what it occupies when nothing is in its way, and what comes in during the ticks `rooms` of its reader's
    layer; 0, unbounded, towards GMEM. cores: by stage. occupied: of the same placement. held: what streams hold over contended links, by
    stream; asked for where a layer's buffers are AS_HELD."""
    stages, pace = lowered.pipeline.stages, occupied.pace
    shares = _CoreShares.of(lowered.streams, cores, pace, hardware)
    least, filled = np.array(occupied.packets, dtype=np.int64), {}
    if ALL_OF_IT in rooms.values():
        filled[ALL_OF_IT] = shares.filled(least)
    if AS_HELD in rooms.values():
        filled[AS_HELD] = shares.filled(shares.grown(least, np.array(held, dtype=np.int64)))
    found = []
    for number, (stream, packets) in enumerate(zip(lowered.streams, occupied.packets, strict=True)):
        room = 0 if stream.reader == GMEM else rooms[stages[stream.reader].layer]
        found.append(
            int(filled[str(room)][number]) if room in filled else packets - -int(room) * stream.packets // pace
        )
    return tuple(found)


@dataclass(frozen=True)
class _CoreShares:
    """How the memories of all cores are shared out among the buffers that lie there. By stream: packets of an image, bits of a cell,
    and the core of its reader, `cores` where that is GMEM."""

    packets: NDArray[np.int64]
    cell_bits: NDArray[np.int64]
    reader: NDArray[np.int64]
    cores: int
    sram_bytes: int
    pace: int
    most_ticks: int

    @classmethod
    def of(cls, streams: Sequence[Stream], cores: Sequence[int], pace: int, hardware: Hardware) -> _CoreShares:
        """The buffers of a placement, cores by stage, at a pace of so many ticks an image."""
        of_reader = np.array([*cores, hardware.cores], dtype=np.int64)  # GMEM, -1, is the last one
        packets, bits, readers = np.array([(s.packets, s.cell_bits, s.reader) for s in streams], dtype=np.int64).T
        paces = MOST_ROOM if hardware.stages_per_core == 1 else MOST_SHARED_ROOM
        return cls(packets, bits, of_reader[readers], hardware.cores, hardware.sram_bytes, pace, paces * pace)

    def filled(self, least: NDArray[np.int64]) -> NDArray[np.int64]:
        """Capacities: `least`, and what comes in during the most ticks, the same for all buffers of a core, with which they fit into
        it; `least` where none do."""
        ticks = self._most(self.most_ticks, lambda ticks: least - -ticks * self.packets // self.pace)
        return np.where(self.reader < self.cores, least - -ticks * self.packets // self.pace, 0)

    def grown(self, least: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """`wanted` where a core has room for that, elsewhere the largest part of the way there from `least`, the same for all of a core."""
        more = np.maximum(wanted - least, 0)
        parts = self._most(PARTS, lambda part: least + part * more // PARTS)
        return np.asarray(least + parts * more // PARTS)

    def _most(self, most: int, capacities: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> NDArray[np.int64]:
        """By stream, the largest number up to `most`, the same for all of a core, with which its capacities fit into it; else 0."""
        low, high = np.zeros(self.cores + 1, dtype=np.int64), np.full(self.cores + 1, most)
        while (low < high).any():  # all cores halve at once
            middle = (low + high + 1) // 2
            used = -(-capacities(middle[self.reader]) * self.cell_bits // 8)
            fits = np.bincount(self.reader, used, minlength=self.cores + 1) <= self.sram_bytes
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low[self.reader]


def occupied_buffers(
    lowered: LoweredPipeline, cores: Sequence[int], routes: Sequence[Sequence[int]], hardware: Hardware
) -> OccupiedBuffers:
    """What a placement decides. cores: by stage. routes: link numbers by stream."""
    loads = link_loads(lowered.streams, routes, hardware.links)
    pace = max(core_ticks(lowered.image_ticks, cores), link_ticks(loads, hardware.links))
    hops = _hops(lowered, routes, hardware)
    found = list(occupancies(lowered.pipeline, lowered.streams, lowered.ticks, hops, pace))
    for number in lowered.may_be_held_up:
        # What must fit is what is on the way at the pace.
        stream = lowered.streams[number]
        on_the_way = -(-(hops[number] + SUM_TICKS) * stream.packets // pace)
        found[number] = min(found[number], stream.minimum_capacity + 1 + on_the_way)
    return OccupiedBuffers(tuple(found), pace)


def _hops(lowered: LoweredPipeline, routes: Sequence[Sequence[int]], hardware: Hardware) -> list[int]:
    """Ticks on the way of a packet by stream, when no link is taken."""
    links = hardware.links
    return [
        sum(links[k].hop_ticks - 1 - (-s.load // links[k].width) for k in route)
        for s, route in zip(lowered.streams, routes, strict=True)
    ]
