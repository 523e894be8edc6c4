"""What is done without a search: stages in snake order, and replicas for whichever layer is the slowest."""

from __future__ import annotations

from kilotune.codegen.cm.hardware import Hardware
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.lowered import LoweredPipeline, cores_needed
from kilotune.spaces.cm.replication import ONCE, Replication
from kilotune.spaces.cm.sharing import CoreFilling, filled_up


def snake_cores(hardware: Hardware, stages: int) -> tuple[int, ...]:
    """Row by row, every other one backwards; in the order of their numbers where cores lie in no grid."""
    columns = hardware.grid_columns or hardware.cores
    order = []
    for row in range(-(-hardware.cores // columns)):
        cores = list(range(row * columns, min((row + 1) * columns, hardware.cores)))
        order += cores if row % 2 == 0 else cores[::-1]
    return tuple(order[:stages])


def snake_placement(lowered: LoweredPipeline, hardware: Hardware) -> tuple[int, ...]:
    """Cores by stage, along the snake: one after the other, or, where stages may share one, as many on it as it has room for and as do
    its share of all that is to be done. ValueError where they do not fit."""
    needs = lowered.needs
    if hardware.stages_per_core == 1:
        return snake_cores(hardware, needs.stages)
    order, filling, cores = snake_cores(hardware, hardware.cores), CoreFilling(hardware, needs), list[int]()
    share, at = max(lowered.compute_ticks, -(-sum(needs.ticks) // hardware.cores)), 0
    for stage in range(needs.stages):
        full = filling.ticks[order[at]] + needs.ticks[stage] > share or not filling.has_room(stage, order[at])
        if full and filling.stages[order[at]]:
            at += 1
            if at == len(order):
                return filled_up(hardware, needs, (*cores, *(None,) * (needs.stages - stage)), order)
        filling.put(stage, order[at])
        cores.append(order[at])
    return tuple(cores)


def balanced_replicas(space: CmCandidates) -> dict[str, Replication]:
    """One more replica for the layer whose cores are the slowest, as long as cores are left (PIMCOMP's balanced scheme)."""
    replicas = {cost.shape.name: ONCE for cost in space.costs}
    by_name, shared = {cost.shape.name: cost for cost in space.costs}, space.hardware.stages_per_core > 1
    while True:
        slowest = max(replicas, key=lambda name: by_name[name].compute_ticks(replicas[name]))
        if shared and by_name[slowest].compute_ticks(replicas[slowest]) <= space.least_ticks:
            return replicas  # what one core does is no longer what all take together
        shape = by_name[slowest].shape
        more = [
            r for r in shape.replications() if r.count > replicas[slowest].count and r.axis == "rows" and not r.chained
        ]
        if not more:
            return replicas
        wanted = {**replicas, slowest: more[0]}
        if cores_needed(space.costs, wanted, space.cores) > space.hardware.cores:
            return replicas
        replicas = wanted
