"""Fidelity B: a stream of images through a mapped pipeline, with contended links and finite buffers. Exact, in ticks.

An iteration that starts at tick T holds its core for `ticks` ticks; its packet asks for the first link of its route in the
last of them. A link moves `elements_per_tick` elements a tick, first come first served, of packets that ask in the same
tick the one of the lower stream number first; a packet is at the next link `hop_ticks` after its last element has gone.
Without a route it can be read at tick T + ticks. A stage starts an iteration when its core is free, all packets that the
iteration needs are there, and every bounded buffer that it writes to has room; room is free from the tick on in which the
reader has finished with it. GMEM sends the pixels of the image in order, image after image, each at its pace.

`plain_timing` says the same tick by tick; a test holds the two to each other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.hardware import Link
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.streams import Stream
from kilotune.evaluators.cm.deadlock import Deadlock, PipelineState, find_deadlock
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible

TickArray = NDArray[np.int64]

PACKETS_AT_ONCE = 200_000
"""Some hundredths of a second; more are simulated so that a signal ends it."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What is run: a pipeline with its streams, ticks of an iteration by stage, routes (link numbers; empty: unmapped)
    and capacities (packets; 0: unbounded) by stream, the links, and ticks that GMEM takes to send an image (0: it is there
    at once)."""

    pipeline: Pipeline
    streams: tuple[Stream, ...]
    ticks: tuple[int, ...]
    routes: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]
    links: tuple[Link, ...] = ()
    pace_ticks: int = 0

    @classmethod
    def unmapped(cls, pipeline: Pipeline, streams: tuple[Stream, ...], ticks: Sequence[int]) -> Setting:
        """No links, unbounded buffers."""
        nothing = ((),) * len(streams)
        return cls(pipeline, streams, tuple(ticks), nothing, (0,) * len(streams))


@dataclass(frozen=True, eq=False)
class StreamTiming:
    """finish_ticks: by image, when its last result is out; 0 for images that a deadlock stops. starts: by stage, the start
    ticks of all iterations, those that took place first; None where not asked for."""

    finish_ticks: TickArray
    starts: tuple[TickArray, ...] | None
    deadlock: Deadlock | None


def simulate(setting: Setting, images: int, record_starts: bool = False, settle: bool = False) -> StreamTiming:
    """Run it: compiled, or tick by tick where there is no C compiler. `settle`: no further than to where the state of
    everything has come back, relative to the image that is through; the ticks of the images that follow are known then. They
    are those of an endless stream: the last images of a stream, behind which links are free, may finish sooner."""
    kernel = _kernel()
    if kernel is None:
        from kilotune.evaluators.cm.plain_timing import simulate_reference

        return simulate_reference(setting, images)
    return _compiled(kernel, setting, images, record_starts, settle)


class _TimingProblem(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("stage_count", "stream_count", "link_count", "images")),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "iterations",
                "ticks",
                "writer",
                "reader",
                "elements",
                "packets",
                "capacity",
                "writer_iterations",
                "needed",
                "released",
                "sends",
                "in_start",
                "in_stream",
                "out_start",
                "out_stream",
                "route_start",
                "route",
                "width",
                "hop",
            )
        ),
        ("pace_ticks", ctypes.c_int64),
        ("stop", ctypes.c_void_p),
        ("settle", ctypes.c_int32),
    ]


class _Outcome(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("next", "delivered", "issued", "freed", "finish", "starts")),
        *((name, ctypes.c_int64) for name in ("ticks", "settled_at", "period_images", "period_ticks")),
    ]


@cache
def _kernel() -> ctypes.CDLL | None:
    loaded = load_library(Path(__file__).with_name("timing.c"))
    if loaded is None:
        return None
    loaded.library.kilotune_stream.argtypes = [ctypes.POINTER(_TimingProblem), ctypes.POINTER(_Outcome)]
    loaded.library.kilotune_stream.restype = ctypes.c_int
    return loaded.library


def _compiled(kernel: ctypes.CDLL, setting: Setting, images: int, record_starts: bool, settle: bool) -> StreamTiming:
    pipeline, streams, stages = setting.pipeline, setting.streams, setting.pipeline.stages
    kept: list[NDArray[np.generic]] = []
    flag = StopFlag()

    def pointer(array: NDArray[np.generic]) -> int:
        kept.append(array)  # it must live as long as the call
        return int(array.ctypes.data)

    def ints(values: Sequence[int]) -> int:
        return pointer(np.array(values, dtype=np.int32))

    def pointers(arrays: Sequence[NDArray[np.generic]]) -> int:
        return pointer(np.array([pointer(np.ascontiguousarray(a)) for a in arrays], dtype=np.uint64))

    def grouped(lists: Sequence[Sequence[int]]) -> tuple[int, int]:
        begins = np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int32)
        return pointer(begins), ints([item for one in lists for item in one])

    numbers = range(len(streams))
    into = grouped([[n for n in numbers if streams[n].reader == s] for s in range(len(stages))])
    out_of = grouped([[n for n in numbers if streams[n].writer == s] for s in range(len(stages))])
    routes = grouped(setting.routes)
    problem = _TimingProblem(
        stage_count=len(stages),
        stream_count=len(streams),
        link_count=len(setting.links),
        images=images,
        iterations=ints([stage.iterations for stage in stages]),
        ticks=ints(setting.ticks),
        writer=ints([s.writer for s in streams]),
        reader=ints([s.reader for s in streams]),
        elements=ints([s.elements for s in streams]),
        packets=ints([s.packets for s in streams]),
        capacity=ints(setting.capacities),
        writer_iterations=ints([len(s.sends) for s in streams]),
        needed=pointers([s.needed for s in streams]),
        released=pointers([s.released for s in streams]),
        sends=pointers([s.sends.astype(np.uint8) for s in streams]),
        in_start=into[0],
        in_stream=into[1],
        out_start=out_of[0],
        out_stream=out_of[1],
        route_start=routes[0],
        route=routes[1],
        width=ints([link.elements_per_tick for link in setting.links]),
        hop=ints([link.hop_ticks for link in setting.links]),
        pace_ticks=setting.pace_ticks,
        stop=flag.address,
        settle=settle and not record_starts,
    )
    starts = [np.zeros(images * s.iterations, dtype=np.int64) for s in stages] if record_starts else None
    after = {name: np.zeros(len(streams), dtype=np.int64) for name in ("delivered", "issued", "freed")}
    started, finish = np.zeros(len(stages), dtype=np.int64), np.zeros(images, dtype=np.int64)
    outcome = _Outcome(
        next=pointer(started),
        finish=pointer(finish),
        starts=None if starts is None else pointers(starts),
        **{name: pointer(array) for name, array in after.items()},
    )

    def call() -> int:
        return int(kernel.kilotune_stream(ctypes.byref(problem), ctypes.byref(outcome)))

    packets = images * sum(stream.packets for stream in streams)
    status = call() if packets < PACKETS_AT_ONCE else interruptible(call, flag.set)
    if status < 0:
        raise MemoryError("The pipeline simulator ran out of memory.")
    progress = PipelineState(started.tolist(), *(after[name].tolist() for name in ("delivered", "issued", "freed")))
    deadlock = find_deadlock(pipeline, streams, setting.capacities, progress) if status == 1 else None
    if outcome.settled_at:
        for image in range(outcome.settled_at, images):
            finish[image] = finish[image - outcome.period_images] + outcome.period_ticks
    for number, stream in enumerate(streams):
        if stream.reader == GMEM and not outcome.settled_at:
            finish[after["delivered"][number] // stream.packets :] = 0  # some of an image's results are no image
    return StreamTiming(finish, None if starts is None else tuple(starts), deadlock)


def steady_ticks(finish_ticks: TickArray) -> float:
    """Mean ticks from one image to the next; of a single image, its finish."""
    if len(finish_ticks) < 2:
        return float(finish_ticks[-1])
    return float(finish_ticks[-1] - finish_ticks[0]) / (len(finish_ticks) - 1)
