"""Ticks that no mapping of a network beats, whatever bits its weights have, a layer each.

Fewer bits take fewer columns, but no less of everything: a layer that is cut into fewer column blocks has fewer and thicker streams, more
for each digital unit to do, and blocks that fill their crossbars better. So a layer counts as the best of it at any number of bits, and
what it sends another one as the best of both at any numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.lowered import LayerCost, LoweredPipeline, flow_ticks, least_cores
from kilotune.spaces.cm.open_blocks import CutNetwork, least_sent_out, least_taken_in, thinnest_streams
from kilotune.spaces.cm.replication import CHAINED, Replication
from kilotune.spaces.cm.seams import PortTicks

FigureT = TypeVar("FigureT", bound=Any)


@dataclass(frozen=True)
class BoundInAnyBits:
    """Ticks per image that no mapping beats, and cores."""

    ticks: int
    cores: int

    @classmethod
    def of(cls, levels: Sequence[CmCandidates]) -> BoundInAnyBits:
        """For a network each of whose layers is as in one of `levels`: the mappings of one network with all weights in as many bits, the
        most first, so that the last one's layers have the fewest blocks."""
        ways, last = _ways(levels), levels[-1]
        by_level = [_open_costs(level, cut, ways) for level, cut in zip(levels, ways, strict=True)]
        costs = tuple(map(_least_cost, zip(*by_level, strict=True)))
        ticks = last.least_ticks_of(costs, tuple(thinnest_streams(last.layer_streams, ways)))
        return cls(ticks, least_cores(costs, {}, last.cores))


def _ways(levels: Sequence[CmCandidates]) -> list[CutNetwork]:
    return [CutNetwork(level.network.lower({}), level.lowered({}).streams) for level in levels]


def _open_costs(level: CmCandidates, cut: CutNetwork, ways: Sequence[CutNetwork]) -> list[LayerCost]:
    """The level's, with as little between its layers as there is when the others are cut in any way."""
    taken_in, sent_out = least_taken_in(cut), least_sent_out(cut, ways)
    chained = {shape.name: CHAINED for shape in level.shapes if shape.row_blocks > 2}
    flows = [_open_flows(level, cut, level.lowered(way), (taken_in, sent_out)) for way in ({}, chained)]
    saved = dict.fromkeys(cut.members, 0)
    for stream in level.lowered({}).streams if level.hardware.stages_per_core == 1 else ():
        pair = cut.layers_of(stream)
        if pair is not None:
            saved[pair[1]] += stream.image_load
    for layer, stages in cut.members.items():
        saved[layer] -= sum(taken_in.get(stage, 0) for stage in stages) if saved[layer] else 0
    return [
        replace(
            cost,
            flow_ticks=flows[0][cost.shape.name],
            chained_flow_ticks=flows[1][cost.shape.name],
            link_load=cost.link_load - saved[cost.shape.name],
        )
        for cost in level.costs
    ]


def _open_flows(
    level: CmCandidates, cut: CutNetwork, lowered: LoweredPipeline, between: tuple[Mapping[int, int], Mapping[int, int]]
) -> dict[str, float]:
    """See `flow_ticks`. between: what other layers send each stage, and what it sends them."""
    stages = range(len(lowered.pipeline.stages))
    into, out = ([loads.get(stage, 0) for stage in stages] for loads in between)
    for stream in lowered.streams:
        if cut.layers_of(stream) is None:
            for loads, end in ((into, stream.reader), (out, stream.writer)):
                if end in stages:
                    loads[end] += stream.image_load
    return flow_ticks(lowered, level.hardware, into, out)


def _least_cost(costs: Sequence[LayerCost]) -> LayerCost:
    """What one layer asks of the accelerator at least. Its cores are the last one's, and its row blocks the better of chained and not: at
    more bits there may be more of them, which may be chained where those of the last one may not."""
    ticks = (min(max(each) for cost in costs for each in (cost.once_ticks, cost.chained_ticks)),)
    flow = min(each for cost in costs for each in (cost.flow_ticks, cost.chained_flow_ticks))
    rows = min(sum(cost.stage_rows) for cost in costs)
    return replace(
        costs[-1],
        shape=replace(costs[-1].shape, row_blocks=1),
        once_ticks=ticks,
        chained_ticks=ticks,
        flow_ticks=flow,
        chained_flow_ticks=flow,
        ports=PortTicks(_least_of([c.ports.shared for c in costs]), _least_of([c.ports.whole for c in costs])),
        stage_rows=(rows, *(0 for _ in costs[-1].stage_rows[1:])),
        all_ticks=min(cost.all_ticks for cost in costs),
        link_load=min(cost.link_load for cost in costs),
        gmem_loads=(min(cost.gmem_loads[0] for cost in costs), min(cost.gmem_loads[1] for cost in costs)),
    )


def _least_of(figures: Sequence[Mapping[Replication, FigureT]]) -> dict[Replication, FigureT]:
    """For each replication without chained row blocks, which the ports of GMEM do not see."""
    return {key: min(each[key] for each in figures) for key in figures[-1] if not key.chained}
