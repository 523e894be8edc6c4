"""Replications whose pieces fill shared cores evenly: what the busiest core does is what all of them wait for.

Pieces that are alike leave gaps: four of 111 ticks fill a core that is to do 392, three leave a quarter of it idle. So replications are
searched by how evenly their pieces lie on the cores, the largest first and each on the core that has least till then (Graham's longest
processing time, 1969), which takes a millisecond; lowering and annealing a design take a thousand times as long.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.cm.replicas import CHANNELS, replica_rectangles
from kilotune.spaces.cm.lowered import LayerCost, cores_needed
from kilotune.spaces.cm.pacing import Replicas
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.sharing import Cores

TRIED = 600
"""Replications of one layer."""

NORM, A_STAGE = 16, 0.002
NEAR = 6
"""How many options on from its own a layer's next replication is at most."""


@dataclass(frozen=True)
class Piece:
    """A stage: what it does an image, and its rows of crossbars."""

    ticks: int
    rows: int


def evened(
    costs: Sequence[LayerCost], replicas: Mapping[str, Replication], cores: Cores, rng: np.random.Generator
) -> Replicas:
    """Replications that fill the cores at least as evenly, found from these by changing a layer at a time. What counts is a mean of what
    cores do in which the busiest weigh most, with a little of the number of stages."""
    found = dict(replicas)
    by_layer = {cost.shape.name: _pieces(cost, found[cost.shape.name]) for cost in costs}
    best = _unevenness(by_layer, cores)
    for _ in range(TRIED):
        cost = costs[int(rng.integers(len(costs)))]
        name, options = cost.shape.name, alike(cost, found[cost.shape.name])
        near = next(number for number, one in enumerate(options) if one == found[name])
        other = options[int(np.clip(near + rng.integers(-NEAR, NEAR + 1), 0, len(options) - 1))]
        if other == found[name] or cores_needed(costs, {**found, name: other}, cores) > cores.count:
            continue
        tried = {**by_layer, name: _pieces(cost, other)}
        reached = _unevenness(tried, cores)
        if reached <= best:
            best, by_layer, found[name] = reached, tried, other
    return found


def alike(cost: LayerCost, one: Replication) -> list[Replication]:
    """Cut along the same axis, for layers that are cut across each other send every part to every part; chained or not as it is."""
    options = [r for r in cost.shape.replications() if r.chained == one.chained]
    return [r for r in options if one.count == 1 or r.count == 1 or r.axis == one.axis]


def _pieces(cost: LayerCost, replication: Replication) -> tuple[Piece, ...]:
    """The stages of a layer."""
    shape, count = cost.shape, replication.count
    if replication.axis == CHANNELS:
        iterations = [shape.height * shape.width] * count
    else:
        rectangles = replica_rectangles(shape.height, shape.width, count, replication.axis)
        iterations = [one.height * one.width for one in rectangles]
    stages = tuple(zip(cost.stage_ticks(replication), cost.stage_rows, strict=True))
    return tuple(Piece(n * ticks, rows) for n in iterations for ticks, rows in stages)


def _unevenness(by_layer: Mapping[str, Sequence[Piece]], cores: Cores) -> float:
    """1 where all cores do as much; infinity where pieces do not fit this way."""
    every = [piece for pieces in by_layer.values() for piece in pieces]
    share = max(sum(piece.ticks for piece in every) / cores.count, 1.0)
    every.sort(key=lambda piece: -max(piece.ticks / share, piece.rows / cores.rows_each))
    filled = [(0, core) for core in range(cores.count)]
    rows, stages = [0] * cores.count, [0] * cores.count
    for piece in every:
        passed = []
        while filled:
            ticks, core = heapq.heappop(filled)
            if rows[core] + piece.rows <= cores.rows_each and stages[core] < cores.stages_each:
                break
            passed.append((ticks, core))
        else:
            return math.inf
        rows[core] += piece.rows
        stages[core] += 1
        heapq.heappush(filled, (ticks + piece.ticks, core))
        for one in passed:
            heapq.heappush(filled, one)
    mean = math.fsum(math.pow(ticks / share, NORM) for ticks, _ in filled) / cores.count
    return math.pow(mean, 1 / NORM) + A_STAGE * len(every) / cores.count
