"""Fidelities B and C together: a mapping's own schedule and buffers, executed in integers, against whole-tensor results.

Packets arrive as early as their routes allow without contention: later arrivals cannot overwrite anything that these do
not, and the control units check the starts that contention delays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.functional import ScheduleParameters, replay
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.timing import simulate_whole


@dataclass(frozen=True)
class Verification:
    """Output elements compared over all images, and how many of them differ."""

    images: int
    elements: int
    different: int


def verify(lowered: LoweredNetwork, setting: Setting, images: Sequence[NDArray[np.int64]]) -> Verification:
    """Run `images` back to back through the mapped pipeline of `setting` (that of `lowered`).

    DataHazardError when the schedule or a buffer would lose data; ValueError when the schedule deadlocks.
    """
    _, starts = simulate_whole(setting, len(images))
    edges = len(lowered.pipeline.edges)
    machine = ScheduleParameters(
        setting.ticks, route_delays(setting)[:edges], setting.capacities[:edges], setting.pace_ticks
    )
    execution = replay(lowered, images, starts, machine)
    graph = lowered.network.graph
    different = elements = 0
    for image, results in zip(images, execution.results, strict=True):
        tensors = evaluate(graph, image, integer=True)
        for output, found in zip(graph.outputs, results, strict=True):
            expected = output.as_file(tensors[output.tensor])
            different += int((expected != found).sum())
            elements += expected.size
    return Verification(len(images), elements, different)


def route_delays(setting: Setting) -> tuple[int, ...]:
    """By stream: ticks from an iteration's end until its packet is behind the last link, if nothing is in its way."""
    delays = []
    for stream, route in zip(setting.streams, setting.routes, strict=True):
        links = [setting.links[number] for number in route]
        ticks = sum(-(-stream.load // link.width) - 1 + link.hop_ticks for link in links)
        delays.append(ticks - 1 if links else 0)
    return tuple(delays)
