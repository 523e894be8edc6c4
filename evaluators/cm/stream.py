"""A stream of images through a mapped pipeline: what is run, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.cm.hardware import Link
from kilotune.codegen.cm.mapping import stages_by_core
from kilotune.codegen.cm.pipeline import Pipeline
from kilotune.codegen.cm.streams import Stream
from kilotune.evaluators.cm.deadlock import Deadlock
from kilotune.evaluators.cm.ticks import TickArray


@dataclass(frozen=True, eq=False)
class Setting:
    """What is run: a pipeline with its streams, ticks of an iteration by stage, routes (link numbers; empty: unmapped, or between
    stages of one core) and capacities (packets; 0: unbounded) by stream, the links, ticks that GMEM takes to send an image (0: it
    is there at once), and cores by stage (empty: each has its own)."""

    pipeline: Pipeline
    streams: tuple[Stream, ...]
    ticks: tuple[int, ...]
    routes: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]
    links: tuple[Link, ...] = ()
    pace_ticks: int = 0
    cores: tuple[int, ...] = ()

    @property
    def sharing(self) -> list[list[int]]:
        """The stages of each core in use, in their order."""
        return list(stages_by_core(self.cores or range(len(self.pipeline.stages))).values())

    @classmethod
    def unmapped(cls, pipeline: Pipeline, streams: tuple[Stream, ...], ticks: Sequence[int]) -> Setting:
        """No links, unbounded buffers."""
        nothing = ((),) * len(streams)
        return cls(pipeline, streams, tuple(ticks), nothing, (0,) * len(streams))


@dataclass(frozen=True, eq=False)
class StreamTiming:
    """finish_ticks: by image, when its last result is out; 0 for images that a deadlock stops. starts: by stage, the start
    ticks of all iterations, those that took place first; None where not asked for. started: by stage, how many took place.
    held: by stream, the most packets that it held; None where an iteration or GMEM waited for room in a buffer, or may have,
    or where that is not known."""

    finish_ticks: TickArray
    starts: tuple[TickArray, ...] | None
    deadlock: Deadlock | None
    started: tuple[int, ...]
    held: tuple[int, ...] | None = None


def steady_ticks(finish_ticks: TickArray) -> float:
    """Mean ticks from one image to the next; of a single image, its finish."""
    if len(finish_ticks) < 2:
        return float(finish_ticks[-1])
    return float(finish_ticks[-1] - finish_ticks[0]) / (len(finish_ticks) - 1)
