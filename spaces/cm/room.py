"""Whether cores have room for what their buffers hold, and more replicas of the layers that have too little.

Buffers that hold what is under way when nothing is in the way are the least. Where links are shared, packets come late by a different
time on each way, and what arrives on a short way waits for what comes the long way: a concatenation of many layers holds several times
as much then. With less room than that everything before it is held up, however idle cores and links are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kilotune.codegen.cm.mapping import sram_bytes, stages_by_core
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.designs import Design, carried_over, routes_of
from kilotune.spaces.cm.lowered import LayerCost, cores_needed
from kilotune.spaces.cm.replication import Replication

MOST_TIMES = 2
"""By how many times as many replicas a layer gets at once: more replicas make other streams, and less may do."""


def too_large(space: CmCandidates, design: Design) -> dict[str, float]:
    """Layers whose buffers exceed a core's SRAM when they have no room to spare, with how many times as large they are."""
    none = {shape.name: 0 for shape in space.shapes}
    routes = tuple(routes_of(space, design))
    return _exceeding(space, design, space.capacities(design.lowered, design.placement.cores, routes, none))


def crowded(space: CmCandidates, design: Design) -> dict[str, float]:
    """Layers whose buffers would hold more than a core's SRAM if they were unbounded, of a stream of images at the promised pace over
    contended links; with how many times as much."""
    return _exceeding(
        space, design, space.held(design.lowered, design.placement.cores, tuple(routes_of(space, design)))
    )


def _exceeding(space: CmCandidates, design: Design, capacities: tuple[int, ...]) -> dict[str, float]:
    """Buffers of a core in its SRAM, of those that exceed it; by the layer that has most there, of its fullest core."""
    lowered, room = design.lowered, space.hardware.sram_bytes
    used = sram_bytes(lowered.streams, capacities, len(lowered.pipeline.stages))
    found: dict[str, float] = {}
    for stages in stages_by_core(design.placement.cores).values():
        size = sum(used[stage] for stage in stages)
        if size > room:
            layer = lowered.pipeline.stages[max(stages, key=lambda stage: used[stage])].layer
            found[layer] = max(size / room, found.get(layer, 0.0))
    return found


def roomier(space: CmCandidates, design: Design, large: Mapping[str, float], rng: np.random.Generator) -> Design | None:
    """The design with more replicas of the layers whose buffers are too large, `large` at first, until they fit; where they stay, stages
    stay where they are. None: they fit as they are, or there are no more replicas or cores."""
    costs = {cost.shape.name: cost for cost in space.costs}
    wanted = design
    while large:
        replicas = dict(wanted.replicas)
        for layer in large:
            replicas[layer] = next(iter(_more(costs[layer], replicas[layer])), replicas[layer])
        if replicas == wanted.replicas or cores_needed(space.costs, replicas, space.cores) > space.hardware.cores:
            return None
        wanted = carried_over(space, wanted, replicas, rng)
        large = too_large(space, wanted)
    return None if wanted is design else wanted


def spread_out(
    space: CmCandidates, design: Design, crowds: Mapping[str, float], rng: np.random.Generator
) -> Design | None:
    """The design with more replicas of the crowded layers, the most crowded first, as far as there are cores: as many times as many as
    their buffers are too large, but MOST_TIMES at most. None: there are no more replicas or cores."""
    costs = {cost.shape.name: cost for cost in space.costs}
    replicas = dict(design.replicas)
    for layer, times in sorted(crowds.items(), key=lambda found: (-found[1], found[0])):
        one = replicas[layer]
        more = [r for r in _more(costs[layer], one) if costs[layer].own_ticks(r) <= design.ticks]
        enough = next((r for r in more if r.count >= one.count * min(times, MOST_TIMES)), None)
        for other in (*([] if enough is None else [enough]), *more[:1]):
            if cores_needed(space.costs, {**replicas, layer: other}, space.cores) <= space.hardware.cores:
                replicas[layer] = other
                break
    return None if replicas == design.replicas else carried_over(space, design, replicas, rng)


def _more(cost: LayerCost, one: Replication) -> list[Replication]:
    """More replicas along the same axis, the fewest first."""
    found = [r for r in cost.shape.replications() if r.count > one.count and r.chained == one.chained]
    return [r for r in found if one.count == 1 or r.axis == one.axis]
