"""All speeds that the cores can be brought to: for each the replications that keep it, which the joint search lays out one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.evening import evened
from kilotune.spaces.cm.pacing import Replicas, grained_replicas, paced_replicas, paces, thinned_replicas
from kilotune.spaces.cm.replication import ONCE, Replication
from kilotune.spaces.cm.sharing import Cores

MOST_SPEEDS = 12
STEP = 0.03
THICKNESSES = (0.5, 0.75)
GRAINS = (0.5, 0.25, 1.0)
"""What a stage does of a core that several share, as a part of a pace."""


def speeds(space: CmCandidates, rng: np.random.Generator) -> Iterator[Replicas]:
    """No replicas at all, then what keeps each pace that fits into the cores, from the fastest on; each replication once."""
    costs = space.costs
    found = set[tuple[Replication, ...]]()
    kept = (_kept_paces(space, ticks, rng) for ticks in paces(costs, space.least_ticks, STEP))
    for replicas in itertools.chain([{cost.shape.name: ONCE for cost in costs}], itertools.chain.from_iterable(kept)):
        if replicas is not None and tuple(replicas.values()) not in found:
            found.add(tuple(replicas.values()))
            yield replicas
        if len(found) == MOST_SPEEDS:
            break


def _kept_paces(space: CmCandidates, ticks: float, rng: np.random.Generator) -> Iterator[Replicas | None]:
    """Replications that keep a pace. Shared cores are to be filled evenly; where streams are thick, links are what is short, and what
    thins them comes first, as if each stage needed a core."""
    if space.hardware.stages_per_core == 1:
        yield from _thinned(space, ticks, space.cores)
        return
    every = [grained_replicas(space.costs, share * ticks, space.cores) for share in GRAINS]
    grained = [replicas for replicas in every if replicas is not None]
    if any(flow.least_ticks(replicas) > ticks for replicas in grained[-1:] for flow in space.flows):
        yield from _thinned(space, ticks, Cores(space.cores.count))
    for replicas in grained:
        yield evened(space.costs, replicas, space.cores, rng)


def _thinned(space: CmCandidates, ticks: float, cores: Cores) -> Iterator[Replicas | None]:
    """Replications of thinner streams, and of as few cores as can be."""
    for share in THICKNESSES:
        yield thinned_replicas(space.costs, space.flows, ticks, share * ticks, cores)
    yield paced_replicas(space.costs, space.flows, ticks, cores)
