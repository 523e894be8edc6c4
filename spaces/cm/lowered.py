"""A network lowered for one replication, with what its mapping is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import sram_bytes
from kilotune.codegen.cm.pipeline import GMEM, Pipeline
from kilotune.codegen.cm.replicas import CHANNELS
from kilotune.codegen.cm.streams import Stream, stream_name, streams_of, touching
from kilotune.spaces.cm.network import PartitionedNetwork
from kilotune.spaces.cm.replication import ONCE, LayerShape, Replication
from kilotune.spaces.cm.seams import PortTicks


@dataclass(frozen=True, eq=False)
class LoweredPipeline:
    """touching: numbers of the streams that a stage writes or reads, by stage. ticks: of an iteration, by stage. image_ticks: per image,
    by stage."""

    pipeline: Pipeline
    streams: tuple[Stream, ...]
    ticks: tuple[int, ...]
    touching: tuple[tuple[int, ...], ...]
    image_ticks: tuple[int, ...]

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

    @classmethod
    def of(
        cls, network: PartitionedNetwork, replicas: Mapping[str, Replication], hardware: Hardware
    ) -> LoweredPipeline:
        """ValueError, a sentence, when a stage's matrix is larger than a core's crossbars."""
        pipeline = network.pipeline(replicas)
        for stage in pipeline.stages:
            if stage.crossbar_rows > hardware.core_rows or stage.crossbar_columns > hardware.crossbar_columns:
                raise ValueError(
                    f"The matrix of {stage.name} has {stage.crossbar_rows} rows and {stage.crossbar_columns} columns; a "
                    f"core of {hardware.name} holds {hardware.core_rows} and {hardware.crossbar_columns}."
                )
        streams = streams_of(pipeline, hardware)
        ticks = tuple(hardware.iteration_ticks(stage) for stage in pipeline.stages)
        image_ticks = tuple(s.iterations * t for s, t in zip(pipeline.stages, ticks, strict=True))
        return cls(pipeline, streams, ticks, touching(streams, len(pipeline.stages)), image_ticks)


@dataclass(frozen=True)
class LayerCost:
    """What a layer asks of the accelerator when it is there once. flow_ticks: elements through one of its cores, in
    ticks of all the links of the best connected core; or of a stream between two of its blocks (partial sums, which
    take one route), in ticks of the widest link. chained_flow_ticks: the same where its row blocks are chained. port_ticks: of what
    GMEM sends to it, if all its ports shared that evenly; empty where it does not read the image."""

    shape: LayerShape
    iteration_ticks: int
    flow_ticks: float
    chained_flow_ticks: float
    port_ticks: PortTicks = field(default_factory=dict)

    def ticks(self, replication: Replication) -> float:
        """No placement runs it in fewer ticks per image: replicas share the elements at best evenly."""
        return max(self.own_ticks(replication), self.stream_ticks(replication))

    def own_ticks(self, replication: Replication) -> float:
        """Ticks per image of its largest replica's cores, and of GMEM's ports where it reads the image."""
        return max(self.compute_ticks(replication), self.port_ticks.get(replication, 0.0))

    def compute_ticks(self, replication: Replication) -> int:
        """Ticks per image of its largest replica's cores. Replicas of channels do as many iterations, which take less each."""
        sharers = replication.count if replication.axis == CHANNELS else 1
        return self.shape.iterations(replication) * -(-self.iteration_ticks // sharers)

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
    read the image."""
    flows, chained_flows = _flow_ticks(once, hardware), _flow_ticks(chained, hardware)
    slowest: dict[str, int] = {}
    for stage, ticks in zip(once.pipeline.stages, once.ticks, strict=True):
        slowest[stage.layer] = max(ticks, slowest.get(stage.layer, 0))
    return tuple(
        LayerCost(shape, slowest[shape.name], flows[shape.name], chained_flows[shape.name], ports.get(shape.name, {}))
        for shape in shapes
    )


def _flow_ticks(lowered: LoweredPipeline, hardware: Hardware) -> dict[str, float]:
    """By layer: see `LayerCost`."""
    width_in, width_out = ([0] * (hardware.cores + 1) for _ in range(2))
    for link in hardware.links:
        width_in[link.target] += link.width
        width_out[link.source] += link.width
    widest_in, widest_out = (max(width[: hardware.cores]) for width in (width_in, width_out))
    between_cores = (link for link in hardware.links if hardware.gmem not in (link.source, link.target))
    widest_link = max((link.width for link in between_cores), default=1)  # a single core has none
    stages, found = lowered.pipeline.stages, dict[str, float]()
    for s, stage in enumerate(stages):
        streams = [lowered.streams[n] for n in lowered.touching[s]]
        into = sum(stream.image_load for stream in streams if stream.reader == s)
        out = sum(stream.image_load for stream in streams if stream.writer == s)
        own = (k for k in streams if k.writer == s and k.reader != GMEM and stages[k.reader].layer == stage.layer)
        inner = max((stream.image_load for stream in own), default=0)
        flow = max(into / widest_in, out / widest_out, inner / widest_link)
        found[stage.layer] = max(flow, found.get(stage.layer, 0.0))
    return found


def cheapest_replication(cost: LayerCost, ticks: float) -> Replication | None:
    """The fewest replicas with which the layer may run in `ticks` an image; columns before rows."""
    return next((r for r in cost.shape.replications() if cost.ticks(r) <= ticks), None)


def least_ticks(costs: tuple[LayerCost, ...], cores: int, fixed: Mapping[str, Replication] | None = None) -> float:
    """Ticks per image that no replication of the open layers beats within `cores` cores. inf: they do not fit at all.

    Within T ticks a layer can only have replications of at most T ticks: of those the one of fewest cores, and the one that GMEM
    sends least. Both are the same for all T from one level to the next, so the least T of a level is the level itself, or what GMEM
    sends to all layers together there.
    """
    fixed = fixed or {}
    taken = sum(cost.shape.cores * fixed[cost.shape.name].count for cost in costs if cost.shape.name in fixed)
    floor = max((cost.ticks(fixed[cost.shape.name]) for cost in costs if cost.shape.name in fixed), default=0.0)
    open_costs = [cost for cost in costs if cost.shape.name not in fixed]
    levels = sorted({max(floor, cost.ticks(r)) for cost in open_costs for r in cost.shape.replications()} | {floor})

    def fits(ticks: float) -> bool:
        chosen = [(cost, cheapest_replication(cost, ticks)) for cost in open_costs]
        needed = sum(cost.shape.cores * r.count if r else cores + 1 for cost, r in chosen)
        return taken + needed <= cores

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
        best = min(best, max(level, _least_port_ticks(costs, level, fixed)))
    return best


def _least_port_ticks(costs: Sequence[LayerCost], ticks: float, fixed: Mapping[str, Replication]) -> float:
    """Ticks that GMEM's ports take when every layer takes at most `ticks`, or is replicated as is fixed, for which there is room."""
    total = 0.0
    for cost in costs:
        own = cost.shape.name
        if cost.port_ticks:
            allowed = [fixed[own]] if own in fixed else [r for r in cost.port_ticks if cost.ticks(r) <= ticks]
            total += min(cost.port_ticks[r] for r in allowed)
    return total


def cores_needed(costs: tuple[LayerCost, ...], replicas: Mapping[str, Replication]) -> int:
    """One a stage."""
    return sum(cost.shape.cores * replicas.get(cost.shape.name, ONCE).count for cost in costs)
