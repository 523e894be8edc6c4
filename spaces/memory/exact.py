"""The exact search for the least peak: what is asked of each connected set of buffers until nothing lower is possible.

`spaces.memory.fitting` answers whether a set of buffers fits within a capacity, `spaces.memory.capacity_question` asks it with
one order after the other, and `spaces.memory.component_search` chooses the capacities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.component_search import VERY_LARGE, ComponentSearch
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.memory.search_note import UNBEGUN, ComponentProgress
from kilotune.spaces.memory.skyline import SkylineSearch, load_skyline


def first_placement(buffers: BufferArrays) -> IntArray:
    """Where the search begins, in bytes, shape (buffers,): of very many buffers one from below, for orders take minutes; else the best
    greedy order's."""
    if len(buffers) < VERY_LARGE or load_skyline() is None:
        return best_greedy(buffers)[1]
    offsets = np.zeros(len(buffers), dtype=np.int64)
    there = np.flatnonzero(buffers.size > 0)
    if len(there):
        found = SkylineSearch(buffers.subset(there), 0).placement()
        assert found is not None  # no clock ends it
        offsets[there] = found
    return offsets


@dataclass(frozen=True)
class PlacementSearchStep:
    """Where a search stands: the best offsets so far (bytes, in the order of the instance) and a bound on every peak. `progress`: that of
    its components, in the order of `BufferArrays.occupied_components`."""

    offsets: IntArray
    peak_bytes: int
    bound_bytes: int
    done: bool
    nodes: int
    progress: tuple[ComponentProgress, ...] = ()


def minimise_peak(
    buffers: BufferArrays,
    bound_bytes: int,
    goal_bytes: int | None = None,
    seed: int = 0,
    seconds_left: Callable[[], float] = lambda: math.inf,
    work_unit: int | None = None,
    begin: IntArray | None = None,
    begun: Sequence[ComponentProgress] = (),
) -> Iterator[PlacementSearchStep]:
    """Standings, each better than or as good as the one before; the last is `done` unless a component is too large.

    `bound_bytes`: a peak that no placement beats. With a goal the search is done when the peak is at most the goal,
    or a bound (the given one, too) above it. The seed says which orders are tried first. A step takes as long as its limit on work
    (some times `work_unit`, in buffers looked at), or until `seconds_left()` of the moment when it began have passed.

    `begin`: the placement to begin from, as `PlacementSearchStep.offsets`, None for `first_placement`; `begun`: the progress of an earlier
    search of the same buffers, from which this one goes on; none, or of all components.
    """
    goal = bound_bytes if goal_bytes is None else max(goal_bytes, bound_bytes)
    offsets = first_placement(buffers) if begin is None else begin
    offsets = np.where(buffers.size > 0, offsets, 0)  # what takes no byte is in no component, and would keep its place
    peak = int((offsets + buffers.size).max(initial=0))
    if peak <= goal:
        yield PlacementSearchStep(offsets, peak, min(bound_bytes, peak), True, 0)
        return
    if len(buffers) >= VERY_LARGE:
        yield PlacementSearchStep(offsets, peak, min(bound_bytes, peak), False, 0)
    components = buffers.occupied_components()
    befores = begun if len(begun) == len(components) else [UNBEGUN] * len(components)
    parts = [
        (members, ComponentSearch(buffers.subset(members), offsets[members], seed, work_unit, begun=before))
        for members, before in zip(components, befores, strict=True)
    ]
    for members, part in parts:
        offsets[members] = part.offsets
    while True:
        peak = max((part.peak for _, part in parts), default=0)
        bound = max([min(bound_bytes, peak), *(part.bound for _, part in parts)])
        finished = peak <= max(goal, bound) or (goal_bytes is not None and bound > goal_bytes)
        progress = tuple(part.progress for _, part in parts)
        yield PlacementSearchStep(offsets, peak, bound, finished, sum(part.nodes for _, part in parts), progress)
        if finished:
            return
        members, worst = max(parts, key=lambda one: one[1].peak)
        if not worst.searchable:
            return
        worst.step(max(bound, goal), seconds_left())
        offsets = offsets.copy()
        offsets[members] = worst.offsets
