"""How large buffers are: what streams occupy when nothing is in their way, and room for what comes in while a reader falls behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

BUFFER_OPTIONS: tuple[Option, ...] = (128, 64, 32, 256, 0, 512, 1024, 2048, ALL_OF_IT)
"""By how many ticks a layer's reader may fall behind before its input buffers hold up the writers."""

MOST_ROOM = 4
"""In paces: what nothing is gained by more of."""

MOST_SHARED_ROOM = 2
"""Where stages share cores: with more, those that run ahead take their time from the others, and it takes longer till all go on alike."""


def buffer_capacities(
    lowered: LoweredPipeline,
    cores: Sequence[int],
    routes: Sequence[Sequence[int]],
    hardware: Hardware,
    rooms: Mapping[str, Option],
) -> tuple[int, ...]:
    """Packets by stream: what it occupies when nothing is in its way, and what comes in during the ticks `rooms` of its reader's
    layer; 0, unbounded, towards GMEM. cores: by stage. routes: link numbers by stream."""
    occupied, pace = _occupied(lowered, cores, routes, hardware)
    stages = lowered.pipeline.stages
    most = np.zeros(len(stages), dtype=np.int64)
    if ALL_OF_IT in rooms.values():
        most = _largest_rooms(lowered.streams, cores, occupied, pace, hardware)
    ticks = [int(most[n] if rooms[s.layer] == ALL_OF_IT else rooms[s.layer]) for n, s in enumerate(stages)]
    return tuple(
        0 if s.reader == GMEM else packets - -ticks[s.reader] * s.packets // pace
        for s, packets in zip(lowered.streams, occupied, strict=True)
    )


def _largest_rooms(
    streams: Sequence[Stream], cores: Sequence[int], occupied: Sequence[int], pace: int, hardware: Hardware
) -> NDArray[np.int64]:
    """By stage, the most ticks with which the buffers of all stages of its core fit into it, all cores halving at once; 0 where none do."""
    inner = [number for number, stream in enumerate(streams) if stream.reader != GMEM]
    core = np.array(cores, dtype=np.int64)
    reader = core[[streams[n].reader for n in inner]]
    packets, bits = (np.array([getattr(streams[n], of) for n in inner]) for of in ("packets", "cell_bits"))
    least = np.array([occupied[n] for n in inner])
    paces = MOST_ROOM if hardware.stages_per_core == 1 else MOST_SHARED_ROOM
    low, high = np.zeros(hardware.cores, dtype=np.int64), np.full(hardware.cores, paces * pace)
    while (low < high).any():
        middle = (low + high + 1) // 2
        capacities = least - -middle[reader] * packets // pace
        used = np.bincount(reader, -(-capacities * bits // 8), minlength=hardware.cores)
        fits = used <= hardware.sram_bytes
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low[core]


def _occupied(
    lowered: LoweredPipeline, cores: Sequence[int], routes: Sequence[Sequence[int]], hardware: Hardware
) -> tuple[list[int], int]:
    """Packets by stream when nothing is in their way, and the pace at which the image is sent."""
    loads = link_loads(lowered.streams, routes, hardware.links)
    pace = max(core_ticks(lowered.image_ticks, cores), link_ticks(loads, hardware.links))
    hops = _hops(lowered, routes, hardware)
    found = list(occupancies(lowered.pipeline, lowered.streams, lowered.ticks, hops, pace))
    for number in lowered.may_be_held_up:
        # What must fit is what is on the way at the pace.
        stream = lowered.streams[number]
        on_the_way = -(-(hops[number] + SUM_TICKS) * stream.packets // pace)
        found[number] = min(found[number], stream.minimum_capacity + 1 + on_the_way)
    return found, pace


def _hops(lowered: LoweredPipeline, routes: Sequence[Sequence[int]], hardware: Hardware) -> list[int]:
    """Ticks on the way of a packet by stream, when no link is taken."""
    links = hardware.links
    return [
        sum(links[k].hop_ticks - 1 - (-s.load // links[k].width) for k in route)
        for s, route in zip(lowered.streams, routes, strict=True)
    ]
