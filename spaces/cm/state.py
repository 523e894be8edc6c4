"""Partial mappings: first all replications, then the cores, then the routes, then the buffers."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kilotune.codegen.cm.mapping import node_of
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.routing import UNREACHABLE
from kilotune.evaluators.cm.bound import core_ticks, link_loads, link_ticks
from kilotune.search.space import Assignment, Decision, Option, answered
from kilotune.spaces.cm.buffers import BUFFER_OPTIONS
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.lowered import LoweredPipeline, cores_needed, least_cores, least_ticks
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.sharing import packed


class CmState:
    """The answers so far. A placement of all stages is always left: where they may share cores, one is known."""

    def __init__(
        self, space: CmCandidates, answers: tuple[tuple[str, Option], ...] = (), before: CmState | None = None
    ) -> None:
        self.space, self._answers = space, answers
        layers = len(space.shapes)
        if before is not None and len(answers) > layers:
            self._lowered = before._lowered
            if len(answers) > layers + len(self._lowered.pipeline.stages):
                self._cores = before._cores
            elif self._shared:
                agrees = before._left[len(answers) - layers - 1] == answers[-1][1]
                self._left = before._left if agrees else self._packed() or before._left

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
        space = self.space
        return space.objective_bound(self._least_ticks(), least_cores(space.costs, self._replicas(), space.cores))

    def _replicas(self) -> dict[str, Replication]:
        """Those that are decided."""
        shapes = self.space.shapes
        return {s.name: Replication.of(option) for s, (_, option) in zip(shapes, self._answers, strict=False)}

    def _least_ticks(self) -> float:
        """Ticks per image of the replications, then of the busiest core, and of the links as far as routes are known."""
        layers = len(self.space.shapes)
        alone = least_ticks(self.space.costs, self.space.cores, self._replicas())
        ticks = max(alone, self.space.least_ticks)
        if len(self._answers) < layers:
            return ticks
        lowered = self._lowered
        routed = self._answers[layers + len(lowered.pipeline.stages) :][: len(lowered.streams)]
        ticks = max(ticks, lowered.compute_ticks)
        if self._cores:
            ticks = max(ticks, core_ticks(lowered.image_ticks[: len(self._cores)], self._cores))
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
        space, shape, decided = self.space, self.space.shapes[layer], self._replicas()
        fitting = [
            r.option
            for r in shape.replications()
            if cores_needed(space.costs, {**decided, shape.name: r}, space.cores) <= space.hardware.cores
        ]
        return Decision(f"replicas {shape.name}", tuple(fitting))

    def _core(self, stage: int) -> Decision:
        """The cores with room, those first that are near to what the stage talks with."""
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
        taken, order = set(self._cores), np.argsort(cost, kind="stable").tolist()
        free = [core for core in order if (self._is_open(core) if self._shared else core not in taken)]
        return Decision(f"core {lowered.pipeline.stages[stage].name}", tuple(free))

    @property
    def _shared(self) -> bool:
        return self.space.hardware.stages_per_core > 1

    def _packed(self, *more: int) -> tuple[int, ...] | None:
        """A placement of all stages with the next ones on these cores, if there is one that is soon found."""
        return packed(self.space.hardware, self._lowered.needs, (*self._cores, *more))

    @cached_property
    def _left(self) -> tuple[int, ...]:
        """A placement of all stages with those that are decided where they are."""
        found = self._packed()
        assert found is not None  # only replications for which there is one are offered
        return found

    def _is_open(self, core: int) -> bool:
        """Whether the next stage may come to a core. A stage alone may exceed nothing but memory, which is measured."""
        return core == self._left[len(self._cores)] or self._packed(core) is not None

    def _route(self, number: int) -> Decision:
        name = self._lowered.route_names[number]
        return Decision(name, tuple(range(len(self._alternatives(number)))))

    def _alternatives(self, number: int) -> tuple[tuple[int, ...], ...]:
        stream, hardware = self._lowered.streams[number], self.space.hardware
        ends = (node_of(hardware, self._cores, end) for end in (stream.writer, stream.reader))
        return self.space.alternatives(*ends)
