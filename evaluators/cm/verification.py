"""Fidelities B and C together: a mapping's own schedule and buffers, executed in integers, against whole-tensor results.

Packets arrive as early as their routes allow without contention: later arrivals cannot overwrite anything that these do
not, and the control units check the starts that contention delays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Array
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.functional import ScheduleParameters, replay
from kilotune.evaluators.cm.stage_execution import IntVector
from kilotune.evaluators.cm.stream import Setting
from kilotune.evaluators.cm.ticks import TickArray
from kilotune.evaluators.cm.timing import simulate_whole


@dataclass(frozen=True)
class Verification:
    """iterations: executed, of all stages, out of `of_iterations` of the images. elements: compared, of the network's outputs where
    all iterations were executed, otherwise of what every layer wrote; different: how many of them differ."""

    images: int
    elements: int
    different: int
    iterations: int
    of_iterations: int


def verify(
    lowered: LoweredNetwork, setting: Setting, images: Sequence[NDArray[np.int64]], most_iterations: int | None = None
) -> Verification:
    """Run `images` back to back through the mapped pipeline of `setting` (that of `lowered`), the first `most_iterations`
    iterations in the order of their starts; None: all.

    DataHazardError when the schedule or a buffer would lose data; ValueError when the schedule deadlocks.
    """
    _, every = simulate_whole(setting, len(images))
    starts = _first(every, most_iterations)
    edges = len(lowered.pipeline.edges)
    machine = ScheduleParameters(
        setting.ticks, route_delays(setting)[:edges], setting.capacities[:edges], setting.pace_ticks
    )
    graph = lowered.network.graph
    tensors = [evaluate(graph, image, integer=True) for image in images]
    packets = _PacketComparison(lowered, tensors)
    execution = replay(lowered, images, starts, machine, seen=packets.see)
    executed, total = sum(map(len, starts)), sum(map(len, every))
    if executed < total:
        return Verification(len(images), packets.elements, packets.different, executed, total)
    different = elements = 0
    for expected_tensors, results in zip(tensors, execution.results, strict=True):
        for output, found in zip(graph.outputs, results, strict=True):
            expected = output.as_file(expected_tensors[output.tensor])
            different += int((expected != found).sum())
            elements += expected.size
    return Verification(len(images), elements, different, executed, total)


def _first(starts: Sequence[TickArray], most: int | None) -> tuple[TickArray, ...]:
    """By stage, the starts before a tick: the last one before which there are no more than `most` of all stages."""
    ticks = np.concatenate(starts)
    if most is None or len(ticks) <= most:
        return tuple(starts)
    end = np.partition(ticks, most)[most]
    return tuple(own[: np.searchsorted(own, end)] for own in starts)


class _PacketComparison:
    """Counts the elements that stages write otherwise than they are in whole tensors (by image, by name); those of partial sums are
    none of a tensor's."""

    def __init__(self, lowered: LoweredNetwork, tensors: Sequence[Mapping[str, Array]]) -> None:
        self._programs, self._shapes = lowered.programs, lowered.network.graph.shapes
        self._tensors = tensors
        self.elements = self.different = 0

    def see(self, stage: int, image: int, rank: int, packet: IntVector) -> None:
        """A packet as it is computed."""
        program = self._programs[stage]
        if not program.finishes or not program.exports:
            return
        row, column = program.rectangle.pixel(rank)
        channels = slice(*program.channels)
        tensors = [self._tensors[image][name].reshape(self._shapes[name]) for name in program.exports]
        expected = np.concatenate([tensor[channels, row, column] for tensor in tensors])
        self.elements += expected.size
        self.different += int((expected != packet).sum())


def route_delays(setting: Setting) -> tuple[int, ...]:
    """By stream: ticks from an iteration's end until its packet is behind the last link, if nothing is in its way."""
    delays = []
    for stream, route in zip(setting.streams, setting.routes, strict=True):
        links = [setting.links[number] for number in route]
        ticks = sum(-(-stream.load // link.width) - 1 + link.hop_ticks for link in links)
        delays.append(ticks - 1 if links else 0)
    return tuple(delays)
