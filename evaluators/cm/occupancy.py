"""How full the buffers get when nothing is in the way: the room that a stream needs in order not to slow anything down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.streams import Stream
from kilotune.evaluators.cm.recurrence import schedule, sending_ticks

IMAGES = 3


def occupancies(
    pipeline: Pipeline, streams: Sequence[Stream], ticks: Sequence[int], hops: Sequence[int], pace_ticks: int
) -> tuple[int, ...]:
    """Packets by stream, those under way included; at least the stream's minimum capacity. 0 for streams into GMEM."""
    starts = schedule(pipeline, ticks, hops, IMAGES, pace_ticks).starts
    sent = sending_ticks(pipeline.input_iterations, IMAGES, pace_ticks)
    found = []
    for stream in streams:
        if stream.reader == GMEM:
            found.append(0)
            continue
        written = sent if stream.writer == GMEM else starts[stream.writer]
        issued = written[np.tile(stream.sends, IMAGES)]
        finished = starts[stream.reader] + ticks[stream.reader]
        images = np.arange(IMAGES)[:, None] * stream.packets
        freed = np.concatenate(([0], (images + stream.released).ravel()))
        left = freed[np.searchsorted(finished, issued, side="right")]
        most = int((np.arange(1, len(issued) + 1) - left).max(initial=1))
        found.append(max(most, stream.minimum_capacity))
    return tuple(found)
