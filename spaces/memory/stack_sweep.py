"""Orders of the stack of live buffers, from the first point of time to the last, where the memory is full all the time.

What ends at a point of time and lies side by side made room for what begins there in its place. All orders of the stack for which that
holds are a PQ-tree (`spaces.memory.pq_tree`), which narrows from point to point. Where several groups change at one point, the sizes say
how likely each division is (`spaces.memory.stack_groups`), and the tree how many of its orders are left by it: both logarithms add up, and
the best few divisions go on (beam search). One whose groups cannot be side by side, for what happened earlier, has no orders left.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.pq_tree import PQNode, any_order, with_consecutive, with_replaced
from kilotune.spaces.memory.stack_groups import StackGroups, gain_of, groups_at

MOST_AT_A_POINT = 60
"""Buffers that end or begin at a point of time above which groups are not told apart."""

MOST_LIVE = 250
"""Buffers that are live at one time above which there are no trees."""

LOOKED_AT = 200
"""Groups that are tried in the tree of a standing at most."""

DIGITS = 9
"""Standings whose gains have the same digits mostly are of the same orders, found in another way; one of them goes on."""


@dataclass(frozen=True)
class StackRule:
    """How groups are told apart. `width`: standings that go on from a point. `spread`: the standard deviation of sizes (`groups_at`); None:
    all that ends at a point is one group. `reluctance`: what a group loses that is not all that is left."""

    width: int = 1
    spread: float | None = None
    reluctance: float = 0.0


@dataclass(frozen=True)
class StackChange:
    """What ends side by side in all orders of `tree`, and what takes its place; `before` it, None for the first. Several may be at one
    point of time, of which one `is_first`."""

    before: StackChange | None
    tree: PQNode
    ending: tuple[int, ...]
    beginning: tuple[int, ...]
    is_first: bool


@dataclass(frozen=True)
class StackStanding:
    """The orders at a point of time, and what changed before. `ending`, `beginning`: bits of what still has to at this point; `groups` that
    have there."""

    tree: PQNode
    changes: StackChange | None = None
    gain: float = 0.0
    ending: int = 0
    beginning: int = 0
    groups: frozenset[tuple[int, int]] = frozenset()


def is_full(buffers: BufferArrays) -> bool:
    """Whether something ends and something begins at each point of time but for the first and the last one."""
    begins, ends = np.unique(buffers.lower), np.unique(buffers.upper)
    return len(begins) == len(ends) and bool((begins[1:] == ends[:-1]).all())


class StackSweep:
    """Sweeps over buffers that `is_full`. `spent`: the groups that were tried in trees so far."""

    def __init__(self, buffers: BufferArrays) -> None:
        self.spent = 0
        self._sizes = buffers.size
        self._begins, self._ends = _at_times(buffers.lower), _at_times(buffers.upper)
        self._bits: dict[int, int] = {}
        self._free: list[int] = []

    def last_standing(self, rule: StackRule, seconds: float) -> StackStanding | None:
        """The likeliest one after the last change; None where a point leaves no order, or `seconds` are over."""
        until = time.monotonic() + seconds if seconds < inf else inf
        first, *later = sorted(self._begins)
        self._bits, self._free = {}, [1 << bit for bit in reversed(range(2 * MOST_LIVE))]
        if len(self._begins[first]) > MOST_LIVE:
            return None
        standings = [StackStanding(any_order(self._with_bits(self._begins[first])))]
        for at in later:
            standings = self._passed(standings, at, rule, until)
            if not standings or len(self._bits) > MOST_LIVE or time.monotonic() > until:
                return None
        return standings[0]

    def _passed(
        self, standings: Sequence[StackStanding], at: int, rule: StackRule, until: float
    ) -> list[StackStanding]:
        """Those at the next point of time, the likeliest first."""
        ending, beginning = self._ends[at], self._begins[at]
        if len(beginning) > MOST_LIVE or (
            rule.spread is not None and max(len(ending), len(beginning)) > MOST_AT_A_POINT
        ):
            return []
        bits = {buffer: self._bits[buffer] for buffer in ending}, self._with_bits(beginning)
        point = _PointOfTime(ending, beginning, bits, self._sizes, rule)
        found = point.passed(standings, until)
        self.spent += point.tried
        for buffer in ending:
            self._free.append(self._bits.pop(buffer))
        return found

    def _with_bits(self, beginning: Sequence[int]) -> dict[int, int]:
        added = {buffer: self._free.pop() for buffer in beginning}
        self._bits |= added
        return added


class _PointOfTime:
    def __init__(
        self,
        ending: Sequence[int],
        beginning: Sequence[int],
        bits: tuple[dict[int, int], dict[int, int]],
        sizes: IntArray,
        rule: StackRule,
    ) -> None:
        self.tried = 0
        self._ending, self._beginning = ending, beginning
        self._end_bits, self._begin_bits = bits
        self._all_end_bits = sum(self._end_bits.values())
        self._end_sizes, self._begin_sizes = sizes[list(ending)], sizes[list(beginning)]
        self._typical = float(self._begin_sizes.mean())
        self._rule = rule
        self._groups: StackGroups | None = None
        if rule.spread is not None and len(ending) > 1 and len(beginning) > 1:
            self._groups = groups_at(self._end_sizes, self._begin_sizes, rule.spread)

    def passed(self, standings: Sequence[StackStanding], until: float) -> list[StackStanding]:
        """By how many buffers still have to end: the likeliest of those that are left the same go on. None do after `until`."""
        count, width = len(self._ending), self._rule.width
        levels: dict[int, list[StackStanding]] = defaultdict(list)
        everything = (1 << count) - 1, (1 << len(self._beginning)) - 1
        known: set[frozenset[tuple[int, int]]] = set()
        for number, one in enumerate(standings):
            levels[count].append(StackStanding(one.tree, one.changes, one.gain, *everything, frozenset({(-1, number)})))
        for left in range(count, 0, -1):
            for standing in sorted(levels[left], key=lambda one: -one.gain)[:width]:
                if time.monotonic() > until:
                    return []
                for after in self._next_ones(standing, left == count):
                    if after.groups not in known:
                        known.add(after.groups)
                        levels[after.ending.bit_count()].append(after)
        different = {round(one.gain, DIGITS): one for one in levels[0]}
        return sorted(different.values(), key=lambda one: -one.gain)[:width]

    def _next_ones(self, standing: StackStanding, is_first: bool) -> Iterator[StackStanding]:
        """After one more group."""
        gains: list[float] = []
        for gain, ends, begins in self._candidates(standing):
            if len(gains) >= self._rule.width and gain <= sorted(gains)[-self._rule.width]:
                return  # what the tree takes from it is no gain
            self.tried += 1
            members = sum(self._end_bits[buffer] for buffer in _chosen(self._ending, ends))
            tree = with_consecutive(standing.tree, members)
            if tree is None:
                continue
            gained = gain + tree.log_orders - standing.tree.log_orders
            gains.append(gained)
            beginning = _chosen(self._beginning, begins)
            new = any_order({buffer: self._begin_bits[buffer] for buffer in beginning})
            after = with_replaced(tree, members, new)
            yield StackStanding(
                after,
                StackChange(standing.changes, tree, _chosen(self._ending, ends), beginning, is_first),
                standing.gain + gained,
                standing.ending & ~ends,
                standing.beginning & ~begins,
                standing.groups | {(ends, begins)},
            )

    def _candidates(self, standing: StackStanding) -> list[tuple[float, int, int]]:
        """Gains and bits of the groups that may be next, the greatest gain first: all that is left, or less on both sides."""
        everything = (self._gain_of_all(standing), standing.ending, standing.beginning)
        if self._groups is None or not standing.tree.mask & ~self._all_end_bits:
            return [everything]
        there = _less_than(self._groups, standing.ending, standing.beginning)[:LOOKED_AT]
        columns = (self._groups.gain, self._groups.ending, self._groups.beginning)
        gain, *bits = (column[there] for column in columns)
        found = [*zip((gain - self._rule.reluctance).tolist(), *(one.tolist() for one in bits), strict=True)]
        if everything[0] > -inf:
            found.append(everything)
        return sorted(found, key=lambda one: -one[0])

    def _gain_of_all(self, standing: StackStanding) -> float:
        if self._rule.spread is None:
            return 0.0
        ends = self._end_sizes[list(_chosen(range(len(self._ending)), standing.ending))]
        begins = self._begin_sizes[list(_chosen(range(len(self._beginning)), standing.beginning))]
        return gain_of(ends, begins, self._rule.spread, self._typical)


def _less_than(groups: StackGroups, ending: int, beginning: int) -> IntArray:
    """Indices of groups of some of these, but not all that end, nor all that begin."""
    fit = ((groups.ending & ~ending) == 0) & ((groups.beginning & ~beginning) == 0)
    return np.flatnonzero(fit & (groups.ending != ending) & (groups.beginning != beginning))


def _chosen(buffers: Sequence[int], bits: int) -> tuple[int, ...]:
    return tuple(buffer for number, buffer in enumerate(buffers) if bits >> number & 1)


def _at_times(times: IntArray) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for buffer, at in enumerate(times.tolist()):
        found[at].append(buffer)
    return found
