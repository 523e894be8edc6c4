"""Start ticks of all iterations when nothing is in the way: no contention, unbounded buffers.

The max-plus recurrence T_s[j] = max(T_s[j-1] + c_s, max over edges (T_writer[last needed] + hop)), stage by stage: with
c_s taken out, the first term is a running maximum, so a stage is a few array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.evaluators.cm.ticks import TickArray


@dataclass(frozen=True, eq=False)
class Schedule:
    """starts: by stage, [images * iterations]. finish_ticks: by image, the tick when its last result is out."""

    starts: tuple[TickArray, ...]
    finish_ticks: TickArray


def schedule(
    pipeline: Pipeline, ticks: Sequence[int], hops: Sequence[int] | None = None, images: int = 1, pace_ticks: int = 0
) -> Schedule:
    """ticks: of an iteration, by stage. hops: ticks on the way of a packet, by edge; None: 1 each, to be read in the tick
    after its iteration, and the image at once. pace_ticks: in which GMEM sends an image; 0: it is there at once."""
    incoming: list[list[int]] = [[] for _ in pipeline.stages]
    for number, edge in enumerate(pipeline.edges):
        incoming[edge.reader].append(number)
    starts: list[TickArray] = []
    for stage, description in enumerate(pipeline.stages):
        count = description.iterations
        own = ticks[stage] * np.arange(images * count, dtype=np.int64)
        earliest = np.zeros((images, count), dtype=np.int64)
        for number in incoming[stage]:
            edge = pipeline.edges[number]
            if edge.writer == GMEM:
                writer = sending_ticks(pipeline.input_iterations, images, pace_ticks).reshape(images, -1)
                hop = 0 if hops is None else hops[number]
            else:
                writer = starts[edge.writer].reshape(images, -1)
                hop = ticks[edge.writer] - 1 + (1 if hops is None else hops[number])
            last = np.maximum(edge.needed, 1) - 1
            # An iteration that needs nothing of its own image still comes after the image before: own covers that.
            ready = np.where(edge.needed > 0, writer[:, last] + hop, 0)
            np.maximum(earliest, ready, out=earliest)
        starts.append(np.maximum.accumulate(earliest.reshape(-1) - own) + own)
    ends = [starts[s].reshape(images, -1)[:, -1] + ticks[s] for s in pipeline.outputs]
    return Schedule(tuple(starts), np.max(ends, axis=0))


def sending_ticks(pixels: int, images: int, pace_ticks: int) -> TickArray:
    """When GMEM sends each pixel of the stream of images."""
    return np.arange(images * pixels, dtype=np.int64) * pace_ticks // pixels
