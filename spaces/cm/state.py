"""Partial mappings: first all replications, then the cores, then the routes, then the buffers."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kilotune.codegen.cm.mapping import node_of
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.routing import UNREACHABLE
from kilotune.evaluators.cm.bound import link_loads, link_ticks
from kilotune.search.space import Assignment, Decision, Option, answered
from kilotune.spaces.cm.buffers import BUFFER_OPTIONS
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.lowered import LoweredPipeline, cores_needed, least_ticks
from kilotune.spaces.cm.replication import Replication


class CmState:
    """The answers so far. Cores are taken once: a placement of all stages is always left."""

    def __init__(
        self, space: CmCandidates, answers: tuple[tuple[str, Option], ...] = (), before: CmState | None = None
    ) -> None:
        self.space, self._answers = space, answers
        layers = len(space.shapes)
        if before is not None and len(answers) > layers:
            self._lowered = before._lowered
            if len(answers) > layers + len(self._lowered.pipeline.stages):
                self._cores = before._cores

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        return dict(self._answers)

    @cached_property
    def decision(self) -> Decision | None:
        """The next replication, core, route or buffer."""
        layers, answered = len(self.space.shapes), len(self._answers)
        if answered < layers:
            return self._replication(answered)
        lowered = self._lowered
        stages, streams = len(lowered.pipeline.stages), len(lowered.streams)
        if answered < layers + stages:
            return self._core(answered - layers)
        if answered < layers + stages + streams:
            return self._route(answered - layers - stages)
        if answered < 2 * layers + stages + streams:
            name = self.space.shapes[answered - layers - stages - streams].name
            return Decision(f"buffer {name}", BUFFER_OPTIONS)
        return None

    def take(self, option: Option) -> CmState:
        """Answer the next decision."""
        decision = answered(self.decision, option)
        return CmState(self.space, (*self._answers, (decision.name, option)), self)

    def bound(self) -> float:
        """The leading objective cannot be less, by the least ticks and cores of what is decided."""
        return self.space.objective_bound(self._least_ticks(), cores_needed(self.space.costs, self._replicas()))

    def _replicas(self) -> dict[str, Replication]:
        """Those that are decided."""
        shapes = self.space.shapes
        return {s.name: Replication.of(option) for s, (_, option) in zip(shapes, self._answers, strict=False)}

    def _least_ticks(self) -> float:
        """Ticks per image of the replications, then of the busiest core, and of the links as far as routes are known."""
        layers = len(self.space.shapes)
        alone = least_ticks(self.space.costs, self.space.hardware.cores, self._replicas())
        ticks = max(alone, self.space.least_ticks)
        if len(self._answers) < layers:
            return ticks
        lowered = self._lowered
        routed = self._answers[layers + len(lowered.pipeline.stages) :][: len(lowered.streams)]
        ticks = max(ticks, lowered.compute_ticks)
        if not routed:
            return float(ticks)
        routes = []
        for number, (_, option) in enumerate(routed):
            routes.append(self._alternatives(number)[int(option)])
        streams = lowered.streams[: len(routes)]
        return float(
            max(ticks, link_ticks(link_loads(streams, routes, self.space.hardware.links), self.space.hardware.links))
        )

    @cached_property
    def _lowered(self) -> LoweredPipeline:
        shapes = self.space.shapes
        chosen = self._answers[: len(shapes)]
        return self.space.lowered({s.name: Replication.of(o) for s, (_, o) in zip(shapes, chosen, strict=True)})

    @cached_property
    def _cores(self) -> list[int]:
        layers = len(self.space.shapes)
        return [int(option) for _, option in self._answers[layers : layers + len(self._lowered.pipeline.stages)]]

    def _replication(self, layer: int) -> Decision:
        """What leaves a core for every stage of the layers that are still open."""
        shapes = self.space.shapes
        taken = sum(s.cores * Replication.of(o).count for s, (_, o) in zip(shapes, self._answers, strict=False))
        others = sum(shape.cores for shape in shapes[layer + 1 :])
        left = self.space.hardware.cores - taken - others
        fitting = [r.option for r in shapes[layer].replications() if r.count * shapes[layer].cores <= left]
        return Decision(f"replicas {shapes[layer].name}", tuple(fitting))

    def _core(self, stage: int) -> Decision:
        """The free cores, those first that are near to what the stage talks with."""
        lowered, hardware = self._lowered, self.space.hardware
        distance = self.space.tables.distance
        cost = np.zeros(hardware.cores)
        for number in lowered.touching[stage]:
            stream = lowered.streams[number]
            other = stream.reader if stream.writer == stage else stream.writer
            if other != GMEM and other >= len(self._cores):
                continue
            node = node_of(hardware, self._cores, other)
            links = distance[: hardware.cores, node] if stream.writer == stage else distance[node, : hardware.cores]
            cost += stream.image_load * np.minimum(links, UNREACHABLE).astype(float)
        taken = set(self._cores)
        free = [core for core in np.argsort(cost, kind="stable").tolist() if core not in taken]
        return Decision(f"core {lowered.pipeline.stages[stage].name}", tuple(free))

    def _route(self, number: int) -> Decision:
        name = self._lowered.route_names[number]
        return Decision(name, tuple(range(len(self._alternatives(number)))))

    def _alternatives(self, number: int) -> tuple[tuple[int, ...], ...]:
        stream, hardware = self._lowered.streams[number], self.space.hardware
        ends = (node_of(hardware, self._cores, end) for end in (stream.writer, stream.reader))
        return self.space.alternatives(*ends)
