"""What has been found out about a placement, whatever its buffers: much of what a candidate measures is that of others which differ from it
in their buffers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilotune.evaluators.cm.stream import StreamTiming
from kilotune.spaces.cm.buffers import OccupiedBuffers
from kilotune.spaces.cm.lowered import LoweredPipeline


@dataclass(frozen=True, eq=False)
class UnhinderedStream:
    """A stream of images in which nothing ever waited for room. held: by stream, the most packets that it held meanwhile. timing, ticks:
    what `CmCandidates.steady_timing` says of it."""

    held: tuple[int, ...]
    timing: StreamTiming
    ticks: float

    @classmethod
    def of(cls, first: StreamTiming, timing: StreamTiming, ticks: float) -> UnhinderedStream | None:
        """What was simulated, `first` of a single image; None where something waited."""
        if first.held is None or timing.held is None:
            return None
        return cls(tuple(np.maximum(first.held, timing.held).tolist()), timing, ticks)

    def is_that_of(self, capacities: Sequence[int]) -> bool:
        """Whether the stream is the same, tick for tick, with buffers of these capacities, packets by stream: each has room for all that
        was held, or is unbounded. Every iteration that started then finds room at the same tick, and nothing starts earlier."""
        return all(room == 0 or room >= held for room, held in zip(capacities, self.held, strict=True))


@dataclass(frozen=True, eq=False)
class KnownPlacement:
    """A placement: cores by stage, routes by stream; and what is known of it. occupied: see `occupied_buffers`. held: the most packets by
    stream as `CmCandidates.held` counts them. unhindered: None until such a stream has been simulated."""

    lowered: LoweredPipeline
    cores: tuple[int, ...]
    routes: tuple[tuple[int, ...], ...]
    occupied: OccupiedBuffers
    held: tuple[int, ...] | None = None
    unhindered: UnhinderedStream | None = None

    def is_of(self, lowered: LoweredPipeline, cores: Sequence[int], routes: Sequence[tuple[int, ...]]) -> bool:
        """Whether it is this placement."""
        return self.lowered is lowered and self.cores == tuple(cores) and self.routes == tuple(routes)

    def holding(self, held: tuple[int, ...]) -> KnownPlacement:
        """With what its streams hold."""
        return replace(self, held=held)

    def streamed(self, unhindered: UnhinderedStream | None) -> KnownPlacement:
        """With a stream that was simulated; None: it was hindered, and nothing is known by it."""
        return self if unhindered is None else replace(self, unhindered=unhindered)
