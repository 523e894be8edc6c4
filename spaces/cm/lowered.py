"""A network lowered for one replication, with what its mapping is judged by."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import sram_bytes
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.replicas import CHANNELS
from kilotune.codegen.cm.streams import Stream, stream_name, streams_of, touching
from kilotune.evaluators.cm.occupancy import occupancies
from kilotune.spaces.cm.replication import ONCE, LayerShape, Replication
from kilotune.spaces.cm.seams import PortTicks
from kilotune.spaces.cm.sharing import Cores, StageNeeds


@dataclass(frozen=True, eq=False)
class LoweredPipeline:
    """touching: numbers of the streams that a stage writes or reads, by stage. ticks: of an iteration, by stage. image_ticks: per image,
    by stage. rows: of crossbars, by stage. cores, stages_per_core: of the accelerator."""

    pipeline: Pipeline
    streams: tuple[Stream, ...]
    ticks: tuple[int, ...]
    touching: tuple[tuple[int, ...], ...]
    image_ticks: tuple[int, ...]
    rows: tuple[int, ...]
    cores: int
    stages_per_core: int

    @cached_property
    def compute_ticks(self) -> int:
        """Per image, of the slowest stage."""
        return max(self.image_ticks)

    @cached_property
    def route_names(self) -> tuple[str, ...]:
        """The decisions about the streams' routes."""
        return tuple(f"route {k} {stream_name(self.pipeline, stream)}" for k, stream in enumerate(self.streams))

    @cached_property
    def may_be_held_up(self) -> frozenset[int]:
        """Streams of partial sums whose writers run ahead of the block that adds them up, and may as well be held up, for it always
        waits for them and never they for it. Not so where it reads a later layer than they do, as of a concatenation: what
        they hold up in turn is what that layer waits for."""
        stages = self.pipeline.stages
        order = {layer: number for number, layer in enumerate(dict.fromkeys(stage.layer for stage in stages))}
        last_read = [-1] * len(stages)
        inner = []
        for number, stream in enumerate(self.streams):
            if GMEM in (stream.writer, stream.reader):
                continue
            writer, reader = stages[stream.writer].layer, stages[stream.reader].layer
            if writer == reader:
                inner.append(number)
            else:
                last_read[stream.reader] = max(last_read[stream.reader], order[writer])
        ends = ((number, self.streams[number]) for number in inner)
        return frozenset(n for n, stream in ends if last_read[stream.reader] <= last_read[stream.writer])

    @cached_property
    def least_sram_bytes(self) -> list[int]:
        """By stage, with every buffer as small as its own reader allows."""
        least = [s.minimum_capacity or 1 for s in self.streams]
        return sram_bytes(self.streams, least, len(self.pipeline.stages))

    @cached_property
    def needs(self) -> StageNeeds:
        """What stages that share cores ask of them; of the memory what buffers hold when nothing is in the way, at the pace at which all
        cores would be busy all the time."""
        held = [0] * len(self.rows)
        if self.stages_per_core > 1:
            pace = max(self.compute_ticks, -(-sum(self.image_ticks) // self.cores))
            packets = occupancies(self.pipeline, self.streams, self.ticks, [0] * len(self.streams), pace)
            held = sram_bytes(self.streams, packets, len(self.rows))
        return StageNeeds(self.rows, tuple(held), self.image_ticks)

    @classmethod
    def of(cls, pipeline: Pipeline, hardware: Hardware) -> LoweredPipeline:
        """ValueError, a sentence, when a stage's matrix is larger than a core's crossbars."""
        for stage in pipeline.stages:
            if hardware.rows_taken(stage) > hardware.core_rows:
                raise ValueError(
                    f"The matrix of {stage.name} has {stage.crossbar_rows} rows and {stage.crossbar_columns} columns; a "
                    f"core of {hardware.name} holds {hardware.core_rows} and {hardware.crossbar_columns}."
                )
        streams = streams_of(pipeline, hardware)
        ticks = tuple(hardware.iteration_ticks(stage) for stage in pipeline.stages)
        image_ticks = tuple(s.iterations * t for s, t in zip(pipeline.stages, ticks, strict=True))
        rows, talks = tuple(map(hardware.rows_taken, pipeline.stages)), touching(streams, len(pipeline.stages))
        return cls(pipeline, streams, ticks, talks, image_ticks, rows, hardware.cores, hardware.stages_per_core)


@dataclass(frozen=True)
class LayerCost:
    """What a layer asks of the accelerator when it is there once. once_ticks, chained_ticks: of an iteration, by stage, where all row
    blocks send to the last one, and where they are chained, so that the last one adds a single sum. flow_ticks: elements through one
    of its cores, in ticks of all the links of the best connected core; or of a stream between two of its blocks (partial sums, which
    take one route), in ticks of the widest link. chained_flow_ticks: the same where its row blocks are chained. ports: what it takes
    GMEM's links. stage_rows: of crossbars, by stage. all_ticks: that an image takes all its cores together, however often it is there.
    link_load: that it is sent, and sends GMEM, of an image over at least one link; gmem_loads: from and to GMEM, in elements or bits.
    Streams of stages that may share a core may need no link: their flow ticks are 0."""

    shape: LayerShape
    once_ticks: tuple[int, ...]
    chained_ticks: tuple[int, ...]
    flow_ticks: float
    chained_flow_ticks: float
    ports: PortTicks = field(default_factory=PortTicks)
    stage_rows: tuple[int, ...] = ()
    all_ticks: int = 0
    link_load: int = 0
    gmem_loads: tuple[int, int] = (0, 0)

    def ticks(self, replication: Replication) -> float:
        """No placement runs it in fewer ticks per image: replicas share the elements at best evenly."""
        return max(self.own_ticks(replication), self.stream_ticks(replication))

    def own_ticks(self, replication: Replication) -> float:
        """Ticks per image of its largest replica's cores, and of GMEM's busiest link where it reads the image or writes an output."""
        ports = self.ports
        return max(
            self.compute_ticks(replication),
            float(ports.shared.get(replication, 0)),
            ports.whole.get(replication, 0.0),
        )

    def compute_ticks(self, replication: Replication) -> int:
        """Ticks per image of its largest replica's cores."""
        return self.shape.iterations(replication) * max(self.stage_ticks(replication))

    def stage_ticks(self, replication: Replication) -> tuple[int, ...]:
        """Ticks of an iteration, by stage of a replica. Replicas of channels do as many iterations, which take less each."""
        ticks = self.chained_ticks if replication.chained else self.once_ticks
        sharers = replication.count if replication.axis == CHANNELS else 1
        return tuple(-(-each // sharers) for each in ticks) if sharers > 1 else ticks

    def stream_ticks(self, replication: Replication) -> float:
        """Ticks per image that its streams take, shared evenly by its replicas: see `flow_ticks`."""
        return (self.chained_flow_ticks if replication.chained else self.flow_ticks) / replication.count


def layer_costs(
    once: LoweredPipeline,
    chained: LoweredPipeline,
    shapes: tuple[LayerShape, ...],
    hardware: Hardware,
    ports: Mapping[str, PortTicks],
) -> tuple[LayerCost, ...]:
    """By layer, in the order of the shapes. chained: lowered once as well, all row blocks in chains. ports: by layer, of those that
    read the image or write an output."""
    flows, chained_flows = (flow_ticks(lowered, hardware, *_stage_loads(lowered)) for lowered in (once, chained))
    gmem_loads, link_loads = _layer_loads(once)
    ticks, chained_ticks = _by_layer(once, once.ticks), _by_layer(chained, chained.ticks)
    rows = _by_layer(once, once.rows)
    together = [_all_ticks(lowered) for lowered in (once, chained)]
    return tuple(
        LayerCost(
            shape,
            ticks[shape.name],
            chained_ticks[shape.name],
            flows[shape.name],
            chained_flows[shape.name],
            ports.get(shape.name, PortTicks()),
            rows[shape.name],
            min(both[shape.name] for both in together),
            link_loads[shape.name],
            gmem_loads[shape.name],
        )
        for shape in shapes
    )


def _by_layer(lowered: LoweredPipeline, figures: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """figures: by stage."""
    found = dict[str, tuple[int, ...]]()
    for stage, figure in zip(lowered.pipeline.stages, figures, strict=True):
        found[stage.layer] = (*found.get(stage.layer, ()), figure)
    return found


def _all_ticks(lowered: LoweredPipeline) -> Counter[str]:
    """An image's, of all cores together, by layer."""
    found = Counter[str]()
    for stage, ticks in zip(lowered.pipeline.stages, lowered.image_ticks, strict=True):
        found[stage.layer] += ticks
    return found


def _stage_loads(lowered: LoweredPipeline) -> tuple[list[int], list[int]]:
    """What every stage is sent of an image, and what it sends."""
    into, out = ([0] * len(lowered.rows) for _ in range(2))
    for stream in lowered.streams:
        for loads, end in ((into, stream.reader), (out, stream.writer)):
            if end != GMEM:
                loads[end] += stream.image_load
    return into, out


def _layer_loads(lowered: LoweredPipeline) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """By layer, of an image: what it is sent by GMEM and sends it, and both with what other stages send it, but for stages that may share a
    core with these."""
    stages, shared = lowered.pipeline.stages, lowered.stages_per_core > 1
    gmem = dict.fromkeys((stage.layer for stage in stages), (0, 0))
    links = dict.fromkeys(gmem, 0)
    for stream in lowered.streams:
        layer = stages[stream.writer if stream.reader == GMEM else stream.reader].layer
        into, out = (stream.image_load if end == GMEM else 0 for end in (stream.writer, stream.reader))
        gmem[layer] = gmem[layer][0] + into, gmem[layer][1] + out
        links[layer] += into + out if shared else stream.image_load
    return gmem, links


def flow_ticks(
    lowered: LoweredPipeline, hardware: Hardware, into: Sequence[int], out: Sequence[int]
) -> dict[str, float]:
    """By layer: see `LayerCost`. into, out: what every stage is sent of an image, and sends."""
    width_in, width_out = ([0] * (hardware.cores + 1) for _ in range(2))
    for link in hardware.links:
        width_in[link.target] += link.width
        width_out[link.source] += link.width
    widest_in, widest_out = (max(width[: hardware.cores]) for width in (width_in, width_out))
    between_cores = (link for link in hardware.links if hardware.gmem not in (link.source, link.target))
    widest_link = max((link.width for link in between_cores), default=1)  # a single core has none
    stages, found = lowered.pipeline.stages, dict[str, float]()
    if hardware.stages_per_core > 1:
        return {stage.layer: 0.0 for stage in stages}
    for s, stage in enumerate(stages):
        streams = [lowered.streams[n] for n in lowered.touching[s]]
        own = (k for k in streams if k.writer == s and k.reader != GMEM and stages[k.reader].layer == stage.layer)
        inner = max((stream.image_load for stream in own), default=0)
        flow = max(into[s] / widest_in, out[s] / widest_out, inner / widest_link)
        found[stage.layer] = max(flow, found.get(stage.layer, 0.0))
    return found


def cheapest_replication(cost: LayerCost, ticks: float) -> Replication | None:
    """The fewest replicas with which the layer may run in `ticks` an image; columns before rows."""
    return next((r for r in cost.shape.replications() if cost.ticks(r) <= ticks), None)


def least_ticks(costs: tuple[LayerCost, ...], cores: Cores, fixed: Mapping[str, Replication] | None = None) -> float:
    """Ticks per image that no replication of the open layers beats within those cores. inf: they do not fit at all.

    Within T ticks a layer can only have replications of at most T ticks: of those the one of fewest stages, and the one that GMEM
    sends least. Both are the same for all T from one level to the next, so the least T of a level is the level itself, or what GMEM
    sends to all layers together there. All cores together do what the layers do, shared or not.
    """
    fixed = fixed or {}
    floor = max((cost.ticks(fixed[cost.shape.name]) for cost in costs if cost.shape.name in fixed), default=0.0)
    floor = max(floor, math.ceil(sum(cost.all_ticks for cost in costs) / cores.count))
    open_costs = [cost for cost in costs if cost.shape.name not in fixed]
    levels = sorted({max(floor, cost.ticks(r)) for cost in open_costs for r in cost.shape.replications()} | {floor})

    def fits(ticks: float) -> bool:
        chosen = {cost.shape.name: cheapest_replication(cost, ticks) for cost in open_costs}
        found = {name: replication for name, replication in chosen.items() if replication is not None}
        return len(found) == len(chosen) and least_cores(costs, {**found, **fixed}, cores) <= cores.count

    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        if fits(levels[middle]):
            high = middle
        else:
            low = middle + 1
    best = float("inf")
    for level in levels[low:]:
        if level >= best:
            break
        best = min(best, max(level, float(_least_port_ticks(costs, level, fixed))))
    return best


def _least_port_ticks(costs: Sequence[LayerCost], ticks: float, fixed: Mapping[str, Replication]) -> Fraction:
    """Ticks that GMEM's ports take when every layer takes at most `ticks`, or is replicated as is fixed, for which there is room."""
    total = Fraction(0)
    for cost in costs:
        own = cost.shape.name
        shared = cost.ports.shared
        if shared:
            allowed = [fixed[own]] if own in fixed else [r for r in shared if cost.ticks(r) <= ticks]
            total += min(shared[r] for r in allowed)
    return total


def cores_needed(costs: Sequence[LayerCost], replicas: Mapping[str, Replication], cores: Cores) -> int:
    """So many hold all stages: one a stage, or those on which they fit first."""
    return cores.first_fit(_stage_rows(costs, replicas))


def least_cores(costs: Sequence[LayerCost], replicas: Mapping[str, Replication], cores: Cores) -> int:
    """No fewer hold all stages."""
    return cores.least(_stage_rows(costs, replicas))


def _stage_rows(costs: Sequence[LayerCost], replicas: Mapping[str, Replication]) -> Counter[int]:
    """How many stages there are of so many rows of crossbars."""
    found = Counter[int]()
    for cost in costs:
        count = replicas.get(cost.shape.name, ONCE).count
        for rows in cost.stage_rows or (0,) * cost.shape.cores:
            found[rows] += count
    return found
