"""What timing.c is called with: a stream of images as arrays of numbers, and room for what it finds."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.ticks import TickArray
from kilotune.evaluators.kept_arrays import KeptArrays

StreamProblem, StreamOutcome = structures(Path(__file__).with_name("timing_state.h"), "Problem", "Outcome")


def stream_problem(
    setting: Setting, images: int, stop_address: int, settle: bool, wanted: int
) -> tuple[ctypes.Structure, KeptArrays]:
    """The setting as C sees it, and what keeps its arrays alive."""
    streams, stages, keep = setting.streams, setting.pipeline.stages, KeptArrays()
    ends: tuple[list[list[int]], ...] = tuple([[] for _ in range(len(stages) + 1)] for _ in range(2))
    for number, stream in enumerate(streams):
        for lists, stage in zip(ends, (stream.reader, stream.writer), strict=True):
            lists[stage].append(number)  # GMEM, -1, is the last one
    into, out_of = (keep.grouped(lists[:-1]) for lists in ends)
    routes, sharing = keep.grouped(setting.routes), setting.sharing
    on_core = keep.grouped(sharing)
    core_of = {stage: core for core, own in enumerate(sharing) for stage in own}
    problem = StreamProblem(
        stage_count=len(stages),
        stream_count=len(streams),
        link_count=len(setting.links),
        images=images,
        iterations=keep.ints([stage.iterations for stage in stages]),
        ticks=keep.ints(setting.ticks),
        writer=keep.ints([s.writer for s in streams]),
        reader=keep.ints([s.reader for s in streams]),
        elements=keep.ints([s.load for s in streams]),
        packets=keep.ints([s.packets for s in streams]),
        capacity=keep.ints(setting.capacities),
        writer_iterations=keep.ints([len(s.sends) for s in streams]),
        needed=keep.pointers([s.needed for s in streams]),
        released=keep.pointers([s.released for s in streams]),
        sends=keep.pointers([s.sends.view(np.uint8) for s in streams]),
        in_start=into[0],
        in_stream=into[1],
        out_start=out_of[0],
        out_stream=out_of[1],
        route_start=routes[0],
        route=routes[1],
        width=keep.ints([link.width for link in setting.links]),
        hop=keep.ints([link.hop_ticks for link in setting.links]),
        pace_ticks=setting.pace_ticks,
        stop=stop_address,
        settle=settle,
        wanted=wanted,
        core_count=len(sharing),
        core=keep.ints([core_of[stage] for stage in range(len(stages))]),
        core_start=on_core[0],
        core_stage=on_core[1],
    )
    return problem, keep


@dataclass(frozen=True, eq=False)
class OutcomeArrays:
    """What timing.c writes. By image: `finish`, ticks; by stage: `started`, iterations, and `starts`, their ticks, if wanted; by
    stream: packets `delivered`, `issued`, `freed`, and those that are the former without the latter, at most."""

    finish: TickArray
    started: TickArray
    delivered: TickArray
    issued: TickArray
    freed: TickArray
    most_held: TickArray
    starts: list[TickArray] | None

    @classmethod
    def of(cls, setting: Setting, images: int, record_starts: bool) -> OutcomeArrays:
        """Zeros."""
        stages, streams = setting.pipeline.stages, len(setting.streams)
        starts = [np.zeros(images * s.iterations, dtype=np.int64) for s in stages] if record_starts else None
        return cls(
            np.zeros(images, dtype=np.int64),
            np.zeros(len(stages), dtype=np.int64),
            np.zeros(streams, dtype=np.int64),
            np.zeros(streams, dtype=np.int64),
            np.zeros(streams, dtype=np.int64),
            np.zeros(streams, dtype=np.int64),
            starts,
        )

    def structure(self, keep: KeptArrays) -> ctypes.Structure:
        """Their addresses."""
        return StreamOutcome(
            next=keep.pointer(self.started),
            delivered=keep.pointer(self.delivered),
            issued=keep.pointer(self.issued),
            freed=keep.pointer(self.freed),
            most_held=keep.pointer(self.most_held),
            finish=keep.pointer(self.finish),
            starts=None if self.starts is None else keep.pointers(self.starts),
        )
