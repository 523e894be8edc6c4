"""Replications that keep a pace: no core, and no stream between two of them, is busy for more ticks an image.

A stream takes one route, so it is never faster than its elements over the width of a link, however many links there are. Replicas
of its writer or of its reader share it out: of both where they cut along different axes, of the larger number where they cut alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.spaces.cm.lowered import LayerCost, LoweredPipeline, cheapest_replication, cores_needed
from kilotune.spaces.cm.replication import ONCE, Replication
from kilotune.spaces.cm.sharing import Cores

Replicas = dict[str, Replication]


@dataclass(frozen=True)
class LayerFlow:
    """What the busiest stream from a layer to another takes, both there once, in ticks of the widest link. None: GMEM."""

    writer: str | None
    reader: str | None
    ticks: float

    def least_ticks(self, replicas: Mapping[str, Replication]) -> float:
        """With these replications; a halo, or cuts at different places, can make it more."""
        one, other = (ONCE if layer is None else replicas[layer] for layer in (self.writer, self.reader))
        return self.ticks / (one.count * other.count if one.axis != other.axis else max(one.count, other.count))


def layer_flows(once: LoweredPipeline, hardware: Hardware) -> tuple[LayerFlow, ...]:
    """Between all layers that talk with each other; what row blocks send each other is of a layer alone."""
    ends = {True: 1, False: 1}
    for link in hardware.links:
        at_gmem = hardware.gmem in (link.source, link.target)
        ends[at_gmem] = max(ends[at_gmem], link.width)
    found: dict[tuple[str | None, str | None], float] = {}
    for stream in once.streams:
        pair = tuple(None if s == GMEM else once.pipeline.stages[s].layer for s in (stream.writer, stream.reader))
        if pair[0] != pair[1]:
            key, ticks = (pair[0], pair[1]), stream.image_load / ends[GMEM in (stream.writer, stream.reader)]
            found[key] = max(found.get(key, 0.0), ticks)
    return tuple(LayerFlow(*pair, ticks) for pair, ticks in found.items())


def paced_replicas(
    costs: tuple[LayerCost, ...], flows: Sequence[LayerFlow], ticks: float, cores: Cores
) -> Replicas | None:
    """The cheapest replication of every layer by itself; then, from the busiest flow on, replicas of whichever end takes fewer
    cores more. Cuts stay along the axis that they are along: cut across each other, layers send every part to every part. None: there are
    not so many cores."""
    replicas: Replicas = {}
    for cost in costs:
        own = cheapest_replication(cost, ticks)
        if own is None:
            return None
        replicas[cost.shape.name] = own
    by_name = {cost.shape.name: cost for cost in costs}
    while cores_needed(costs, replicas, cores) <= cores.count:
        slow = max(flows, key=lambda flow: flow.least_ticks(replicas), default=None)
        if slow is None or slow.least_ticks(replicas) <= ticks:
            return replicas
        wanted = _cheapest_help(by_name, replicas, slow, ticks, ticks)
        if wanted is None:
            return None
        replicas = {**replicas, **wanted}
    return None


def thinned_replicas(
    costs: tuple[LayerCost, ...], flows: Sequence[LayerFlow], ticks: float, thickness: float, cores: Cores
) -> Replicas | None:
    """Cores and GMEM keep `ticks`; a stream takes a link for no more than `thickness` of them, so that several fit on one link and a
    placement has room to go: or, where replicas along the same axis do not bring it there, as little as they do. None: there are
    not so many cores."""
    replicas: Replicas = {}
    for cost in costs:
        own = [r for r in cost.shape.replications() if cost.own_ticks(r) <= ticks]
        if not own:
            return None
        thin = (r for r in own if cost.stream_ticks(r) <= thickness)
        replicas[cost.shape.name] = next(thin, min(own, key=cost.stream_ticks))
    by_name = {cost.shape.name: cost for cost in costs}
    thick = sorted(flows, key=str)
    while thick and cores_needed(costs, replicas, cores) <= cores.count:
        worst = max(thick, key=lambda flow: flow.least_ticks(replicas))
        if worst.least_ticks(replicas) <= thickness:
            break
        wanted = _cheapest_help(by_name, replicas, worst, ticks, thickness)
        if wanted is None:
            wanted = _greatest_help(by_name, replicas, worst, ticks)
            thick.remove(worst)
        replicas = {**replicas, **wanted}
    return replicas if cores_needed(costs, replicas, cores) <= cores.count else None


def grained_replicas(costs: tuple[LayerCost, ...], ticks: float, cores: Cores) -> Replicas | None:
    """As few replicas of every layer as bring its cores down to `ticks` an image, or as far as they can be brought: small pieces of
    work, with which cores that are shared can be filled evenly. None: there are not so many cores."""
    replicas: Replicas = {}
    for cost in costs:
        options = cost.shape.replications()
        least = max(ticks, min(map(cost.own_ticks, options)))
        replicas[cost.shape.name] = next(r for r in options if cost.own_ticks(r) <= least)
    return replicas if cores_needed(costs, replicas, cores) <= cores.count else None


def _greatest_help(
    costs: Mapping[str, LayerCost], replicas: Mapping[str, Replication], flow: LayerFlow, ticks: float
) -> Replicas:
    """The end of a flow that thins it most when it is there more often; empty: neither does."""
    best, least = Replicas(), flow.least_ticks(replicas)
    for name in (end for end in (flow.writer, flow.reader) if end is not None):
        for other in costs[name].shape.replications():
            alike = other.axis == replicas[name].axis and other.count > replicas[name].count
            thinner = flow.least_ticks({**replicas, name: other})
            if alike and costs[name].own_ticks(other) <= ticks and thinner < least:
                best, least = {name: other}, thinner
    return best


def _cheapest_help(
    costs: Mapping[str, LayerCost],
    replicas: Mapping[str, Replication],
    flow: LayerFlow,
    ticks: float,
    thickness: float,
) -> Replicas | None:
    """One end of a flow more often, so that it takes a link for no more than `thickness`; None: nothing helps."""
    best: tuple[int, Replicas] | None = None
    for name in (flow.writer, flow.reader):
        if name is None:
            continue
        cost = costs[name]
        for other in cost.shape.replications():
            if other.count <= replicas[name].count or other.axis != replicas[name].axis or cost.ticks(other) > ticks:
                continue
            if flow.least_ticks({**replicas, name: other}) <= thickness:
                added = (other.count - replicas[name].count) * cost.shape.cores
                if best is None or added < best[0]:
                    best = added, {name: other}
                break
    return None if best is None else best[1]


def paces(costs: Sequence[LayerCost], least: float, step: float) -> Iterator[float]:
    """`least`, then ticks at which some layer can do with a replica less, each larger than the one before by `step` of it."""
    last = 0.0
    for ticks in sorted({least, *(cost.ticks(r) for cost in costs for r in cost.shape.replications())}):
        if ticks >= least and ticks >= last * (1 + step):
            last = ticks
            yield ticks
