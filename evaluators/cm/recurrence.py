"""Start ticks of all iterations when nothing is in the way: no contention, unbounded buffers.

The max-plus recurrence T_s[j] = max(T_s[j-1] + c_s, max over edges (T_writer[last needed] + hop)), stage by stage: with
c_s taken out, the first term is a running maximum, so a stage is a few array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.pipeline import GMEM, Pipeline

TickArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Schedule:
    """starts: by stage, [images * iterations]. finish_ticks: by image, the tick when its last result is out."""

    starts: tuple[TickArray, ...]
    finish_ticks: TickArray


def schedule(pipeline: Pipeline, ticks: Sequence[int], hops: Sequence[int] | None = None, images: int = 1) -> Schedule:
    """ticks: of an iteration, by stage. hops: ticks from the end of a writer's iteration until its result can be read,
    less one, by edge (None: 0, the next tick). The image is in GMEM from tick 0 on."""
    incoming: list[list[int]] = [[] for _ in pipeline.stages]
    for number, edge in enumerate(pipeline.edges):
        if edge.writer != GMEM:
            incoming[edge.reader].append(number)
    starts: list[TickArray] = []
    for stage, description in enumerate(pipeline.stages):
        count = description.iterations
        own = ticks[stage] * np.arange(images * count, dtype=np.int64)
        earliest = np.zeros((images, count), dtype=np.int64)
        for number in incoming[stage]:
            edge = pipeline.edges[number]
            writer = starts[edge.writer].reshape(images, -1)
            hop = ticks[edge.writer] + (hops[number] if hops is not None else 0)
            last = np.maximum(edge.needed, 1) - 1
            # An iteration that needs nothing of its own image still comes after the image before: own covers that.
            ready = np.where(edge.needed > 0, writer[:, last] + hop, 0)
            np.maximum(earliest, ready, out=earliest)
        starts.append(np.maximum.accumulate(earliest.reshape(-1) - own) + own)
    ends = [starts[s].reshape(images, -1)[:, -1] + ticks[s] for s in pipeline.outputs]
    return Schedule(tuple(starts), np.max(ends, axis=0))
