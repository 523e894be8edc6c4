"""What has been found out about a placement, whatever its buffers: much of what a candidate measures is that of others which differ from it
in their buffers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.evaluators.cm.followed_stream import FollowedStream
from kilotune.evaluators.cm.stream import StreamTiming
from kilotune.spaces.cm.buffers import OccupiedBuffers
from kilotune.spaces.cm.lowered import LoweredPipeline


@dataclass(frozen=True, eq=False)
class SimulatedStream:
    """A stream of images that was simulated with buffers of these capacities. held: by stream, the most packets that it held meanwhile;
    None where something waited for room. timing, ticks: what `CmCandidates.steady_timing` says of it."""

    capacities: tuple[int, ...]
    held: tuple[int, ...] | None
    timing: StreamTiming
    ticks: float

    @classmethod
    def of(
        cls, capacities: tuple[int, ...], first: StreamTiming, timing: StreamTiming, ticks: float
    ) -> SimulatedStream:
        """What was simulated, `first` of a single image."""
        if first.held is None or timing.held is None:
            return cls(capacities, None, timing, ticks)
        return cls(capacities, tuple(np.maximum(first.held, timing.held).tolist()), timing, ticks)

    def is_that_of(self, capacities: tuple[int, ...]) -> bool:
        """Whether the stream is the same, tick for tick, with buffers of these capacities, packets by stream. It is where nothing waited
        and each has room for all that was held, or is unbounded: every iteration that started then finds room at the same tick, and
        nothing starts earlier."""
        if self.held is None:
            return capacities == self.capacities
        return all(room == 0 or room >= held for room, held in zip(capacities, self.held, strict=True))


@dataclass(frozen=True, eq=False)
class UnboundedStream:
    """A stream through unbounded buffers that is simulated as far as what streams hold is known by, and waits there: where buffers turn
    out to be as large as that, it is also what a measurement asks for. first: of a single image."""

    first: StreamTiming
    followed: FollowedStream


@dataclass(frozen=True, eq=False)
class KnownPlacement:
    """A placement: cores by stage, routes by stream; and what is known of it. occupied: see `occupied_buffers`. held: the most packets by
    stream as `CmCandidates.held` counts them. streams: those that were simulated. unbounded: one that waits."""

    lowered: LoweredPipeline
    cores: tuple[int, ...]
    routes: tuple[tuple[int, ...], ...]
    occupied: OccupiedBuffers
    held: tuple[int, ...] | None = None
    streams: tuple[SimulatedStream, ...] = ()
    unbounded: UnboundedStream | None = None

    def is_of(self, lowered: LoweredPipeline, cores: Sequence[int], routes: Sequence[tuple[int, ...]]) -> bool:
        """Whether it is this placement."""
        return self.lowered is lowered and self.cores == tuple(cores) and self.routes == tuple(routes)

    def streamed(self, capacities: tuple[int, ...]) -> SimulatedStream | None:
        """A stream that is the same as with buffers of these capacities; None: none of those that are known."""
        return next((stream for stream in self.streams if stream.is_that_of(capacities)), None)

    def waiting(self, capacities: tuple[int, ...]) -> UnboundedStream | None:
        """The stream that waits, where it is likely to be the same with buffers of these capacities; else None."""
        if self.held is None or any(0 < room < held for room, held in zip(capacities, self.held, strict=True)):
            return None
        return self.unbounded
