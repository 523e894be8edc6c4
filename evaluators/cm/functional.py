"""Fidelity C: integer-exact execution of a lowered network, image after image, driven by its state machines.

Two ways to run. `run` lets every core start as soon as its control unit and the room in its readers' buffers allow
(the earliest schedule of a machine without link contention). `replay` starts iterations at given ticks, those of the
timing evaluator; a control unit that would not have allowed one is an error. Both read from finite circular buffers
whose cells are poisoned until written.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.lcu import loop_nest, state_machine
from kilotune.codegen.cm.mapping import stages_by_core
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.onnx.graph import GraphOutput
from kilotune.evaluators.cm.cells import CircularBuffer, DataHazardError
from kilotune.evaluators.cm.stage_execution import IntVector, Noise, StageExecutor
from kilotune.evaluators.cm.ticks import TickArray

ARRIVAL, END, GIVEN_START, WAKE = range(4)
"""Events: a packet is there, an iteration is over, one is to start, something may have become possible."""


Seen = Callable[[int, int, int, IntVector], None]
"""A stage, an image, the pixel's number in the stage's rectangle, and what the stage writes there."""


class StallError(Exception):
    """No core can go on: which waits for what, as a sentence."""


@dataclass(frozen=True, eq=False)
class Execution:
    """results: by image, the network's outputs in their ONNX shapes without batch. starts: by stage, ticks [images * iterations].

    finish_ticks: by image, when its last result is written. fullest: by edge, the most packets that took room at once.
    """

    results: tuple[tuple[NDArray[np.int64], ...], ...]
    starts: tuple[TickArray, ...]
    finish_ticks: TickArray
    fullest: tuple[int, ...]

    @property
    def outputs(self) -> tuple[NDArray[np.int64], ...]:
        """By image, the first output."""
        return tuple(found[0] for found in self.results)


@dataclass(frozen=True)
class ScheduleParameters:
    """What the schedule depends on. All by stage or by edge, in the pipeline's order.

    ticks: of an iteration; 1 by default. delays: further ticks from an iteration's end until its packet is there; 0 by
    default, -1 where it is there in the iteration's last tick already. capacities: packets of a buffer; 0 (the default)
    is unbounded. pace_ticks: in which GMEM sends an image; 0: it is there at once. cores: one each by default; of the stages
    of one that may start, the one with the earliest image does, of those the one of the highest number.
    """

    ticks: tuple[int, ...] | None = None
    delays: tuple[int, ...] | None = None
    capacities: tuple[int, ...] | None = None
    pace_ticks: int = 0
    cores: tuple[int, ...] | None = None


def run(
    lowered: LoweredNetwork,
    images: Sequence[NDArray[np.int64]],
    machine: ScheduleParameters = ScheduleParameters(),
    noise: Noise | None = None,
) -> Execution:
    """As soon as possible. StallError when finite buffers stop everything; DataHazardError when they lose data."""
    return _ExecutionState(lowered, images, machine, noise).run(None)


def replay(
    lowered: LoweredNetwork,
    images: Sequence[NDArray[np.int64]],
    starts: Sequence[TickArray],
    machine: ScheduleParameters = ScheduleParameters(),
    noise: Noise | None = None,
    seen: Seen | None = None,
) -> Execution:
    """In the order of `starts` (by stage: ticks of the iterations, image after image; results of those that it lacks are 0).

    seen: told of each packet as it is computed.
    DataHazardError for an iteration whose data are not there, are gone, or that its control unit does not allow yet.
    """
    return _ExecutionState(lowered, images, machine, noise, seen).run(starts)


def _buffers(lowered: LoweredNetwork, capacities: Sequence[int], images: int) -> list[CircularBuffer]:
    """One an edge; edges that read alike have the same state machine."""
    machines = {reading: state_machine(reading) for reading in dict.fromkeys(lowered.readings)}
    return [
        CircularBuffer(edge, reading, machines[reading], capacity, images)
        for edge, reading, capacity in zip(lowered.pipeline.edges, lowered.readings, capacities, strict=True)
    ]


def _iteration_orders(lowered: LoweredNetwork) -> list[list[int]]:
    """In which order each stage's loop nest visits the pixels of its rectangle."""
    rectangles = [program.rectangle for program in lowered.programs]
    orders = {r: [r.rank(*pixel) for pixel in loop_nest(r)[1]()] for r in dict.fromkeys(rectangles)}
    return [orders[r] for r in rectangles]


class _ExecutionState:
    def __init__(
        self,
        lowered: LoweredNetwork,
        images: Sequence[NDArray[np.int64]],
        machine: ScheduleParameters,
        noise: Noise | None,
        seen: Seen | None = None,
    ) -> None:
        pipeline = lowered.pipeline
        self.lowered, self.pipeline, self.seen = lowered, pipeline, seen
        self.count = len(images)
        graph = lowered.network.graph
        channels = graph.shapes[graph.input][0]
        shaped = [np.asarray(image, np.int64).reshape(graph.shapes[graph.input]) for image in images]
        if lowered.by_columns:
            shaped = [image.transpose(0, 2, 1) for image in shaped]
        self.pixels = [image.reshape(channels, -1).T for image in shaped]
        self.ticks = machine.ticks or (1,) * len(pipeline.stages)
        self.delays = machine.delays or (0,) * len(pipeline.edges)
        self.pace_ticks = machine.pace_ticks
        capacities = machine.capacities or (0,) * len(pipeline.edges)
        self.buffers = _buffers(lowered, capacities, self.count)
        every = dict(enumerate(self.buffers))
        self.stages = [
            StageExecutor(stage.name, program, every, noise)
            for stage, program in zip(pipeline.stages, lowered.programs, strict=True)
        ]
        self.into: list[list[int]] = [[] for _ in pipeline.stages]
        self.out_of: list[list[int]] = [[] for _ in pipeline.stages]
        for number, edge in enumerate(pipeline.edges):
            self.into[edge.reader].append(number)
            if edge.writer != GMEM:
                self.out_of[edge.writer].append(number)
        self.from_gmem = [n for n, edge in enumerate(pipeline.edges) if edge.writer == GMEM]
        self.sent_pixels = dict.fromkeys(self.from_gmem, 0)
        self.orders = _iteration_orders(lowered)
        self.next = [0] * len(pipeline.stages)
        self.core = machine.cores or range(len(pipeline.stages))
        self.on_core = stages_by_core(self.core)
        self.free_at = dict.fromkeys(self.core, 0)
        self.starts = [np.zeros(self.count * stage.iterations, dtype=np.int64) for stage in pipeline.stages]
        self.results = {
            stage: np.zeros(
                (self.count, pipeline.stages[stage].iterations, pipeline.stages[stage].output_elements), np.int64
            )
            for stage in pipeline.outputs
        }
        self.finish = np.zeros(self.count, dtype=np.int64)
        self.events: list[tuple[int, int, int, int, IntVector | None]] = []
        self.wakes: set[int] = {0}

    def run(self, starts: Sequence[TickArray] | None) -> Execution:
        heapq.heappush(self.events, (0, WAKE, 0, 0, None))
        if starts is not None:
            for stage, ticks in enumerate(starts):
                for tick in np.unique(ticks[: self.count * self.pipeline.stages[stage].iterations]):
                    heapq.heappush(self.events, (int(tick), GIVEN_START, stage, 0, None))
        while self.events:
            tick = self.events[0][0]
            touched = self._happen(tick)
            touched |= self._gmem(tick)
            if starts is None:
                # Of the stages of a core the one with the earliest image, of those the last one.
                for stage in sorted(touched, key=lambda stage: (self._image_at(stage), -stage)):
                    if self.free_at[self.core[stage]] <= tick and self._may_start(stage):
                        self._start(stage, tick)
            else:
                for stage in sorted(touched):
                    if self.next[stage] < len(starts[stage]) and starts[stage][self.next[stage]] == tick:
                        self._forced(stage, tick)
        self._complete(self.starts if starts is None else starts)
        outputs = self.lowered.network.graph.outputs
        results = tuple(tuple(self._output(image, output) for output in outputs) for image in range(self.count))
        fullest = tuple(buffer.fullest for buffer in self.buffers)
        return Execution(results, tuple(self.starts), self.finish, fullest)

    def _image_at(self, stage: int) -> int:
        """The image of a stage's next iteration."""
        return self.next[stage] // self.pipeline.stages[stage].iterations

    def _happen(self, tick: int) -> set[int]:
        """Arrivals and ends of iterations; the stages that these may set going."""
        touched: set[int] = set()
        while self.events and self.events[0][0] == tick:
            _, kind, subject, iteration, packet = heapq.heappop(self.events)
            if kind == ARRIVAL and packet is not None:
                self.buffers[subject].write(iteration, packet)
                touched.add(self.pipeline.edges[subject].reader)
            elif kind == END:
                for number in self.into[subject]:
                    self.buffers[number].finish(iteration)
                    writer = self.pipeline.edges[number].writer
                    touched |= {writer} if writer != GMEM else set()
                touched |= set(self.on_core[self.core[subject]])
            elif kind == GIVEN_START:
                touched.add(subject)
            else:
                touched |= set(range(len(self.stages)))
        return touched

    def _gmem(self, tick: int) -> set[int]:
        touched = set()
        pixels = self.pipeline.input_iterations
        for number in self.from_gmem:
            buffer = self.buffers[number]
            position = self.sent_pixels[number]
            while position < self.count * pixels:
                due = position * self.pace_ticks // pixels
                if due > tick:
                    if due not in self.wakes:
                        self.wakes.add(due)
                        heapq.heappush(self.events, (due, WAKE, 0, 0, None))
                    break
                image, pixel = divmod(position, pixels)
                if buffer.sent[pixel]:
                    if not buffer.has_room():
                        break
                    buffer.issue()
                    buffer.write(position, self.pixels[image][pixel][self.lowered.elements[number]])
                    touched.add(self.pipeline.edges[number].reader)
                position += 1
            self.sent_pixels[number] = position
        return touched

    def _may_start(self, stage: int) -> bool:
        number = self.next[stage]
        if number == len(self.starts[stage]):
            return False
        if any(self.buffers[edge].limit <= number for edge in self.into[stage]):
            return False
        j = number % self.pipeline.stages[stage].iterations
        return all(not self.buffers[e].sent[j] or self.buffers[e].has_room() for e in self.out_of[stage])

    def _forced(self, stage: int, tick: int) -> None:
        number, name = self.next[stage], self.pipeline.stages[stage].name
        image, j = divmod(number, self.pipeline.stages[stage].iterations)
        for edge in self.into[stage]:
            limit = self.buffers[edge].limit
            if limit <= number:
                problem = f"started at tick {tick}, but the control unit allows {limit} iterations, not {number + 1}"
                raise DataHazardError(name, image, j, 0, problem)
        self._start(stage, tick)

    def _start(self, stage: int, tick: int) -> None:
        number = self.next[stage]
        iterations = self.pipeline.stages[stage].iterations
        image, j = divmod(number, iterations)
        rank = self.orders[stage][j]
        packet = self.stages[stage].run(image, rank)
        if self.seen is not None:
            self.seen(stage, image, rank, packet)
        self.next[stage] += 1
        self.starts[stage][number] = tick
        end = tick + self.ticks[stage]
        self.free_at[self.core[stage]] = end
        heapq.heappush(self.events, (end, END, stage, number, None))
        for edge in self.out_of[stage]:
            buffer = self.buffers[edge]
            if buffer.sent[j]:
                buffer.issue()
                arrival = end + self.delays[edge]
                heapq.heappush(self.events, (arrival, ARRIVAL, edge, number, packet[self.lowered.elements[edge]]))
        if stage in self.results:
            self.results[stage][image, rank] = packet
            self.finish[image] = max(self.finish[image], end)

    def _complete(self, wanted: Sequence[TickArray]) -> None:
        for stage, done in enumerate(self.next):
            if done < min(len(wanted[stage]), len(self.starts[stage])):
                raise StallError(self._why(stage))

    def _why(self, stage: int) -> str:
        number = self.next[stage]
        image, j = divmod(number, self.pipeline.stages[stage].iterations)
        reasons = []
        for edge in self.into[stage]:
            if self.buffers[edge].limit <= number:
                reasons.append(f"waits for {self._name(self.pipeline.edges[edge].writer)}")
        for edge in self.out_of[stage]:
            buffer = self.buffers[edge]
            if buffer.sent[j] and not buffer.has_room():
                reader = self.pipeline.stages[self.pipeline.edges[edge].reader].name
                reasons.append(f"finds no room in {reader}'s buffer of {buffer.capacity} packets")
        why = " and ".join(reasons) or "was not started"
        return f"{self.pipeline.stages[stage].name} stopped at image {image}, iteration {j}: it {why}."

    def _name(self, stage: int) -> str:
        return "GMEM" if stage == GMEM else self.pipeline.stages[stage].name

    def _output(self, image: int, output: GraphOutput) -> NDArray[np.int64]:
        network = self.lowered.network
        result = np.zeros(network.graph.shapes[output.tensor], dtype=np.int64)
        for segment in network.segments[output.tensor]:
            owner = network.partition_of[segment.tensor]
            for stage in self.pipeline.outputs:
                program = self.lowered.programs[stage]
                if program.partition.number != owner:
                    continue
                first, last = program.channels
                mine = np.flatnonzero((segment.channels >= first) & (segment.channels < last))
                offset = program.exports.index(segment.tensor) * (last - first) - first
                r = program.rectangle
                values = self.results[stage][image][:, segment.channels[mine] + offset].T
                result[segment.first + mine, r.top : r.bottom, r.left : r.right] = values.reshape(
                    -1, r.bottom - r.top, r.width
                )
        return output.as_file(result)
