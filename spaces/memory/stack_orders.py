"""Placements of buffers that fill the memory, whatever the pieces look like: which lies on which, from the points of time alone.

Where a rectangle was cut up and no two of its vertical cuts have the same point of time, the buffers that end at a point lie side
by side, and those that begin there take their place. All orders of the stack for which that holds are a PQ-tree; where every point
of time leaves one, the buffers fall in one of them, and a tiling comes back whole: cut from edge to edge, in wheels, or in no such
way. Sizes are not asked, so tiles that have become smaller lie as they lay. Where that leaves no order, several cuts may share a point:
then those buffers belong together that are to the byte as large as what takes their place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.pq_tree import PQNode, any_order, sorted_elements, with_consecutive, with_replaced

MOST_BUFFERS = 4000
"""Buffers above which no tree is made: it takes a twentieth of a second for a thousand, and grows with what is live besides."""

MOST_LIVE = 200
"""Buffers live at a time above which none is made."""

MOST_AT_A_POINT = 16
"""Buffers that end or begin at a point of time above which it is not asked which of them belong together."""

VerticalCut = tuple[frozenset[int], list[int]]
"""What ends side by side, and what takes its place."""

StackChange = tuple[PQNode, frozenset[int], list[int]]
"""At a point of time: the orders before it, what ends, and what begins."""


def stacked(buffers: BufferArrays) -> IntArray | None:
    """Offsets, shape (buffers,); None where the points of time leave no order, or something ends or begins alone."""
    if len(buffers) > MOST_BUFFERS:
        return None
    begins, ends = _at_times(buffers.lower.tolist()), _at_times(buffers.upper.tolist())
    first, last = min(begins), max(ends)
    if begins.keys() - {first} != ends.keys() - {last} or len(begins[first]) > MOST_LIVE:
        return None
    whole = ((frozenset(ends[at]), begins[at]) for at in sorted(begins.keys() & ends.keys()))
    for cuts in (whole, _cuts(begins, ends, buffers.size)):
        above = _order(begins[first], cuts)
        if above is not None:
            return _fallen(above, buffers.size.tolist(), buffers.alignment.tolist())
    return None


def _order(first: list[int], cuts: Iterable[VerticalCut]) -> set[tuple[int, int]] | None:
    """Which lies next above which at any time."""
    tree, changes, live = any_order(first), list[StackChange](), len(first)
    for ending, beginning in cuts:
        narrowed = with_consecutive(tree, ending)
        live += len(beginning) - len(ending)
        if narrowed is None or live > MOST_LIVE:
            return None
        changes.append((narrowed, ending, beginning))
        tree = with_replaced(narrowed, ending, any_order(beginning))
    return _neighbours(list(tree.elements()), changes)


def _at_times(times: Sequence[int]) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for buffer, at in enumerate(times):
        found[at].append(buffer)
    return found


def _cuts(begins: Mapping[int, list[int]], ends: Mapping[int, list[int]], sizes: IntArray) -> Iterator[VerticalCut]:
    """What ends and begins at the points of time between the first and the last one, in their order; at one point the fewest first that
    are as large as what takes their place, which to the byte is seldom chance."""
    for at in sorted(begins.keys() & ends.keys()):
        ending, beginning = ends[at], begins[at]
        while max(len(ending), len(beginning)) <= MOST_AT_A_POINT:
            found = _fewest_as_large(sizes[ending], sizes[beginning])
            if found is None:
                break
            chosen = ([ending[k] for k in found[0]], [beginning[k] for k in found[1]])
            yield frozenset(chosen[0]), chosen[1]
            ending = [buffer for buffer in ending if buffer not in chosen[0]]
            beginning = [buffer for buffer in beginning if buffer not in chosen[1]]
        if ending:
            yield frozenset(ending), beginning


def _fewest_as_large(one: IntArray, other: IntArray) -> tuple[list[int], list[int]] | None:
    """Indices of the fewest of both together, all of neither, whose sizes add up to the same; None where there are none such."""
    sums, counts = zip(*(_of_subsets(sizes) for sizes in (one, other)), strict=True)
    orders = [np.lexsort((counts[side], sums[side])) for side in (0, 1)]
    shared, *first = np.intersect1d(*(sums[side][orders[side]] for side in (0, 1)), return_indices=True)
    chosen = [orders[side][first[side]] for side in (0, 1)]
    taken, taking = (counts[side][chosen[side]] for side in (0, 1))
    together = taken + taking
    fit = np.flatnonzero((shared > 0) & (taken < len(one)) & (taking < len(other)))
    if not len(fit):
        return None
    best = fit[np.argmin(together[fit])]
    masks = [int(chosen[side][best]) for side in (0, 1)]
    return _members(masks[0], len(one)), _members(masks[1], len(other))


def _of_subsets(sizes: IntArray) -> tuple[IntArray, IntArray]:
    """The sum and the number of the members of every subset; bit k of its index says whether k is in it."""
    sums, counts = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for size in sizes:
        sums, counts = np.concatenate([sums, sums + size]), np.concatenate([counts, counts + 1])
    return sums, counts


def _members(mask: int, count: int) -> list[int]:
    return [k for k in range(count) if mask >> k & 1]


def _neighbours(order: list[int], changes: Sequence[StackChange]) -> set[tuple[int, int]] | None:
    """Which lies next above which at any time: the last order, and before each change one that becomes the order after it."""
    above = set(pairwise(order))
    for tree, _, beginning in reversed(changes):
        begun = set(beginning)
        places = {element: place for place, element in enumerate(order) if element not in begun}
        there = next(place for place, element in enumerate(order) if element in begun)
        earlier = sorted_elements(tree, places.get, there)
        if earlier is None:
            return None
        order = earlier
        above.update(pairwise(order))
    return above


def _fallen(above: Iterable[tuple[int, int]], sizes: Sequence[int], alignments: Sequence[int]) -> IntArray | None:
    """Each as low as what is below it lets; None where something would lie above itself."""
    upper: dict[int, list[int]] = defaultdict(list)
    waiting = [0] * len(sizes)
    for low, high in above:
        upper[low].append(high)
        waiting[high] += 1
    offsets, ready, placed = [0] * len(sizes), [buffer for buffer, count in enumerate(waiting) if not count], 0
    while ready:
        low = ready.pop()
        placed += 1
        for high in upper[low]:
            top = -(-(offsets[low] + sizes[low]) // alignments[high]) * alignments[high]
            offsets[high] = max(offsets[high], top)
            waiting[high] -= 1
            if not waiting[high]:
                ready.append(high)
    return np.array(offsets, dtype=np.int64) if placed == len(sizes) else None
