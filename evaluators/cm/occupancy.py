"""How full buffers get: the room that a stream needs in order not to slow anything down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.streams import Stream
from kilotune.evaluators.cm.recurrence import schedule, sending_ticks
from kilotune.evaluators.cm.ticks import TickArray

IMAGES = 3


def occupancies(
    pipeline: Pipeline, streams: Sequence[Stream], ticks: Sequence[int], hops: Sequence[int], pace_ticks: int
) -> tuple[int, ...]:
    """When nothing is in the way: see `held_packets`."""
    starts = schedule(pipeline, ticks, hops, IMAGES, pace_ticks).starts
    return held_packets(pipeline, streams, ticks, starts, pace_ticks)


def held_packets(
    pipeline: Pipeline,
    streams: Sequence[Stream],
    ticks: Sequence[int],
    starts: Sequence[TickArray],
    pace_ticks: int,
) -> tuple[int, ...]:
    """The most packets that a stream ever holds, by stream, those under way included; at least the stream's minimum capacity. 0 for
    streams into GMEM. ticks: of an iteration, by stage. starts: of all iterations of all images, by stage. pace_ticks: in which GMEM
    sends an image."""
    images = len(starts[0]) // pipeline.stages[0].iterations
    sent = sending_ticks(pipeline.input_iterations, images, pace_ticks)
    found = []
    for stream in streams:
        if stream.reader == GMEM:
            found.append(0)
            continue
        written = sent if stream.writer == GMEM else starts[stream.writer]
        issued = written[np.tile(stream.sends, images)]
        finished = starts[stream.reader] + ticks[stream.reader]
        before = np.arange(images)[:, None] * stream.packets
        freed = np.concatenate(([0], (before + stream.released).ravel()))
        left = freed[np.searchsorted(finished, issued, side="right")]
        most = int((np.arange(1, len(issued) + 1) - left).max(initial=1))
        found.append(max(most, stream.minimum_capacity))
    return tuple(found)


def held_with_room(streams: Sequence[Stream], held: Sequence[int]) -> tuple[int, ...]:
    """What `held_packets` says, where a simulation has counted already what each stream held at most."""
    return tuple(
        0 if stream.reader == GMEM else max(most, stream.minimum_capacity)
        for stream, most in zip(streams, held, strict=True)
    )
