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
from kilotune.codegen.cm.routing import neighbours, route_tables
from kilotune.codegen.cm.streams import Stream, touching
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.evaluators.kept_arrays import KeptArrays

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


def arranged(streams: Sequence[Stream], hardware: Hardware, cores: Sequence[int], seed: int) -> tuple[int, ...]:
    """Cores by stage, all different, of a small wirelength: the sum over streams of their load times the links between their ends.
    cores: by stage, where the walk begins; where there is no C compiler they stay."""
    kernel, stages = load_kernel(), len(cores)
    if kernel is None or not streams:
        return tuple(cores)
    keep, tables = KeptArrays(), route_tables(hardware)
    touch_start, touch = keep.grouped(touching(streams, stages))
    near_start, near = keep.grouped(neighbours(hardware))
    loads = np.array([stream.image_load for stream in streams], dtype=np.float64)
    furthest = np.iinfo(np.uint16).max
    graph = _StageGraph(
        cores=hardware.cores,
        nodes=hardware.cores + 1,
        stages=stages,
        streams=len(streams),
        distance=keep.pointer(np.minimum(tables.distance, furthest).astype(np.uint16)),
        writer=keep.ints([stream.writer for stream in streams]),
        reader=keep.ints([stream.reader for stream in streams]),
        weight=keep.pointer(loads / max(loads.mean(), 1.0)),
        touch_start=touch_start,
        touch=touch,
        near_start=near_start,
        near=near,
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
