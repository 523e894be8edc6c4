"""How large buffers are: what streams occupy when nothing is in their way, and room for what comes in while a reader falls behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import sram_bytes
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.evaluators.cm.bound import link_loads, link_ticks
from kilotune.evaluators.cm.occupancy import occupancies
from kilotune.spaces.cm.lowered import LoweredPipeline

SUM_TICKS = 8

BUFFER_OPTIONS = (128, 64, 32, 256, 0, 512, 1024, 2048)
"""By how many ticks a layer's reader may fall behind before its input buffers hold up the writers."""


def buffer_capacities(
    lowered: LoweredPipeline, routes: Sequence[Sequence[int]], hardware: Hardware, rooms: Mapping[str, int]
) -> tuple[int, ...]:
    """Packets by stream: what it occupies when nothing is in its way, and what comes in during the ticks `rooms` of its reader's
    layer; 0, unbounded, towards GMEM. routes: link numbers by stream."""
    occupied, pace = _occupied(lowered, routes, hardware)
    stages = lowered.pipeline.stages
    return tuple(
        0 if s.reader == GMEM else packets - -rooms[stages[s.reader].layer] * s.packets // pace
        for s, packets in zip(lowered.streams, occupied, strict=True)
    )


def largest_rooms(lowered: LoweredPipeline, routes: Sequence[Sequence[int]], hardware: Hardware) -> dict[str, int]:
    """By layer, the most ticks of `BUFFER_OPTIONS` whose buffers fit into its cores; the fewest where none do."""
    occupied, pace = _occupied(lowered, routes, hardware)
    stages, rooms = lowered.pipeline.stages, dict[str, int]()
    for room in sorted(BUFFER_OPTIONS):
        packets = [n - -room * s.packets // pace for n, s in zip(occupied, lowered.streams, strict=True)]
        largest: dict[str, int] = {}
        for stage, used in zip(stages, sram_bytes(lowered.streams, packets, len(stages)), strict=True):
            largest[stage.layer] = max(used, largest.get(stage.layer, 0))
        for layer, used in largest.items():
            if room == 0 or used <= hardware.sram_bytes:
                rooms[layer] = room
    return rooms


def _occupied(lowered: LoweredPipeline, routes: Sequence[Sequence[int]], hardware: Hardware) -> tuple[list[int], int]:
    """Packets by stream when nothing is in their way, and the pace at which the image is sent."""
    loads = link_loads(lowered.streams, routes, hardware.links)
    pace = max(lowered.compute_ticks, link_ticks(loads, hardware.links))
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
