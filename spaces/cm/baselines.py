"""What is done without a search: stages in snake order, and replicas for whichever layer is the slowest."""

from __future__ import annotations

from kilotune.codegen.cm.hardware import Hardware
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.lowered import cores_needed
from kilotune.spaces.cm.replication import ONCE, Replication


def snake_cores(hardware: Hardware, stages: int) -> tuple[int, ...]:
    """Row by row, every other one backwards; in the order of their numbers where cores lie in no grid."""
    columns = hardware.grid_columns or hardware.cores
    order = []
    for row in range(-(-hardware.cores // columns)):
        cores = list(range(row * columns, min((row + 1) * columns, hardware.cores)))
        order += cores if row % 2 == 0 else cores[::-1]
    return tuple(order[:stages])


def balanced_replicas(space: CmCandidates) -> dict[str, Replication]:
    """One more replica for the layer whose cores are the slowest, as long as cores are left (PIMCOMP's balanced scheme)."""
    replicas = {cost.shape.name: ONCE for cost in space.costs}
    by_name = {cost.shape.name: cost for cost in space.costs}
    while True:
        slowest = max(
            replicas, key=lambda name: by_name[name].shape.iterations(replicas[name]) * by_name[name].iteration_ticks
        )
        shape = by_name[slowest].shape
        more = [
            r for r in shape.replications() if r.count > replicas[slowest].count and r.axis == "rows" and not r.chained
        ]
        if not more:
            return replicas
        wanted = {**replicas, slowest: more[0]}
        if cores_needed(space.costs, wanted) > space.hardware.cores:
            return replicas
        replicas = wanted
