"""The search of the fewer blocks that are left when what follows one another is glued.

`spaces.memory.succession` glues, and `spaces.memory.regluing` does so again and again.

A program of a thousand buffers may come down to fifty blocks, about which exact questions are answered in a moment. Which limit on the live
sum is the best one differs from one instance to the next, so there are several gluings; each gets a turn, then new ones and the best of
those that may still come down take turns. When a turn ends, all buffers fall from where its blocks lie (`spaces.memory.falling`), so what
rectangles left unused is not lost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.capacity_question import luby
from kilotune.spaces.memory.falling import fallen
from kilotune.spaces.memory.gluing import GluedBuffers
from kilotune.spaces.memory.missing_mates import has_gaps
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.memory.regluing import RegluingLimits, can_reglue, reglued, share_with_exact_mates
from kilotune.spaces.memory.succession import SuccessionRule, glued_by_succession
from kilotune.spaces.memory.sure_gluing import surely_glued

MOST_BUFFERS = 20_000
"""Buffers above which no successions are looked for: a gluing would take seconds."""

MOST_PAIRS = 20_000_000
"""Conflicting pairs above which none are looked for: placing all of them in an order would take a second, and a fall takes seven."""

TURN = 20_000_000
"""The work that a gluing gets before another one's turn, in buffers looked at; some nanoseconds each."""

PASSES_A_TURN = 3
"""The least work of a turn, in multiples of what gluing takes."""

VARIATIONS = (
    (math.inf, 0.0),
    (math.inf, 0.1),
    (0.5, 0.1),
    (1.0, 0.1),
    (0.25, 0.1),
    (0.5, 0.01),
    (0.0, 0.0),
    (0.25, 0.01),
    (1.0, 0.2),
    (0.0, 0.1),
    (0.5, 0.0),
)
"""The share of the way from the bound up to the least peak that live sums may rise by, and the rule's difference."""

NOISE = 0.7
"""The noise after each of VARIATIONS was tried without: the same pairs would be glued again."""

GOOD_VARIATIONS = 4
"""So many, those that led to the lowest peaks, are tried again."""

REGLUING_SHARES = (math.inf, math.inf, 0.5, math.inf, math.inf, 1.0, 0.25)
"""The share of the way up to the least peak that live sums may rise by in regluings, one after the other."""

LIKENESSES, EXACT_LIKENESSES = (1.0, 0.7), (0.001, 0.001, 0.001, 1.0)
"""How much sizes differ that lay beside each other, in regluings one after the other; and where many are the same to the byte."""

SURE_EVERY = 2
"""Where many are, every so manieth regluing begins from what is glued surely (`spaces.memory.sure_gluing`), and none takes that apart."""

MANY_EXACT = 0.05
"""The share of buffers with a mate of exactly their size from which on many are the same."""

LOOKS_A_BUFFER = 10_000
"""Looks at candidates that a regluing takes at most for each buffer, times Luby's sequence: most end much earlier, and some never. Twice
as many after each that left more than one block, until one has left a single one, where many begin and end at each point."""

FIRST_PATIENCE = 4
"""And so many times as many at first there."""

MOST_LOOKS = 1_000_000_000
"""Looks of one regluing at most: some seconds."""

CROWDED_AT_A_SECTION = 4
"""Buffers for each section from which on many begin and end at each point, where only regluing finds out who lay beside whom."""

MOST_AT_A_SECTION, MOST_EXACT_AT_A_SECTION = 12, 15
"""Buffers for each section above which nothing does, as too many live equally long by chance; and where many sizes are the same."""

REGLUINGS_AT_ONCE = 4
"""Regluings before another way's turn, as long as each leaves a single block: no two leave the same bytes unused."""

TRIES = 4 * len(VARIATIONS)
"""Gluings before the search is given up where the best placement is far above what others found."""

FAR_ABOVE = 1.02


class PeakSearch(Protocol):
    """A search of connected buffers; `component_search` has it."""

    bound: int
    offsets: IntArray

    @property
    def peak(self) -> int:
        """Bytes."""

    @property
    def spent(self) -> int:
        """Work so far, in buffers looked at."""

    def step(self, goal: int, seconds: float) -> None:
        """A little work."""


@dataclass
class _Gluing:
    variation: tuple[float, float] | None  # None: reglued
    whole: GluedBuffers
    search: PeakSearch
    least: float = math.inf  # peak of all buffers that came of it
    fallen_from: float = math.inf  # peak of the blocks that they fell from last


class SuccessionSearch:
    """The search of one connected set of buffers, of positive sizes. `search_of`: how blocks are searched, from where they lie (bytes) and
    a seed."""

    def __init__(
        self, buffers: BufferArrays, seed: int, search_of: Callable[[BufferArrays, IntArray, int], PeakSearch]
    ) -> None:
        self._buffers, self._seed, self._search_of = buffers, seed, search_of
        self._random = np.random.default_rng(seed)
        self._has_gaps = has_gaps(buffers)
        self._bound = int(buffers.section_bytes.max())
        self._can_reglue = not self._has_gaps and can_reglue(buffers)
        at_a_section = len(buffers) / max(buffers.sections[2], 1)
        self._is_crowded = self._is_patient = self._can_reglue and at_a_section >= CROWDED_AT_A_SECTION
        is_exact = share_with_exact_mates(buffers) > MANY_EXACT
        most_at_a_section = MOST_EXACT_AT_A_SECTION if is_exact else MOST_AT_A_SECTION
        self._is_exact = is_exact
        self._likenesses = EXACT_LIKENESSES if is_exact else LIKENESSES
        self._patience, self._reglued = FIRST_PATIENCE if self._is_crowded else 1, 0
        self._seconds = math.inf
        self._gluings: list[_Gluing] = []
        self._turns = self._turns_of_gluings()
        self._current: _Gluing | None = None
        self._ends_at = 0
        self._tried, self._peak, self._least = 0, 0, math.inf
        self.spent = 0
        """Work so far, in buffers looked at."""
        is_large = len(buffers) > MOST_BUFFERS or int(buffers.conflicts.sum()) > MOST_PAIRS
        self.exhausted = is_large or at_a_section > most_at_a_section
        """Whether hardly any buffers follow one another."""

    def is_promising(self, peak_bytes: int) -> bool:
        """Whether it is worth going on beside others, which found a placement of this peak."""
        return not self.exhausted and (self._tried < TRIES or self._least <= FAR_ABOVE * peak_bytes)

    def improve(self, peak_bytes: int, goal_bytes: int, seconds: float) -> IntArray | None:
        """A step, where the least peak so far is this one; the placement of all buffers that came of it (bytes, shape (buffers,)), when
        a turn ended with a new one."""
        self._peak, self._seconds = peak_bytes, seconds
        if self._current is None:
            self._current = next(self._turns, None)
            if self._current is None:
                self.exhausted = True
                return None
            self._ends_at = self._current.search.spent + max(TURN, PASSES_A_TURN * self._work_of_a_pass)
        gluing, search = self._current, self._current.search
        before = search.spent
        search.step(max(search.bound, goal_bytes), seconds)
        self.spent += search.spent - before
        if self._is_open(gluing) and search.spent < self._ends_at:
            return None
        self._current = None
        if search.peak >= gluing.fallen_from:
            return None
        return self._fallen(gluing)

    def _turns_of_gluings(self) -> Iterator[_Gluing]:
        for number in itertools.count():
            new = None if self._is_crowded else self._new_gluing(number)
            if new is not None:
                yield new
            elif number >= len(VARIATIONS) and not self._gluings:
                return
            waiting = [gluing for gluing in self._gluings if self._is_open(gluing)]
            if waiting:
                yield min(waiting, key=lambda gluing: gluing.least)
            yield from self._regluings(number)

    def _regluings(self, number: int) -> Iterator[_Gluing]:
        """One; some more where such a one is the best so far and the last one has left a single block, which is not to be searched."""
        if not self._can_reglue:
            return
        for again in range(REGLUINGS_AT_ONCE):
            found = self._new_regluing(number * REGLUINGS_AT_ONCE + again, luby(number + 1) * self._patience)
            if found is not None:
                yield found
            best = min(self._gluings, key=lambda gluing: gluing.least, default=None)
            if found is None or len(found.whole.buffers) > 1 or best is None or best.variation is not None:
                return

    def _new_gluing(self, number: int) -> _Gluing | None:
        share, difference = variation = self._variation(number)
        noise = NOISE if number >= len(VARIATIONS) else 0.0
        rule = SuccessionRule(self._most_bytes(share), difference, noise, self._has_gaps)
        self.spent += self._work_of_a_pass
        return self._gluing(variation, glued_by_succession(self._buffers, rule, self._random), number)

    def _new_regluing(self, number: int, times: int) -> _Gluing | None:
        most = self._most_bytes(REGLUING_SHARES[number % len(REGLUING_SHARES)])
        looks = min(LOOKS_A_BUFFER * times * len(self._buffers), MOST_LOOKS)
        limits = RegluingLimits(looks, most, self._seconds)
        likeness = self._likenesses[self._reglued % len(self._likenesses)]
        sure = self._sure if self._reglued % SURE_EVERY == 0 else None
        blocks = sure.buffers if sure else self._buffers
        found = reglued(blocks, limits, self._seed + number + 1, likeness)
        self._reglued += 1
        self.spent += found.looks
        whole = sure.then(found.whole) if sure and found.whole else found.whole
        if whole is not None and self._is_patient:
            self._is_patient = len(whole.buffers) > 1
            self._patience = 2 * self._patience if self._is_patient else 1
        return self._gluing(None, whole, number)

    @cached_property
    def _sure(self) -> GluedBuffers | None:
        return surely_glued(self._buffers) if self._is_crowded and self._is_exact else None

    def _gluing(self, variation: tuple[float, float] | None, whole: GluedBuffers | None, number: int) -> _Gluing | None:
        self._tried += 1
        if whole is None:
            return None
        search = self._search_of(whole.buffers, best_greedy(whole.buffers)[1], self._seed + number)
        self._gluings.append(_Gluing(variation, whole, search))
        return self._gluings[-1]

    def _most_bytes(self, share: float) -> float:
        """What live sums may rise to."""
        return self._bound + share * max(self._peak - 1 - self._bound, 0) if share < math.inf else math.inf

    def _variation(self, number: int) -> tuple[float, float]:
        """Each in its turn, then the best ones."""
        if number < len(VARIATIONS):
            return VARIATIONS[(number + self._seed) % len(VARIATIONS)]
        least = dict.fromkeys(VARIATIONS, math.inf)
        for gluing in self._gluings:
            if gluing.variation is not None:
                least[gluing.variation] = min(least[gluing.variation], gluing.least)
        return sorted(VARIATIONS, key=lambda variation: least[variation])[number % GOOD_VARIATIONS]

    def _is_open(self, gluing: _Gluing) -> bool:
        """Whether its blocks may still come down to what would be less than the least peak when all fell from there, as far as they did."""
        search, fell_to = gluing.search, 1.0
        if self._bound < gluing.fallen_from < math.inf:
            fell_to = min((gluing.least - self._bound) / (gluing.fallen_from - self._bound), 1.0)
        hoped = self._bound + fell_to * (search.bound - self._bound)
        return search.bound < search.peak and hoped < self._peak

    def _fallen(self, gluing: _Gluing) -> IntArray:
        gluing.fallen_from = gluing.search.peak
        self.spent += self._work_of_a_pass
        offsets = fallen(self._buffers, gluing.whole.spread(gluing.search.offsets))
        peak = int((offsets + self._buffers.size).max())
        gluing.least, self._least = min(gluing.least, peak), min(self._least, peak)
        return offsets

    @property
    def _work_of_a_pass(self) -> int:
        """What a gluing takes, or a fall, in buffers looked at."""
        count = len(self._buffers)
        return count * (500 + count // 4)
