"""The designs around one: a layer more or less often there, where links or cores are busiest."""

from __future__ import annotations

import numpy as np

from kilotune.codegen.cm.mapping import stages_by_core
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.evaluators.cm.bound import core_ticks, link_loads
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.designs import Design, carried_over, routes_of
from kilotune.spaces.cm.lowered import cores_needed

HOTTEST_LINKS = 4


def neighbour(space: CmCandidates, design: Design, rng: np.random.Generator) -> Design | None:
    """A layer more or less often there, or cut the other way; the stages that stay, stay where they are. None: there is no other
    replication of the layer that chance picks, or too few cores for it."""
    hot = rng.random() < 0.6
    names = _hot_layers(space, design) if hot else [shape.name for shape in space.shapes]
    name = names[int(rng.integers(len(names)))]
    cost = next(c for c in space.costs if c.shape.name == name)
    options = [r for r in cost.shape.replications() if r != design.replicas[name]]
    if hot and rng.random() < 0.7:
        options = [r for r in options if r.count > design.replicas[name].count][:4] or options
    if not options:
        return None
    replicas = {**design.replicas, name: options[int(rng.integers(min(len(options), 6)))]}
    while cores_needed(space.costs, replicas, space.cores) > space.hardware.cores:
        shrinkable = [c for c in space.costs if replicas[c.shape.name].count > 1 and c.shape.name != name]
        if not shrinkable:
            return None
        one = shrinkable[int(rng.integers(len(shrinkable)))].shape
        fewer = [r for r in one.replications() if r.count < replicas[one.name].count]
        replicas[one.name] = fewer[-1]
    return carried_over(space, design, replicas, rng)


def _hot_layers(space: CmCandidates, design: Design) -> list[str]:
    """Those that send or receive over the busiest links, or the slowest ones where the cores are the bottleneck."""
    lowered, hardware = design.lowered, space.hardware
    busy = core_ticks(lowered.image_ticks, design.placement.cores)
    if busy >= design.placement.ticks:
        by_core = stages_by_core(design.placement.cores).values()
        slow = (own for own in by_core if sum(lowered.image_ticks[stage] for stage in own) == busy)
        return sorted({lowered.pipeline.stages[stage].layer for own in slow for stage in own})
    routes = routes_of(space, design)
    use = link_loads(lowered.streams, routes, hardware.links) / [k.width for k in hardware.links]
    hottest = set(np.argsort(-use)[:HOTTEST_LINKS].tolist())
    ends = {
        end
        for stream, route in zip(lowered.streams, routes, strict=True)
        if hottest & set(route)
        for end in (stream.writer, stream.reader)
    }
    return sorted({lowered.pipeline.stages[end].layer for end in ends - {GMEM}})
