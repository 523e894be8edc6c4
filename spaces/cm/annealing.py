"""Placement and routing by simulated annealing: the compiled walk, and what it is told about a pipeline."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.routing import RouteTables, neighbours, route_tables
from kilotune.codegen.cm.streams import Stream, touching
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.evaluators.kept_arrays import KeptArrays
from kilotune.spaces.cm.reference_annealing import AnnealingContext, AnnealingSchedule, annealed
from kilotune.spaces.cm.sharing import StageNeeds

HOT, COLD, COLD_SHARED = 1.0, 0.01, 0.1
"""First and last temperature, in the unit of the energy: eighth powers of shares of the target, an eighth of each. Where stages share
cores it is a hundred times the squares of what exceeds the target, and the last temperature another."""

TRAFFIC_WEIGHT = 0.3
UNLIMITED = 1 << 60


@dataclass(frozen=True)
class AnnealedPlacement:
    """cores: by stage. shapes: of the routes, by stream. ticks: of the busiest link, or core where stages may share
    one."""

    cores: tuple[int, ...]
    shapes: tuple[int, ...]
    ticks: int


(_Network,) = structures(Path(__file__).with_name("moved_streams.h"), "Network")
(_AnnealingState,) = structures(Path(__file__).with_name("annealing.c"), "State")


@cache
def load_kernel() -> ctypes.CDLL | None:
    """None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("annealing.c"))
    if loaded is None:
        return None
    function = loaded.library.kilotune_anneal
    real, int64 = ctypes.c_double, ctypes.c_int64
    states = [ctypes.POINTER(_AnnealingState)] * 2
    function.argtypes = [ctypes.POINTER(_Network), *states, *[int64] * 3, *[real] * 4, ctypes.c_uint64, ctypes.c_void_p]
    function.restype = ctypes.c_int
    return loaded.library


class Annealer:
    """One pipeline's streams on one accelerator. needs: of its stages."""

    def __init__(self, streams: Sequence[Stream], needs: StageNeeds, hardware: Hardware, strict: bool = False) -> None:
        tables: RouteTables = route_tables(hardware)
        self._keep = keep = KeptArrays()
        stages, shared = needs.stages, hardware.stages_per_core > 1
        self.stages, self.streams = stages, len(streams)
        self.hardware, self.tables = hardware, tables
        talks, near = touching(streams, stages), neighbours(hardware)
        self._around = AnnealingContext(streams, needs, hardware, tables, talks, near, strict, TRAFFIC_WEIGHT)
        touch_start, touch = keep.grouped(talks)
        near_start, near_cores = keep.grouped(near)
        self._network = _Network(
            cores=hardware.cores,
            nodes=hardware.cores + 1,
            links=len(hardware.links),
            stages=stages,
            streams=len(streams),
            longest=tables.longest + 3,
            strict=strict,
            loads=len(hardware.links) + (hardware.cores if shared else 0),
            wide=tables.is_wide,
            distance=keep.pointer(tables.distance),
            step_by_goal=keep.pointer(tables.step_by_goal),
            detour=keep.pointer(tables.detour),
            link_target=keep.pointer(tables.target),
            width=keep.ints([k.width for k in hardware.links] + [1] * hardware.cores),
            writer=keep.ints([s.writer for s in streams]),
            reader=keep.ints([s.reader for s in streams]),
            amount=keep.pointer(np.array([s.image_load for s in streams], dtype=np.int64)),
            touch_start=touch_start,
            touch=touch,
            near_start=near_start,
            near=near_cores,
            rooms=needs.rooms(hardware, UNLIMITED, keep),
        )

    def run(
        self,
        start: AnnealedPlacement,
        best_ticks: int,
        moves: int,
        target: int,
        least: int,
        seed: int,
        step: float = 0.01,
        hot: float = HOT,
        cold: float | None = None,
    ) -> AnnealedPlacement | None:
        """A placement of fewer than `best_ticks`, or None; at `least`, one with as little traffic as can be found, which
        may be of `best_ticks` as well. Without a C compiler it is a much shorter walk."""
        kernel = load_kernel()
        if cold is None:
            cold = COLD if self.hardware.stages_per_core == 1 else COLD_SHARED
        if kernel is None:
            course = AnnealingSchedule(moves, max(target, 1), max(least, 1), step, hot, cold, seed)
            walk = annealed(self._around, start.cores, start.shapes, best_ticks, course)
            return None if walk is None else AnnealedPlacement(*walk)
        arrays = [np.array(values, dtype=np.int32) for values in (start.cores, start.shapes)]
        found = [array.copy() for array in arrays]
        begin = _AnnealingState(arrays[0].ctypes.data, arrays[1].ctypes.data, start.ticks)
        best = _AnnealingState(found[0].ctypes.data, found[1].ctypes.data, best_ticks)
        flag = StopFlag()

        def call() -> int:
            return int(
                kernel.kilotune_anneal(
                    *(ctypes.byref(self._network), ctypes.byref(begin), ctypes.byref(best)),
                    *(moves, max(target, 1), max(least, 1), step, hot, cold, TRAFFIC_WEIGHT),
                    *(seed % (1 << 63), flag.address),
                )
            )

        status = interruptible(call, flag.set) if moves else call()
        if not status:
            raise MemoryError("The annealer ran out of memory.")
        if not best.kept:
            return None
        return AnnealedPlacement(tuple(found[0].tolist()), tuple(found[1].tolist()), int(best.ticks))
