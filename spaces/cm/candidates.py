"""What a candidate of the mapping problem means and measures: replications, cores, routes and buffers on one accelerator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import Mapping as CoreMapping
from kilotune.codegen.cm.mapping import check_mapping, core_sram_bytes, node_of
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.routing import RouteTables, route_tables
from kilotune.codegen.counts import counted
from kilotune.evaluators.cm.bound import core_ticks
from kilotune.evaluators.cm.energy import energy_nj, image_counts
from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import (
    Assignment,
    Constraint,
    Measurement,
    Objective,
    Option,
)
from kilotune.search.work_memory import NoMemory, WorkMemory
from kilotune.spaces.cm.buffers import AS_HELD, BUFFER_OPTIONS, buffer_capacities
from kilotune.spaces.cm.lowered import LayerCost, LoweredPipeline, cores_needed, layer_costs, least_cores, least_ticks
from kilotune.spaces.cm.mapped_streams import MappedStreams
from kilotune.spaces.cm.network import PartitionedNetwork
from kilotune.spaces.cm.pacing import layer_flows
from kilotune.spaces.cm.replication import CHAINED, Replication
from kilotune.spaces.cm.seams import port_ticks
from kilotune.spaces.cm.sharing import Cores
from kilotune.spaces.cm.whole_streams import LayerStream, layer_streams, whole_stream_ticks

SEMANTICS = 1
"""Version of what a mapping means and how its ticks are counted; part of the fingerprint."""

LOWERED_KEPT = 32

OBJECTIVES: Mapping[str, str] = MappingProxyType(
    {"ticks": "ticks_per_image", "latency": "latency_ticks", "energy": "energy_nj", "cores": "cores"}
)
"""Metrics that may lead, by the name of the objective. Those of `TIES` break its ties, in this order."""

TIES = ("ticks_per_image", "latency_ticks", "cores", "sram_bytes")


class CmCandidates(MappedStreams):
    """Mappings of a network. ValueError, a sentence with what is short by how much, when it does not fit, and for the objective
    energy where the hardware says nothing of it."""

    def __init__(
        self, network: PartitionedNetwork, hardware: Hardware, strict: bool = False, objective: str = "ticks"
    ) -> None:
        if objective == "energy" and hardware.energy is None:
            raise ValueError(f"--objective energy: {hardware.name} has no table of energies.")
        super().__init__(hardware)
        self.network, self.strict, self.objective = network, strict, objective
        self.work_memory: WorkMemory = NoMemory()
        self.cores = Cores.of(hardware)
        plain = network.lower({})
        self.shapes = network.shapes(plain.pipeline)
        once = LoweredPipeline.of(plain.pipeline, hardware)
        self._lowered: dict[tuple[Replication, ...], LoweredPipeline] = {(Replication(),) * len(self.shapes): once}
        self._alternatives: dict[tuple[int, int], tuple[tuple[int, ...], ...]] = {}
        chained = self.lowered({shape.name: CHAINED for shape in self.shapes if shape.row_blocks > 2})
        self.costs: tuple[LayerCost, ...] = layer_costs(
            once, chained, self.shapes, hardware, port_ticks(plain, once.streams, self.shapes, hardware)
        )
        self.flows = layer_flows(once, hardware)
        self.layer_streams = layer_streams(plain, once.streams, self.shapes, hardware)
        needed = cores_needed(self.costs, {}, self.cores)
        if needed > hardware.cores:
            raise ValueError(
                f"{network.name} needs {counted(needed, 'core')} and {hardware.name} has {hardware.cores}: "
                f"{needed - hardware.cores} too few."
            )
        self._check_sram(once)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the pipeline, the replications that there are, the hardware, and the question."""
        once = self.lowered({})
        streams = [(s.writer, s.reader, s.elements, s.sends, s.needed, s.released) for s in once.streams]
        accelerator = replace(self.hardware, name="")
        content: list[object] = [accelerator, self.shapes, once.pipeline.stages, streams, self.strict]
        if accelerator.charges_bits or accelerator.energy is not None:
            bits = [(s.output_bits, s.input_bits, s.read_bits) for s in once.pipeline.stages]
            content += [bits, [(s.load, s.cell_bits) for s in once.streams]]
        if accelerator.energy is not None and accelerator.input_bits_per_tick:
            content.append("cells count once a piece")
        if accelerator.energy is not None and accelerator.stages_per_core > 1:
            content.append("shared cores count once")
        if self.objective != "ticks":
            content.append(self.objective)
        return fingerprint("cm", SEMANTICS, *content)

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """By default throughput leads; latency, cores and memory break its ties."""
        return tuple(map(Objective, dict.fromkeys((OBJECTIVES[self.objective], *TIES))))

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """No core's buffers exceed its SRAM; with `strict`, linked stages are on linked cores."""
        memory = Constraint("core_sram_bytes", float(self.hardware.sram_bytes))
        return (memory, Constraint("longest_route_links", 1.0)) if self.strict else (memory,)

    @cached_property
    def least_ticks(self) -> int:
        """Ticks per image that no candidate beats."""
        return self.least_ticks_of(self.costs, self.layer_streams)

    def least_ticks_of(self, costs: tuple[LayerCost, ...], layer_streams: Sequence[LayerStream]) -> int:
        """Ticks per image that no candidate beats whose layers and streams cost this: see `least_ticks` and `whole_stream_ticks`, and every
        element takes at least one link, but for those between stages that may share a core."""
        total = sum(cost.link_load for cost in costs)
        together = sum(link.width for link in self.hardware.links)
        alone = math.ceil(least_ticks(costs, self.cores))
        least = max(alone, -(-total // together), self._port_ticks(costs))
        return whole_stream_ticks(costs, layer_streams, self.hardware.cores, least)

    def objective_bound(self, ticks: float, cores: int) -> float:
        """What no candidate of at least so many ticks per image and cores beats in the leading objective: one image as well takes
        every core and link as long as it keeps them busy. Nothing is known of energy."""
        return {"ticks": ticks, "latency": ticks - 1, "cores": float(cores), "energy": 0.0}[self.objective]

    @property
    def least_objective(self) -> float:
        """The leading objective's bound for all candidates."""
        return self.objective_bound(self.least_ticks, least_cores(self.costs, {}, self.cores))

    def _port_ticks(self, costs: Sequence[LayerCost]) -> int:
        """Ticks per image of the ports of GMEM, if streams shared them evenly. Replicas need all of the image as well."""
        links, gmem = self.hardware.links, self.hardware.gmem
        into = sum(cost.gmem_loads[0] for cost in costs), sum(k.width for k in links if k.source == gmem)
        out = sum(cost.gmem_loads[1] for cost in costs), sum(k.width for k in links if k.target == gmem)
        return max(-(-load // width) for load, width in (into, out))

    @cached_property
    def tables(self) -> RouteTables:
        """The routes of the hardware."""
        return route_tables(self.hardware)

    def alternatives(self, start: int, goal: int) -> tuple[tuple[int, ...], ...]:
        """The routes between two nodes, as the options of a decision number them."""
        found = self._alternatives.get((start, goal))
        if found is None:
            found = self._alternatives[start, goal] = self.tables.alternatives(start, goal)
        return found

    def _route(self, start: int, goal: int, number: int) -> tuple[int, ...]:
        """The alternative of that number, the last one where there are fewer. The first one is known without the others, and without the
        tables of detours: on a large accelerator they take longer than all else that stages in snake order need."""
        if number == 0:
            return self.tables.route(start, goal, 0)
        found = self.alternatives(start, goal)
        return found[min(number, len(found) - 1)]

    def _route_number(self, start: int, goal: int, shape: int) -> int:
        """Which alternative the route of a shape is."""
        if shape == 0:
            return 0
        return self.alternatives(start, goal).index(self.tables.route(start, goal, shape))

    def lowered(self, replicas: Mapping[str, Replication]) -> LoweredPipeline:
        """The pipeline with that replication; the last few are kept."""
        key = tuple(replicas.get(shape.name, Replication()) for shape in self.shapes)
        found = self._lowered.pop(key, None)
        if found is None:
            chosen = {shape.name: r for shape, r in zip(self.shapes, key, strict=True)}
            found = LoweredPipeline.of(self.network.pipeline(chosen), self.hardware)
            while len(self._lowered) >= LOWERED_KEPT:
                del self._lowered[next(iter(self._lowered))]
        self._lowered[key] = found
        return found

    def replicas(self, assignment: Assignment) -> dict[str, Replication]:
        """By layer."""
        return {shape.name: Replication.of(assignment[f"replicas {shape.name}"]) for shape in self.shapes}

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a candidate, which may be in any order, in the order in which they were asked: a walk that asks for each of them
        anew looks at all replications and cores that there are. KeyError where one is missing, ValueError for what is no answer."""
        lowered, layers = self.lowered(self.replicas(answers)), [shape.name for shape in self.shapes]
        buffers = [f"buffer {layer}" for layer in layers]
        below = {
            **{f"core {stage.name}": self.hardware.cores for stage in lowered.pipeline.stages},
            **dict.fromkeys(lowered.route_names, math.inf),  # beyond the last alternative: that one
        }
        for name in (*below, *buffers):
            answer = answers[name]
            is_number = type(answer) is int and 0 <= answer < below.get(name, 0)
            is_option = is_number if name in below else answer in BUFFER_OPTIONS
            if not is_option:
                raise ValueError(f"{name} is {answer!r}, which is none of its options.")
        return {name: answers[name] for name in (*(f"replicas {layer}" for layer in layers), *below, *buffers)}

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics as `measure` names them."""
        return [self.measure(assignment) for assignment in batch]

    def mapping(self, assignment: Assignment) -> CoreMapping:
        """Cores, routes and capacities of a candidate."""
        lowered = self.lowered(self.replicas(assignment))
        cores, routes = self._placed(lowered, assignment)
        rooms = {shape.name: assignment[f"buffer {shape.name}"] for shape in self.shapes}
        return CoreMapping(cores, routes, self.capacities(lowered, cores, routes, rooms))

    def capacities(
        self,
        lowered: LoweredPipeline,
        cores: tuple[int, ...],
        routes: tuple[tuple[int, ...], ...],
        rooms: Mapping[str, Option],
    ) -> tuple[int, ...]:
        """Packets by stream, with the options of the buffer decisions by layer: see `buffer_capacities`."""
        held = self.held(lowered, cores, routes) if AS_HELD in rooms.values() else ()
        occupied = self._known_of(lowered, cores, routes).occupied
        return buffer_capacities(lowered, cores, occupied, self.hardware, rooms, held)

    def _placed(
        self, lowered: LoweredPipeline, assignment: Assignment
    ) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """Cores by stage, routes by stream."""
        cores = tuple(int(assignment[f"core {stage.name}"]) for stage in lowered.pipeline.stages)
        routes = []
        for number, stream in enumerate(lowered.streams):
            start, goal = (node_of(self.hardware, cores, end) for end in (stream.writer, stream.reader))
            routes.append(self._route(start, goal, int(assignment[lowered.route_names[number]])))
        return cores, tuple(routes)

    def measure(self, assignment: Assignment) -> Measurement:
        """ticks_per_image and latency_ticks as simulated with contention and the chosen buffers; compute_ticks and
        link_ticks, whose larger one no schedule beats; cores; sram_bytes, core_sram_bytes; longest_route_links; energy_nj and
        image_us, from one image to the next, where the hardware says what things cost and how long a tick is."""
        try:
            lowered = self.lowered(self.replicas(assignment))
            mapping = self.mapping(assignment)
            promised = self.promised_ticks(lowered, mapping)
            timing, ticks = self.steady_timing(lowered, mapping)
        except ValueError as error:
            return Measurement(failure=str(error))
        if timing.deadlock is not None:
            return Measurement(failure=timing.deadlock.sentence)
        used = core_sram_bytes(lowered.streams, mapping)
        lengths = [
            len(route)
            for stream, route in zip(lowered.streams, mapping.routes, strict=True)
            if GMEM not in (stream.writer, stream.reader)
        ]
        energy = self.energy_nj(lowered, mapping, ticks)
        return Measurement(
            {
                **({} if energy is None else {"energy_nj": sum(energy.values())}),
                **({"image_us": ticks * self.hardware.tick_ns / 1000} if self.hardware.tick_ns else {}),
                "ticks_per_image": ticks,
                "latency_ticks": float(timing.finish_ticks[0]),
                "cores": float(len(used)),
                "sram_bytes": float(sum(used.values())),
                "core_sram_bytes": float(max(used.values(), default=0)),
                "promised_ticks": float(promised),
                "compute_ticks": float(core_ticks(lowered.image_ticks, mapping.cores)),
                "longest_route_links": float(max(lengths, default=0)),
            }
        )

    def energy_nj(self, lowered: LoweredPipeline, mapping: CoreMapping, ticks: float) -> dict[str, float] | None:
        """An image's energy by component; None where the hardware file has no table."""
        if self.hardware.energy is None:
            return None
        counts = image_counts(lowered.pipeline, lowered.streams, mapping, ticks, self.hardware)
        return energy_nj(self.hardware.energy, counts)

    def check(self, assignment: Assignment) -> None:
        """ValueError when the accelerator could not run the candidate; see `check_mapping`."""
        lowered = self.lowered(self.replicas(assignment))
        check_mapping(lowered.pipeline, lowered.streams, self.hardware, self.mapping(assignment))

    def candidate(
        self,
        replicas: Mapping[str, Replication],
        cores: Sequence[int],
        shapes: Sequence[int] | None = None,
        buffer: Option = BUFFER_OPTIONS[0],
    ) -> dict[str, Option]:
        """The assignment of a placement. shapes: of the routes, as `RouteTables.route` numbers them; None: the first."""
        lowered = self.lowered(replicas)
        answers: dict[str, Option] = {
            f"replicas {s.name}": replicas.get(s.name, Replication()).option for s in self.shapes
        }
        for stage, core in zip(lowered.pipeline.stages, cores, strict=True):
            answers[f"core {stage.name}"] = int(core)
        for number, stream in enumerate(lowered.streams):
            start, goal = (node_of(self.hardware, cores, end) for end in (stream.writer, stream.reader))
            way = 0 if shapes is None else shapes[number]
            answers[lowered.route_names[number]] = self._route_number(start, goal, way)
        for shape in self.shapes:
            answers[f"buffer {shape.name}"] = buffer
        return answers

    def __getstate__(self) -> dict[str, Any]:
        # workers lower again what they need
        return {**self.__dict__, "_lowered": {}, "_known": None, "work_memory": NoMemory()}

    def _check_sram(self, once: LoweredPipeline) -> None:
        """ValueError when a stage's least buffers exceed a core's SRAM, and cutting its layer up does not help."""
        used = once.least_sram_bytes
        for stage, most in enumerate(used):
            layer = once.pipeline.stages[stage].layer
            if most <= self.hardware.sram_bytes:
                continue
            cost = next(c for c in self.costs if c.shape.name == layer)
            options = cost.shape.replications()
            cuts = [r for r in options if cores_needed(self.costs, {layer: r}, self.cores) <= self.hardware.cores]
            finest = max(cuts, key=lambda r: (r.axis == "columns", r.count))
            cut = self.lowered({layer: finest})
            sizes = zip(cut.pipeline.stages, cut.least_sram_bytes, strict=True)
            least = max(size for s, size in sizes if s.layer == layer)
            if least > self.hardware.sram_bytes:
                raise ValueError(
                    f"The least buffers of {once.pipeline.stages[stage].name} take {min(least, most)} bytes and a core of "
                    f"{self.hardware.name} has {self.hardware.sram_bytes}: {min(least, most) - self.hardware.sram_bytes} too few."
                )
