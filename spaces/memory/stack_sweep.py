"""Orders of the stack of live buffers, from the first point of time to the last, where the memory is full all the time.

What ends at a point of time and lies side by side made room for what begins there in its place. All orders of the stack for which that
holds are a PQ-tree (`spaces.memory.pq_tree`), which narrows from point to point. Where several groups change at one point, the sizes say
how likely each division is (`spaces.memory.stack_groups`), and the tree how many of its orders are left by it: both logarithms add up, and
the best few divisions go on (beam search). One whose groups cannot be side by side, for what happened earlier, has no orders left.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.pq_tree import any_order, with_consecutive, with_replaced
from kilotune.spaces.memory.stack_breaks import StackEvents, broken_changes
from kilotune.spaces.memory.stack_groups import StackGroups, gain_of, groups_at
from kilotune.spaces.memory.stack_standings import (
    DIGITS,
    Greatest,
    LikeliestStandings,
    StackChange,
    StackStanding,
)

MOST_AT_A_POINT = 60
"""Buffers that end or begin at a point of time above which groups are not told apart."""

MOST_LIVE = 250
"""Buffers that are live at one time above which there are no trees."""

LOOKED_AT = 200
"""Groups that are tried in the tree of a standing at most."""

BREAK, BREAK_OF_SIZE = 20.0, 10.0
"""What a break loses, and besides for each time that places differ from what is put into them by what begins there on average."""


Division = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""Groups of a point of time: what ends, and what takes its place."""


@dataclass(frozen=True)
class StackRule:
    """How groups are told apart. `width`: standings that go on from a point. `spread`: the standard deviation of sizes (`groups_at`); None:
    all that ends at a point is one group. `reluctance`: what a group loses that is not all that is left. `breaks`: points of time at which
    no groups need fit, at most (`spaces.memory.stack_breaks`)."""

    width: int = 1
    spread: float | None = None
    reluctance: float = 0.0
    breaks: int = 0


@dataclass(frozen=True)
class StackPiece:
    """The last `standings` of a sweep that began at the point `begin` with all orders. `end`: the point that leaves none of them, or
    None where the time ends."""

    begin: int
    end: int | None
    standings: Sequence[StackStanding]


def is_full(buffers: BufferArrays) -> bool:
    """Whether something ends and something begins at each point of time but for the first and the last one."""
    begins, ends = np.unique(buffers.lower), np.unique(buffers.upper)
    return len(begins) == len(ends) and bool((begins[1:] == ends[:-1]).all())


class StackSweep:
    """Sweeps over buffers that `is_full`. `spent`: the groups that were tried in trees so far."""

    def __init__(self, buffers: BufferArrays) -> None:
        self.spent = 0
        self._buffers = buffers
        self._sizes = buffers.size
        self._begins, self._ends = _at_times(buffers.lower), _at_times(buffers.upper)
        self._bits: dict[int, int] = {}
        self._free: list[int] = []

    def pieces(self, rule: StackRule, seconds: float, known: Mapping[int, Division]) -> Iterator[StackPiece]:
        """From the first point of time on, and again from each one that leaves no order, as if nothing were known of what is live there.
        Points with a `known` division are divided so, where any order allows that. None follow when `seconds` are over."""
        until = time.monotonic() + seconds if seconds < inf else inf
        begin, *later = sorted(self._begins)
        most = MOST_LIVE if rule.spread is None else MOST_AT_A_POINT
        if any(max(len(self._begins[at]), len(self._ends[at])) > most for at in later):
            return
        standings = self._any_order(begin)
        for at in later:
            if time.monotonic() > until or not standings or len(self._bits) > MOST_LIVE:
                return
            found = self._passed(standings, at, rule, until, known.get(at))
            if not found and time.monotonic() <= until:
                yield StackPiece(begin, at, standings)
                begin, found = at, self._any_order(at)
            standings = found
        if standings:
            yield StackPiece(begin, None, standings)

    def _any_order(self, begin: int) -> list[StackStanding]:
        """All orders of what is live from a point on; nothing where that is too much."""
        self._bits, self._free = {}, [1 << bit for bit in reversed(range(2 * MOST_LIVE))]
        live = np.flatnonzero((self._buffers.lower <= begin) & (begin < self._buffers.upper)).tolist()
        return [StackStanding(any_order(self._with_bits(live)))] if len(live) <= MOST_LIVE else []

    def _passed(
        self, standings: Sequence[StackStanding], at: int, rule: StackRule, until: float, division: Division | None
    ) -> list[StackStanding]:
        """Those at the next point of time, the likeliest first."""
        ending, beginning = self._ends[at], self._begins[at]
        bits = {buffer: self._bits[buffer] for buffer in ending}, self._with_bits(beginning)
        point = _PointOfTime(ending, beginning, bits, self._sizes, rule)
        found = point.divided(standings, division) if division else []
        found = found or point.passed(standings, until)
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
        self._smallest_first = [1 << number for number in np.argsort(self._end_sizes, kind="stable").tolist()]
        self._typical = float(self._begin_sizes.mean())
        self._rule = rule
        self._gains: dict[tuple[int, int], float] = {}
        self._groups: StackGroups | None = None
        if rule.spread is not None and len(ending) > 1 and len(beginning) > 1:
            self._groups = groups_at(self._end_sizes, self._begin_sizes, rule.spread)

    def divided(self, standings: Sequence[StackStanding], division: Division) -> list[StackStanding]:
        """Those that have orders left by these groups."""
        found = (self._after(one, division) for one in standings)
        return [one for one in found if one is not None]

    def _after(self, standing: StackStanding, division: Division) -> StackStanding | None:
        tree, changes = standing.tree, standing.changes
        for number, (ending, beginning) in enumerate(division):
            members = sum(self._end_bits[buffer] for buffer in ending)
            before = with_consecutive(tree, members)
            if before is None:
                return None
            new = any_order({buffer: self._begin_bits[buffer] for buffer in beginning})
            tree = with_replaced(before, members, new)
            changes = StackChange(changes, before, ending, beginning, not number)
        return StackStanding(tree, changes, standing.gain, breaks=standing.breaks)

    def passed(self, standings: Sequence[StackStanding], until: float) -> list[StackStanding]:
        """By how many buffers still have to end: the likeliest of those that are left the same go on. None do after `until`."""
        count, width = len(self._ending), self._rule.width
        levels: dict[int, LikeliestStandings] = defaultdict(lambda: LikeliestStandings(width))
        everything = (1 << count) - 1, (1 << len(self._beginning)) - 1
        for number, one in enumerate(standings):
            here = frozenset({(-1, number)})
            levels[count].add(StackStanding(one.tree, one.changes, one.gain, *everything, here, one.breaks))
        for left in range(count, 0, -1):
            for standing in levels[left].standings():
                if time.monotonic() > until:
                    return []
                for after in self._next_ones(standing, left == count, levels):
                    levels[after.ending.bit_count()].add(after)
        if not levels[0].found:
            stuck = [one for left in [*levels] for one in levels[left].standings() if one.breaks < self._rule.breaks]
            for standing in stuck:
                levels[0].add(self._broken(standing, standing.ending == everything[0]))
        different = {round(one.gain, DIGITS): one for one in levels[0].found}
        return sorted(different.values(), key=lambda one: -one.gain)[:width]

    def _broken(self, standing: StackStanding, is_first: bool) -> StackStanding:
        """After the rest of the point, where no groups fit."""
        ending = _events(self._ending, standing.ending, self._end_bits, self._end_sizes)
        beginning = _events(self._beginning, standing.beginning, self._begin_bits, self._begin_sizes)
        changes, bytes_off = broken_changes(standing.tree, ending, beginning)
        last = standing.changes
        for number, one in enumerate(changes):
            last = StackChange(last, one.tree, one.ending, one.beginning, is_first and not number)
        lost = BREAK + BREAK_OF_SIZE * bytes_off / self._typical
        return StackStanding(changes[-1].after, last, standing.gain - lost, breaks=standing.breaks + 1)

    def _next_ones(
        self, standing: StackStanding, is_first: bool, levels: Mapping[int, LikeliestStandings]
    ) -> Iterator[StackStanding]:
        """After one more group."""
        gains = Greatest(self._rule.width)
        for gain, ends, begins in self._candidates(standing):
            if gain <= gains.least:
                return  # what the tree takes from it is no gain
            if standing.gain + gain <= levels[(standing.ending & ~ends).bit_count()].gains.least:
                continue
            self.tried += 1
            members = sum(self._end_bits[buffer] for buffer in _chosen(self._ending, ends))
            tree = with_consecutive(standing.tree, members)
            if tree is None:
                continue
            gained = gain + tree.log_orders - standing.tree.log_orders
            gains.add(gained)
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
                standing.breaks,
            )

    def _candidates(self, standing: StackStanding) -> list[tuple[float, int, int]]:
        """Gains and bits of the groups that may be next, the greatest gain first: all that is left, or less on both sides. Where sums are
        nearly the same, the next group is that of the smallest buffer that still has to end."""
        everything = (self._gain_of_all(standing), standing.ending, standing.beginning)
        if self._groups is None or not standing.tree.mask & ~self._all_end_bits:
            return [everything]
        there = _less_than(self._groups, standing.ending, standing.beginning)
        if self._rule.spread:  # many divisions are nearly as likely, and each is reached in one way only
            smallest = next(bit for bit in self._smallest_first if bit & standing.ending)
            there = there[(self._groups.ending[there] & smallest) > 0]
        there = there[:LOOKED_AT]
        columns = (self._groups.gain, self._groups.ending, self._groups.beginning)
        gain, *bits = (column[there] for column in columns)
        found = [*zip((gain - self._rule.reluctance).tolist(), *(one.tolist() for one in bits), strict=True)]
        if everything[0] > -inf:
            found.append(everything)
        return sorted(found, key=lambda one: -one[0])

    def _gain_of_all(self, standing: StackStanding) -> float:
        known = self._gains.get((standing.ending, standing.beginning))
        if known is None:
            known = self._gains[standing.ending, standing.beginning] = self._gain_of_rest(standing)
        return known

    def _gain_of_rest(self, standing: StackStanding) -> float:
        if self._rule.spread is None:
            return 0.0
        ends = self._end_sizes[list(_chosen(range(len(self._ending)), standing.ending))]
        begins = self._begin_sizes[list(_chosen(range(len(self._beginning)), standing.beginning))]
        return gain_of(ends, begins, self._rule.spread, self._typical)


def _events(buffers: Sequence[int], chosen: int, bits: dict[int, int], sizes: IntArray) -> StackEvents:
    there = {
        buffer: int(size)
        for number, (buffer, size) in enumerate(zip(buffers, sizes, strict=True))
        if chosen >> number & 1
    }
    return StackEvents(bits, there)


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
