"""The search of one connected set of buffers: several ways to a lower peak, each with its share of the work.

- the goal itself is asked for: only this can prove that no placement is lower;
- something on the way is asked for: a capacity half the way down from the best peak to the goal, then less, until one is met;
- buffers that fit together are glued, and the fewer ones searched in the same way (`spaces.memory.gluing`);
- buffers that almost fit together are glued loosely, and the blocks moved about (`spaces.memory.loose_search`);
- buffers that follow one another alone are glued, the blocks searched in the same way, and all fall from where they lie then
  (`spaces.memory.succession_search`);
- where the memory seems to be full all the time, orders of the stack of live buffers are looked for (`spaces.memory.stack_orders`);
- where there are very many, guided ejection moves a few at a time (`spaces.memory.ejecting`), and in a lower memory those that overlap
  push one another aside (`spaces.memory.separating`);
- where there are very many, all are placed from below, again and again, and where no byte may be left unused is learned
  (`spaces.memory.skyline`); over few points of time several placements at once (`spaces.memory.skyline_beam`); of so many that the caller
  did not try them, greedy orders get their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from math import gcd

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.capacity_question import CapacityQuestion
from kilotune.spaces.memory.ejecting import WORK as EJECTION_WORK
from kilotune.spaces.memory.ejecting import Ejection
from kilotune.spaces.memory.fit_result import FitStatus
from kilotune.spaces.memory.gluing import GluedBuffers, glued
from kilotune.spaces.memory.loose_search import EJECTION_WORK as LOOSE_WORK
from kilotune.spaces.memory.loose_search import LooseSearch
from kilotune.spaces.memory.native import load_ejection
from kilotune.spaces.memory.orders import best_greedy, greedy_placements
from kilotune.spaces.memory.search_note import UNBEGUN, ComponentProgress
from kilotune.spaces.memory.separating import SeparationSearch, is_separable, load_separation
from kilotune.spaces.memory.skyline import SkylineSearch, load_skyline
from kilotune.spaces.memory.skyline_beam import BeamSearch, has_few_points, load_beam
from kilotune.spaces.memory.stack_orders import StackSearch
from kilotune.spaces.memory.succession_search import SuccessionSearch

LARGE = 500
"""Buffers of a component from which on ejection and placements from below take part: few questions are answered there."""

VERY_LARGE = 5000
"""Buffers of a component from which on no questions are asked, which take seconds each; greedy orders are tried on the way."""

MOST_PAIRS = 40_000_000
"""Conflicting pairs of a component above which its lists of neighbours would not fit in memory: nothing is asked or ejected then."""

MOST_BUFFERS = (1 << 20) - 1
"""Buffers of a component above which nothing is asked or ejected either."""

FIRST_SHARE = 0.5
"""The share of the way from the best peak to the goal that is asked for; half of it after a failure, down to the least step."""

WORK_ON_THE_WAY = 40_000_000
"""Buffers looked at for one capacity on the way before a higher one is asked for; about a second."""

FEWEST_LOOSE = 100
"""Buffers of a component from which on they are glued loosely: fewer are searched as they are."""

WORK_BEFORE_LOOSE = 40_000_000
"""What the other ways get before the first loose gluing: most programs are solved by then."""

SHARES = {
    "goal": 2,
    "way": 1,
    "glued": 3,
    "loose": 0.5,
    "lives": 1.5,
    "ejection": 1,
    "skyline": 1,
    "greedy": 1,
    "beam": 1,
    "separation": 1,
    "stacks": 3,
}
"""How the work is divided among the ways that are open."""

LARGE_SHARES = {
    "goal": 2,
    "way": 1,
    "glued": 8,
    "loose": 2,
    "lives": 16,
    "ejection": 1,
    "skyline": 1,
    "greedy": 1,
    "beam": 64,
    "separation": 8,
    "stacks": 16,
}
"""How the work is divided from LARGE buffers on, about which a question is seldom answered, and among ways for what they are glued to."""

FEW_POINTS_SHARES = {
    "goal": 0.3,
    "way": 0.15,
    "glued": 2,
    "loose": 2,
    "lives": 48,
    "ejection": 8,
    "skyline": 0.3,
    "greedy": 1,
    "beam": 64,
    "separation": 32,
    "stacks": 16,
}
"""And where a beam search places them: guided ejection lowers what that has come to, which goes on from there. Regluing takes long."""

BESIDE_LIVES = 1 / 16
"""The part of its share that separation gets while successions are searched, which come lower there in the same time."""

LUCK = 4
"""By how much the share grows of the way that lowered the peak last."""

COMPARED_AT_ONCE = 16
"""Buffers that placing in an order looks at in the time of one elsewhere."""

VERY_LARGE_SHARES = {
    "goal": 1,
    "way": 1,
    "glued": 8,
    "loose": 4,
    "lives": 8,
    "ejection": 4,
    "skyline": 8,
    "greedy": 4,
    "beam": 8,
    "separation": 4,
    "stacks": 8,
}
"""How the work is divided from VERY_LARGE buffers on."""


class ComponentSearch:
    """`offsets` (bytes, shape (buffers,)) is the best placement so far; no placement's peak is below `bound`. Sizes are positive.
    `shares`: how the work is divided; None: as the number of buffers says. `begun`: `progress` of an earlier search."""

    def __init__(
        self,
        buffers: BufferArrays,
        offsets: IntArray,
        seed: int = 0,
        work_unit: int | None = None,
        gluing: bool = True,
        shares: Mapping[str, float] | None = None,
        succession: bool = True,
        begun: ComponentProgress = UNBEGUN,
    ) -> None:
        self.buffers, self.offsets = buffers, offsets
        self.bound = int(buffers.section_bytes.max())
        self.nodes = 0
        self._seed, self._unit = seed, work_unit
        self._least_step = reduce(gcd, buffers.size.tolist())  # without alignments, peaks are sums of sizes
        self._share, self._left_on_the_way = FIRST_SHARE, WORK_ON_THE_WAY
        # What the ways had learned is not kept: they begin anew, and would wait for nothing if what they got before counted.
        self._spent = dict.fromkeys(SHARES, 0)
        self._begun = begun
        self._shares = shares or _shares_of(buffers)
        self._lucky: str | None = None
        self._questions: dict[int, CapacityQuestion] = {}
        self._ejection: Ejection | None = None
        self._separation: SeparationSearch | None = None
        self._skyline: SkylineSearch | None = None
        self._beam: BeamSearch | None = None
        self._greedy: Iterator[IntArray] | None = greedy_placements(buffers) if len(buffers) >= VERY_LARGE else None
        self._glued = _GluedSearch.of(buffers, seed, work_unit, self._shares) if gluing else None
        is_loose = len(buffers) >= FEWEST_LOOSE and load_ejection() is not None and self._glued is None
        self._loose = LooseSearch(buffers, seed) if is_loose else None
        follow = succession and len(buffers) >= FEWEST_LOOSE
        self._successions = SuccessionSearch(buffers, seed, self._search_of_blocks) if follow else None
        self._stacks = StackSearch(buffers) if follow else None
        if self._glued is not None:
            self._take_glued(self._glued)

    @property
    def peak(self) -> int:
        """Bytes."""
        return int((self.offsets + self.buffers.size).max())

    @cached_property
    def searchable(self) -> bool:
        """Whether anything lower can be looked for."""
        return self._has_lists or load_skyline() is not None

    @cached_property
    def _has_lists(self) -> bool:
        return int(self.buffers.conflicts.sum()) <= MOST_PAIRS and len(self.buffers) <= MOST_BUFFERS

    @cached_property
    def _is_separable(self) -> bool:
        return load_separation() is not None and is_separable(self.buffers)

    @property
    def spent(self) -> int:
        """Work of this search so far, in buffers looked at."""
        return sum(self._spent.values())

    @property
    def progress(self) -> ComponentProgress:
        """What a later search takes up, besides the placement and the bound."""
        spent = {way: work + self._begun.spent.get(way, 0) for way, work in self._spent.items()}
        lowest = min((capacity for capacity in self._questions if capacity >= self.bound), default=None)
        if lowest is None:
            return ComponentProgress(spent, self._begun.capacity, self._begun.asked)
        return ComponentProgress(spent, lowest, self._questions[lowest].standing)

    def step(self, goal: int, seconds: float) -> None:
        """A question, or a little local search, in the way that got the least work for its share so far. It ends with its limit on
        work, or after `seconds`."""
        target = max(self.bound, goal)
        steps = self._open_ways(target)
        way = min(steps, key=lambda name: self._spent[name] / self._share_of(name, "lives" in steps))
        before = self.peak
        self._spent[way] += steps[way](target, seconds)
        if self.peak < before:
            self._lucky = way

    def _share_of(self, way: str, beside_lives: bool) -> float:
        share = self._shares[way] * (LUCK if way == self._lucky else 1)
        return share * BESIDE_LIVES if way == "separation" and beside_lives else share

    def _open_ways(self, target: int) -> dict[str, Callable[[int, float], int]]:
        """What may be done now, by name; of those that got nothing so far the first one is done first."""
        local = self._local_searches()
        if self._glued is not None and self._glued.is_open(target):
            local = {"glued": self._search_glued, **local}
        if local and (not self._has_lists or len(self.buffers) >= VERY_LARGE):
            return local
        steps: dict[str, Callable[[int, float], int]] = {"goal": self._ask}
        if self.peak - target > self._least_step:
            steps["way"] = self._ask_on_the_way
        if len(self.buffers) >= LARGE:
            return local | steps  # few questions about so many are answered
        return steps | local

    def _local_searches(self) -> dict[str, Callable[[int, float], int]]:
        steps: dict[str, Callable[[int, float], int]] = {}
        is_large = len(self.buffers) >= LARGE
        if self._stacks is not None and not self._stacks.exhausted:
            steps["stacks"] = self._find_orders
        if self._successions is not None and self._successions.is_promising(self.peak):
            steps["lives"] = self._search_successions
        if is_large and load_skyline() is not None:
            steps["skyline"] = self._place_from_below
            if has_few_points(self.buffers) and load_beam() is not None:
                steps["beam"] = self._place_several_ways
        if self._greedy is not None:
            steps["greedy"] = self._place_in_order
        elif is_large and self._has_lists and load_ejection() is not None:
            steps["ejection"] = self._eject
            if self._is_separable:
                steps["separation"] = self._separate
        if self._loose is not None and not self._loose.exhausted and self.spent >= WORK_BEFORE_LOOSE:
            steps["loose"] = self._move_blocks
        return steps

    def _ask(self, capacity: int, seconds: float) -> int:
        """The next order for this capacity; the work."""
        question = self._questions.get(capacity)
        if question is None:
            begun = self._begun.asked if capacity == self._begun.capacity else (0, 0)
            question = CapacityQuestion(self.buffers, capacity, self._seed, self._unit, begun)
            self._questions[capacity] = question
        before = question.spent
        answer = question.ask(seconds)
        self.nodes += answer.nodes
        if answer.status is FitStatus.FITS:
            self._lower(answer.offsets)
        elif answer.status is FitStatus.FAILS:
            self.bound = max(self.bound, capacity + 1, min(answer.least_peak, self.peak))
        return question.spent - before

    def _ask_on_the_way(self, target: int, seconds: float) -> int:
        way = self.peak - target
        down = -(-int(way * self._share) // self._least_step) * self._least_step
        work = self._ask(self.peak - max(down, self._least_step), seconds)
        self._left_on_the_way -= work
        if self._left_on_the_way <= 0:
            self._left_on_the_way = WORK_ON_THE_WAY
            self._share = FIRST_SHARE if way * self._share <= self._least_step else self._share / 2
        return work

    def _search_glued(self, target: int, seconds: float) -> int:
        assert self._glued is not None
        work = self._glued.step(target, seconds)
        self._take_glued(self._glued)
        return work

    def _take_glued(self, found: _GluedSearch) -> None:
        if found.search.peak < self.peak:
            self._lower(found.offsets)

    def _eject(self, target: int, seconds: float) -> int:
        self._ejection = self._ejection or Ejection(self.buffers, self._seed)
        self._offer(self._ejection.improve(self.offsets, target, seconds))
        return EJECTION_WORK

    def _separate(self, target: int, seconds: float) -> int:
        self._separation = self._separation or SeparationSearch(self.buffers, self._seed)
        before = self._separation.spent
        self._offer(self._separation.improve(self.offsets, target, seconds))
        return self._separation.spent - before

    def _move_blocks(self, target: int, seconds: float) -> int:
        assert self._loose is not None
        self._offer(self._loose.improve(target, seconds))
        return LOOSE_WORK

    def _find_orders(self, target: int, seconds: float) -> int:
        assert self._stacks is not None
        before = self._stacks.spent
        self._offer(self._stacks.placement(seconds))
        return self._stacks.spent - before

    def _search_successions(self, target: int, seconds: float) -> int:
        assert self._successions is not None
        before = self._successions.spent
        self._suggest(self._successions.improve(self.peak, target, seconds))
        return self._successions.spent - before

    def _search_of_blocks(self, blocks: BufferArrays, offsets: IntArray, seed: int) -> ComponentSearch:
        return ComponentSearch(blocks, offsets, seed, self._unit, succession=False)

    def _place_from_below(self, target: int, seconds: float) -> int:
        self._skyline = self._skyline or SkylineSearch(self.buffers, self._seed)
        before = self._skyline.spent
        self._offer(self._skyline.placement(seconds))
        return self._skyline.spent - before

    def _place_several_ways(self, target: int, seconds: float) -> int:
        self._beam = self._beam or BeamSearch(self.buffers, self._seed)
        before = self._beam.spent
        self._suggest(self._beam.placement(self.offsets, seconds))
        return self._beam.spent - before

    def _place_in_order(self, target: int, seconds: float) -> int:
        assert self._greedy is not None
        offsets = next(self._greedy, None)
        if offsets is None:
            self._greedy = None
        self._offer(offsets)
        return len(self.buffers) ** 2 // COMPARED_AT_ONCE

    def _offer(self, offsets: IntArray | None) -> None:
        if offsets is not None and int((offsets + self.buffers.size).max()) < self.peak:
            self._lower(offsets)

    def _suggest(self, offsets: IntArray | None) -> None:
        """An offer; where it is not the best one, something that others may lower."""
        before = self.peak
        self._offer(offsets)
        if offsets is not None and self.peak == before and self._separation is not None:
            self._separation.suggest(offsets)

    def _lower(self, offsets: IntArray) -> None:
        self.offsets = offsets
        self._questions = {capacity: asked for capacity, asked in self._questions.items() if capacity < self.peak}


def _shares_of(buffers: BufferArrays) -> Mapping[str, float]:
    if len(buffers) < LARGE:
        return SHARES
    if len(buffers) >= VERY_LARGE:
        return VERY_LARGE_SHARES
    return FEW_POINTS_SHARES if has_few_points(buffers) else LARGE_SHARES


@dataclass(frozen=True)
class _GluedSearch:
    """A search of the glued buffers in place of all; its bounds say nothing about all of them."""

    whole: GluedBuffers
    search: ComponentSearch

    @classmethod
    def of(
        cls, buffers: BufferArrays, seed: int, work_unit: int | None, shares: Mapping[str, float]
    ) -> _GluedSearch | None:
        whole = glued(buffers)
        if whole is None:
            return None
        _, offsets = best_greedy(whole.buffers)
        return cls(whole, ComponentSearch(whole.buffers, offsets, seed, work_unit, False, shares, succession=False))

    def is_open(self, target: int) -> bool:
        """Whether it may still come down to the target."""
        return self.search.bound <= target < self.search.peak

    def step(self, target: int, seconds: float) -> int:
        """The work of a step."""
        before = self.search.spent
        self.search.step(target, seconds)
        return self.search.spent - before

    @property
    def offsets(self) -> IntArray:
        """The best placement of all buffers that came of it."""
        return self.whole.spread(self.search.offsets)
