"""A first placement: stages near to those that they talk with, by annealing the wirelength before any route is looked at.

What is measured in the end is the busiest link. But a walk on link loads takes ten times as long for a move, and from snake order it has
to bring everything near first: it is left with what this one cannot see, streams that meet.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.routing import neighbours, route_tables
from kilotune.codegen.cm.streams import Stream, touching
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.evaluators.kept_arrays import KeptArrays
from kilotune.spaces.cm.sharing import StageNeeds

MOVES_A_STAGE = 1500
HOT, COLD = 20.0, 0.05
"""First and last temperature, in mean streams a link long."""

(_StageGraph,) = structures(Path(__file__).with_name("arrangement.c"), "StageGraph")


@cache
def load_kernel() -> ctypes.CDLL | None:
    """None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("arrangement.c"))
    if loaded is None:
        return None
    loaded.library.kilotune_arrange.argtypes = [
        *(ctypes.POINTER(_StageGraph), ctypes.c_void_p, ctypes.c_int64),
        *(ctypes.c_double, ctypes.c_double, ctypes.c_uint64, ctypes.c_void_p),
    ]
    return loaded.library


def arranged(
    streams: Sequence[Stream],
    needs: StageNeeds,
    hardware: Hardware,
    cores: Sequence[int],
    seed: int,
    tick_room: int = 0,
) -> tuple[int, ...]:
    """Cores by stage of a small wirelength: the sum over streams of their load times the links between their ends, those
    of GMEM from and to ports that they share evenly. cores: by stage, where the walk begins; where there is no C compiler they stay. All
    different, or, where stages may share them, with room for all of theirs; none is then busy for more than `tick_room` ticks an image
    that was not so before."""
    kernel, stages = load_kernel(), len(cores)
    if kernel is None or not streams:
        return tuple(cores)
    keep, tables = KeptArrays(), route_tables(hardware)
    touch_start, touch = keep.grouped(touching(streams, stages))
    near_start, near = keep.grouped(neighbours(hardware))
    loads = np.array([stream.image_load for stream in streams], dtype=np.float64)
    ports, port = shared_ports(streams, hardware)
    graph = _StageGraph(
        cores=hardware.cores,
        nodes=hardware.cores + 1,
        stages=stages,
        streams=len(streams),
        distance=keep.pointer(tables.distance),
        writer=keep.ints([-1 - port[n] if s.writer == GMEM else s.writer for n, s in enumerate(streams)]),
        reader=keep.ints([-1 - port[n] if s.reader == GMEM else s.reader for n, s in enumerate(streams)]),
        port=keep.ints(ports),
        weight=keep.pointer(loads / max(loads.mean(), 1.0)),
        touch_start=touch_start,
        touch=touch,
        near_start=near_start,
        near=near,
        rooms=needs.rooms(hardware, tick_room, keep),
    )
    found, flag = np.array(cores, dtype=np.int32), StopFlag()

    def call() -> int:
        moves = MOVES_A_STAGE * stages
        return int(
            kernel.kilotune_arrange(
                ctypes.byref(graph), found.ctypes.data, moves, HOT, COLD, seed % (1 << 63), flag.address
            )
        )

    if not interruptible(call, flag.set):
        raise MemoryError("The arrangement ran out of memory.")
    return tuple(found.tolist())


def shared_ports(streams: Sequence[Stream], hardware: Hardware) -> tuple[tuple[int, ...], dict[int, int]]:
    """The cores at GMEM's ports, and at which of them (by its number there) every stream from or to GMEM has to begin or end.

    Streams one after the other have the same port or the next one, so that all of GMEM's have as much to do: those that the stages
    of a layer read, or write, in their order, which is that of rows or columns of the image. Routes go by the nearest port. With
    replicas wherever they are near to one, a single port may have to send most of the image.
    """
    found: list[int] = []
    given: dict[int, int] = {}
    for outwards in (True, False):
        ends = ((k.source, k.target) if outwards else (k.target, k.source) for k in hardware.links)
        ports = _round_trip([core for gmem, core in ends if gmem == hardware.gmem], hardware)
        own = [n for n, s in enumerate(streams) if (s.writer if outwards else s.reader) == GMEM]
        total, before = sum(streams[n].image_load for n in own), 0
        for number in own:
            middle = before + streams[number].image_load / 2
            given[number] = len(found) + min(int(len(ports) * middle / total), len(ports) - 1)
            before += streams[number].image_load
        found += ports
    return tuple(found), given


def _round_trip(ports: Sequence[int], hardware: Hardware) -> list[int]:
    """Each port before one that is near to it: the nearest of those that are left."""
    distance, left = route_tables(hardware).distance, list(ports)
    trip = [left.pop(0)]
    while left:
        trip.append(min(left, key=lambda core: int(distance[trip[-1], core])))
        left.remove(trip[-1])
    return trip
