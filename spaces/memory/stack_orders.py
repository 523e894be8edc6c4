"""Placements of buffers that fill the memory, whatever the pieces look like: which lies on which, from when they live.

`spaces.memory.stack_sweep` finds the orders of the stack of live buffers that a full memory permits. From one of the last point of time
back to the first, those before are chosen so that nothing changes places; then each buffer lies on what is below it at any time. So a
tiling comes back whole: cut from edge to edge, in wheels, or in no such way. Where no two of its vertical cuts have the same point of
time, no sizes are asked, and pieces that have become smaller lie as they lay; elsewhere sweeps forwards and backwards tell one another how
points are divided (`spaces.memory.stack_divisions`). All fall from there (`spaces.memory.falling`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import pairwise
from math import gcd

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.falling import fallen
from kilotune.spaces.memory.pq_tree import sorted_elements
from kilotune.spaces.memory.stack_divisions import DivisionSearch
from kilotune.spaces.memory.stack_groups import spread_of_sizes
from kilotune.spaces.memory.stack_standings import StackStanding
from kilotune.spaces.memory.stack_sweep import StackRule, is_full

MOST_BUFFERS = 20_000
"""Buffers above which no orders are looked for."""

LEAST_FULL = 0.8
"""The least live sum, as a share of the largest one, from which on a memory may once have been full."""

WIDTHS = (4, 8, 2, 16)
"""Standings that go on from a point of time, in sweeps one after the other; each is made forwards in time and backwards."""

LOOSE_WIDTHS = (16, 32, 64, 128, 256)
"""Likewise where sums of sizes say little. With each of these and each of RELUCTANCES, several sweeps share what they learn, and the next
ones learn anew."""

LOOSE_BREAKS = (0, 0, 8)
"""At how many points of time groups need not fit, in the sweeps with each of these, one after the other."""

RELUCTANCES = (7.0, 4.0)
"""What a group loses there that is not all that is left: most points have one group. With either, in sweeps one after the other, some
tilings have an order that have none with the other one."""

MOST_FOUND = 2
"""Orders without a break that are looked for where sums of sizes say little, the second one only by sweeps that share what they learn with
those that found the first: a division or two of that may be wrong, and nearly fit. Others find much the same."""

WORK_OF_A_TREE = 1000
"""What a group that is tried in a tree takes, in buffers looked at."""


class StackSearch:
    """The search of one connected set of buffers, of positive sizes."""

    def __init__(self, buffers: BufferArrays) -> None:
        self.spent = 0
        """Work so far, in buffers looked at."""
        self._buffers = buffers
        live = buffers.section_bytes
        self._is_exact = int(live.min()) == int(live.max())
        may_be_full = len(buffers) <= MOST_BUFFERS and live.min() >= LEAST_FULL * live.max() and is_full(buffers)
        spread = 0.0 if self._is_exact or not may_be_full else spread_of_sizes(buffers)
        self._rules = iter(_rules(spread)) if may_be_full else iter(())
        self.exhausted = not may_be_full
        """Whether nothing is left to be tried."""
        self._found = 0
        self._learning = 0, 0.0
        """The width and the reluctance of the sweeps that share what they learn."""
        self._divisions: DivisionSearch | None = None

    def placement(self, seconds: float) -> IntArray | None:
        """What the next rule finds: offsets in bytes, shape (buffers,); None where it finds none, within `seconds`."""
        rule, is_backwards = next(self._rules, (None, False))
        learns_anew = rule is not None and (rule.width, rule.reluctance) != self._learning
        if rule is None or (rule.spread and self._found and (learns_anew or rule.breaks or self._found == MOST_FOUND)):
            self.exhausted = True
            return None
        if self._divisions is None or learns_anew:
            buffers = _in_units(self._buffers)
            self._learning = rule.width, rule.reluctance
            self._divisions = DivisionSearch(buffers, _backwards(buffers))
        before = self._divisions.spent
        last = self._divisions.standing(rule, is_backwards, seconds)
        self.spent += (self._divisions.spent - before + len(self._buffers)) * WORK_OF_A_TREE
        if last is None:
            return None
        self._found += not last.breaks
        self.exhausted = rule.spread is None  # nothing else is as sure as what the points of time alone say
        return placement_of(last, self._buffers)


def placement_of(last: StackStanding, buffers: BufferArrays) -> IntArray:
    """By orders that it permits: offsets in bytes, shape (buffers,)."""
    return fallen(buffers, _piled(_lying_on(last), buffers))


def _rules(spread: float) -> Iterator[tuple[StackRule, bool]]:
    """And whether it is for the time backwards."""
    yield StackRule(), False
    if spread:
        rules = [
            StackRule(width, spread, reluctance, breaks)
            for width in LOOSE_WIDTHS
            for reluctance in RELUCTANCES
            for breaks in LOOSE_BREAKS
        ]
    else:
        rules = [StackRule(width, 0.0) for width in WIDTHS]
    for rule in rules:
        for is_backwards in (False, True):
            yield rule, is_backwards


def _in_units(buffers: BufferArrays) -> BufferArrays:
    """Sizes as multiples of what all are multiples of: the fewer sizes there are, the more are the same by chance."""
    unit = reduce(gcd, buffers.size.tolist())
    return BufferArrays(buffers.lower, buffers.upper, buffers.size // unit, buffers.alignment)


def _backwards(buffers: BufferArrays) -> BufferArrays:
    return BufferArrays(-buffers.upper, -buffers.lower, buffers.size, buffers.alignment)


def _lying_on(last: StackStanding) -> set[tuple[int, int]]:
    """Pairs of which the second lies next above the first at some time: in an order of the last point of time, and before each change
    in one that becomes the order after it."""
    order, change = list(last.tree.elements()), last.changes
    found = set(pairwise(order))
    while change is not None:
        places = {element: place for place, element in enumerate(order)}
        if change.beginning:
            places |= dict.fromkeys(change.ending, min(places[element] for element in change.beginning))
        earlier = sorted_elements(change.tree, places)
        assert earlier is not None  # the tree before was the same but for what changed
        order = earlier
        if change.is_first:
            found.update(pairwise(order))
        change = change.before
    return found


def _piled(lying_on: Iterable[tuple[int, int]], buffers: BufferArrays) -> IntArray:
    """Each as low as what is below it lets. Nothing lies above itself: a ring of buffers that lie on each other, each live together
    with the next, would have three of them live together that lie in a ring."""
    sizes, alignments = buffers.size.tolist(), buffers.alignment.tolist()
    above: dict[int, list[int]] = defaultdict(list)
    waiting = [0] * len(sizes)
    for low, high in lying_on:
        above[low].append(high)
        waiting[high] += 1
    offsets, ready = [0] * len(sizes), [buffer for buffer, count in enumerate(waiting) if not count]
    while ready:
        low = ready.pop()
        for high in above[low]:
            top = -(-(offsets[low] + sizes[low]) // alignments[high]) * alignments[high]
            offsets[high] = max(offsets[high], top)
            waiting[high] -= 1
            if not waiting[high]:
                ready.append(high)
    assert not any(waiting)
    return np.array(offsets, dtype=np.int64)
