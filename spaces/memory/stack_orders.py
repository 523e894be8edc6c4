"""Placements of buffers that fill the memory, whatever the pieces look like: which lies on which, from the points of time alone.

Where a rectangle was cut up and no two of its vertical cuts have the same point of time, the buffers that end at a point lie side
by side, and those that begin there take their place. All orders of the stack for which that holds are a PQ-tree; where every point
of time leaves one, the buffers fall in one of them, and a tiling comes back whole: cut from edge to edge, in wheels, or in no such
way. Sizes are not asked, so tiles that have become smaller lie as they lay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.pq_tree import PQNode, any_order, sorted_elements, with_consecutive, with_replaced

MOST_BUFFERS = 4000
"""Buffers above which no tree is made: it takes a twentieth of a second for a thousand, and grows with what is live besides."""

MOST_LIVE = 200
"""Buffers live at a time above which none is made."""

Change = tuple[PQNode, frozenset[int], list[int]]
"""At a point of time: the orders before it, what ends, and what begins."""


def stacked(buffers: BufferArrays) -> IntArray | None:
    """Offsets, shape (buffers,); None where the points of time leave no order, or something ends or begins alone."""
    if len(buffers) > MOST_BUFFERS:
        return None
    begins, ends = _at_times(buffers.lower.tolist()), _at_times(buffers.upper.tolist())
    first, last = min(begins), max(ends)
    if begins.keys() - {first} != ends.keys() - {last} or len(begins[first]) > MOST_LIVE:
        return None
    tree, changes = any_order(begins[first]), list[Change]()
    live = len(begins[first])
    for at in sorted(begins.keys() - {first}):
        ending, beginning = frozenset(ends[at]), begins[at]
        narrowed = with_consecutive(tree, ending)
        live += len(beginning) - len(ending)
        if narrowed is None or live > MOST_LIVE:
            return None
        changes.append((narrowed, ending, beginning))
        tree = with_replaced(narrowed, ending, any_order(beginning))
    above = _neighbours(list(tree.elements()), changes)
    return None if above is None else _fallen(above, buffers.size.tolist(), buffers.alignment.tolist())


def _at_times(times: Sequence[int]) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for buffer, at in enumerate(times):
        found[at].append(buffer)
    return found


def _neighbours(order: list[int], changes: Sequence[Change]) -> set[tuple[int, int]] | None:
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
