"""Why a pipeline stands still: the circle of stages that wait for one another, and the full buffer in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.streams import Stream, stream_name


@dataclass(frozen=True)
class PipelineState:
    """Where everything stands: iterations started by stage, packets by stream, all over the whole stream of images."""

    started: Sequence[int]
    delivered: Sequence[int]
    issued: Sequence[int]
    freed: Sequence[int]


@dataclass(frozen=True)
class Deadlock:
    """`stream`: the stream whose full buffer closes the circle; `stages`: those that wait, in the order of waiting."""

    stream: int
    stages: tuple[int, ...]
    sentence: str


def find_deadlock(
    pipeline: Pipeline, streams: Sequence[Stream], capacities: Sequence[int], progress: PipelineState
) -> Deadlock:
    """Follow who waits for whom from a stage that is not through until a stage comes back. Of the full buffers on the
    circle the one of the lowest stream number is named: without any the circle would be one of the data flow."""
    waits = [_wait(pipeline, streams, capacities, progress, stage) for stage in range(len(pipeline.stages))]
    least = min(progress.started[s] / pipeline.stages[s].iterations for s in range(len(waits)))
    here = next(
        s for s in range(len(waits)) if progress.started[s] / pipeline.stages[s].iterations == least and waits[s]
    )
    path: list[int] = []
    while here != GMEM and here not in path:
        path.append(here)
        wait = waits[here]
        if wait is None:
            break
        here = wait[1]
    circle = path[path.index(here) :] if here in path else path
    steps = [wait for s in circle if (wait := waits[s]) is not None]
    full = [stream for stream, other in steps if streams[stream].writer != other]
    blamed = min(full, default=steps[-1][0] if steps else 0)
    room = f"{capacities[blamed]} packets of {streams[blamed].elements} elements"
    names = ", ".join(pipeline.stages[s].name for s in circle)
    sentence = (
        f"Deadlock: the buffer of {stream_name(pipeline, streams[blamed])} is full with {room}; waiting: {names}."
    )
    return Deadlock(blamed, tuple(circle), sentence)


def _wait(
    pipeline: Pipeline, streams: Sequence[Stream], capacities: Sequence[int], progress: PipelineState, stage: int
) -> tuple[int, int] | None:
    """The stream that holds a stage up, and whom it waits for thereby: the writer of missing data, else the reader of a
    full buffer. None: it is through with what there is, or nothing holds it."""
    image, j = divmod(progress.started[stage], pipeline.stages[stage].iterations)
    for number, stream in enumerate(streams):
        if stream.reader == stage and (needed := int(stream.needed[j])):
            missing = progress.delivered[number] < image * stream.packets + needed
            if missing and stream.writer == GMEM:
                return number, stage  # GMEM itself waits for room in this stage's buffer
            if missing:
                return number, stream.writer
    for number, stream in enumerate(streams):
        full = capacities[number] and progress.issued[number] - progress.freed[number] >= capacities[number]
        if stream.writer == stage and stream.sends[j] and full:
            return number, stream.reader
    return None
