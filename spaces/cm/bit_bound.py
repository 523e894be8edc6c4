"""Ticks that no mapping of a network beats, whatever bits its weights have, a layer each.

Fewer bits take fewer columns, but no less of everything: a layer that is cut into fewer column blocks has fewer and thicker streams, more
for each digital unit to do, and blocks that fill their crossbars better. So a layer counts as the best of it at any number of bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.lowered import LayerCost
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.seams import PortTicks
from kilotune.spaces.cm.whole_streams import LayerStream

NumberT = TypeVar("NumberT", float, Fraction)


def least_ticks_in_any_bits(levels: Sequence[CmCandidates]) -> int:
    """Ticks per image that no mapping beats of a network each of whose layers is as in one of `levels`: the mappings of one network with
    all weights in as many bits, the most first, so that the last one's layers have the fewest blocks."""
    costs = tuple(map(_least_cost, zip(*(level.costs for level in levels), strict=True)))
    streams = tuple(map(_thinnest, zip(*(level.layer_streams for level in levels), strict=True)))
    return levels[-1].least_ticks_of(costs, streams)


def _least_cost(costs: Sequence[LayerCost]) -> LayerCost:
    """What one layer asks of the accelerator at least. Its cores and their rows are the last one's."""
    # At more bits there may be more row blocks, which may be chained where those of the last one may not.
    ticks = (min(max(each) for cost in costs for each in (cost.once_ticks, cost.chained_ticks)),)
    flow = min(each for cost in costs for each in (cost.flow_ticks, cost.chained_flow_ticks))
    ports = PortTicks(
        _least_of([cost.ports.shared for cost in costs], Fraction(0)),
        _least_of([cost.ports.whole for cost in costs], 0.0),
    )
    return replace(
        costs[-1],
        once_ticks=ticks,
        chained_ticks=ticks,
        flow_ticks=flow,
        chained_flow_ticks=flow,
        ports=ports,
        all_ticks=min(cost.all_ticks for cost in costs),
    )


def _least_of(figures: Sequence[Mapping[Replication, NumberT]], nothing: NumberT) -> dict[Replication, NumberT]:
    return {key: min(each.get(key, nothing) for each in figures) for key in figures[-1]}


def _thinnest(streams: Sequence[LayerStream]) -> LayerStream:
    """Between the same two layers, by the same window."""
    return min(streams, key=lambda stream: stream.load)
