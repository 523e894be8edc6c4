"""A design: a replication of all layers with a placement of its stages, and what becomes of it when a layer's replicas change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.cm.mapping import node_of
from kilotune.spaces.cm.annealing import AnnealedPlacement
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.lowered import LoweredPipeline
from kilotune.spaces.cm.pacing import Replicas
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.sharing import filled_up

Part = tuple[str, int, int, int]
"""Layer, replica, row block and column block."""


@dataclass(frozen=True)
class Design:
    """A replication with the best placement known for it. ticks: of the busiest core or link."""

    replicas: Replicas
    lowered: LoweredPipeline
    placement: AnnealedPlacement

    @property
    def ticks(self) -> int:
        return max(self.lowered.compute_ticks, self.placement.ticks)


def routes_of(space: CmCandidates, design: Design) -> list[tuple[int, ...]]:
    """Link numbers by stream."""
    placement, hardware = design.placement, space.hardware
    routes = []
    for stream, shape in zip(design.lowered.streams, placement.shapes, strict=True):
        start, goal = (node_of(hardware, placement.cores, end) for end in (stream.writer, stream.reader))
        routes.append(space.tables.route(start, goal, shape))
    return routes


def carried_over(
    space: CmCandidates, design: Design, replicas: Mapping[str, Replication], rng: np.random.Generator
) -> Design:
    """The design with these replicas instead: stages that are in both stay where they are, new ones come to free cores at random, or
    to those with room that do least where they are shared. Its placement's ticks are not known."""
    lowered, hardware = space.lowered(replicas), space.hardware
    # A replica keeps its core by its number; a layer that was whole until now leaves its core to the first one.
    before = dict(zip(_parts(design.lowered), design.placement.cores, strict=True))
    kept = [before.get(part) for part in _parts(lowered)]
    if hardware.stages_per_core == 1:
        taken = set(kept)
        free = iter(rng.permutation([c for c in range(hardware.cores) if c not in taken]).tolist())
        cores = tuple(core if core is not None else next(free) for core in kept)
    else:
        cores = filled_up(hardware, lowered.needs, kept, rng.permutation(hardware.cores).tolist())
    routed = dict(zip(_ends(design.lowered), design.placement.shapes, strict=True))
    shapes = tuple(routed.get(ends, 0) for ends in _ends(lowered))
    return Design(dict(replicas), lowered, AnnealedPlacement(cores, shapes, 1 << 60))


def _parts(lowered: LoweredPipeline) -> list[Part]:
    """Which part of which layer every stage is."""
    return [(s.layer, s.replica, s.row_block, s.column_block) for s in lowered.pipeline.stages]


def _ends(lowered: LoweredPipeline) -> list[tuple[Part | None, Part | None]]:
    """Between which parts every stream flows; None: GMEM."""
    parts = [*_parts(lowered), None]  # GMEM, -1, is the last one
    return [(parts[s.writer], parts[s.reader]) for s in lowered.streams]
