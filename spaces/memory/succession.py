"""Placements from who follows whom: where one block ends and one begins, they lie at the same place.

Whatever fills a memory and is cut from edge to edge betrays its cuts by its lives, whatever the sizes: blocks of equal lives lay on one
another, and at a point where a single block ends and a single one begins, the second one took the place of the first. Both are glued,
to a rectangle as high as the higher one, and this goes on upwards. Where several end and begin at a point by chance, the pair comes first
whose rectangle leaves the least unused; another choice is tried the next time, for the logarithms of what is left unused get some noise.
What was glued is placed by greedy orders, and then all buffers fall: the lowest one first, each to the lowest gap that holds it, then
upside down, and so on. So what the rectangles left unused is not lost.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.gluing import MOST_LEFT, BlocksLeft, GluedBlock
from kilotune.spaces.memory.orders import best_greedy, place_in_order, sorted_by

MOST_BUFFERS = 20_000
"""Buffers above which no successions are looked for: a placement would take seconds."""

WORK_OF_A_BUFFER = 500
"""What a placement takes for each buffer, in buffers looked at."""

WORK_OF_SETTING_UP = 200_000

DIFFERENCES = (0.15, 0.3, 1.0)
"""How much of the higher one's bytes the lower one of a pair may lack, in turns: with a larger difference they never filled one place."""

NOISE = 1.0
"""The spread of the noise on the logarithms, after each of DIFFERENCES was tried without."""

TRIES = 24
"""Placements before the search is given up where the best of them is far above what others found."""

FAR_ABOVE = 1.02

FALLS = 7
"""How often all buffers fall, each time from the other side."""

CHOSEN_SHARE = 0.02
"""The share of the doubtful pairs that are glued, the best ones, before all are looked at again; one at least."""


class SuccessionSearch:
    """The search of one connected set of buffers, of positive sizes."""

    def __init__(self, buffers: BufferArrays, seed: int) -> None:
        self._buffers, self._random = buffers, np.random.default_rng(seed)
        self._tried, self._least = 0, math.inf
        self.exhausted = len(buffers) > MOST_BUFFERS
        """Whether hardly any buffers follow one another."""

    @property
    def work(self) -> int:
        """What one placement takes, in buffers looked at."""
        return WORK_OF_SETTING_UP + WORK_OF_A_BUFFER * len(self._buffers)

    def placement(self) -> IntArray | None:
        """The next placement, in bytes, shape (buffers,); None: the search is exhausted."""
        noise = NOISE if self._tried >= len(DIFFERENCES) else 0.0
        blocks = BlocksLeft(self._buffers)
        while blocks.stack() or self._join(blocks, DIFFERENCES[self._tried % len(DIFFERENCES)], noise):
            pass
        self._tried += 1
        if len(blocks.left) > MOST_LEFT * len(self._buffers):
            self.exhausted = True
            return None
        whole = blocks.result()
        offsets = self._fallen(whole.spread(best_greedy(whole.buffers)[1]))
        self._least = min(self._least, int((offsets + self._buffers.size).max()))
        return offsets

    def is_promising(self, peak_bytes: int) -> bool:
        """Whether it is worth going on beside others, which found a placement of this peak."""
        return not self.exhausted and (self._tried < TRIES or self._least <= FAR_ABOVE * peak_bytes)

    def _fallen(self, offsets: IntArray) -> IntArray:
        """The lowest of the placements that are met while all fall down, and are turned upside down, in turns."""
        size, lowest, least = self._buffers.size, offsets, math.inf
        for _ in range(FALLS):
            offsets = place_in_order(self._buffers, sorted_by(offsets))
            peak = int((offsets + size).max())
            if peak < least:
                lowest, least = offsets, peak
            offsets = peak - size - offsets
        return lowest

    def _join(self, blocks: BlocksLeft, difference: float, noise: float) -> bool:
        """Glue all pairs that follow one another alone, or the best ones of the others; whether there were any."""
        certain, doubtful = _pairs(blocks.left, difference)
        if not certain and doubtful:
            costs = np.log([_unused(first, second) + 1.0 for first, second in doubtful])
            costs += noise * self._random.standard_normal(len(costs))
            best = np.argsort(costs, kind="stable")[: math.ceil(CHOSEN_SHARE * len(doubtful))]
            certain = [doubtful[index] for index in best]
        used: set[int] = set()
        for first, second in certain:
            if not used & {id(first), id(second)}:
                used |= {id(first), id(second)}
                blocks.left.append(_one_after_the_other(first, second))
        blocks.left = [block for block in blocks.left if id(block) not in used]
        return bool(certain)


_Pair = tuple[GluedBlock, GluedBlock]


def _pairs(left: list[GluedBlock], difference: float) -> tuple[list[_Pair], list[_Pair]]:
    """The pairs of which the second begins where the first ends: those that do so alone, and those among which there is a choice."""
    ending: dict[int, list[GluedBlock]] = defaultdict(list)
    beginning: dict[int, list[GluedBlock]] = defaultdict(list)
    for block in left:
        ending[block.upper].append(block)
        beginning[block.lower].append(block)
    certain: list[_Pair] = []
    doubtful: list[_Pair] = []
    for point, seconds in beginning.items():
        firsts = ending.get(point, [])
        found = certain if len(firsts) * len(seconds) == 1 else doubtful
        found += [(first, second) for first in firsts for second in seconds if _can_follow(first, second, difference)]
    return certain, doubtful


def _can_follow(first: GluedBlock, second: GluedBlock, difference: float) -> bool:
    """Whether one place does for both: their sizes are alike, and the larger alignment is a multiple of the other."""
    alignments = sorted((first.alignment, second.alignment))
    alike = abs(first.size - second.size) <= difference * max(first.size, second.size)
    return alike and alignments[1] % alignments[0] == 0


def _unused(first: GluedBlock, second: GluedBlock) -> int:
    """What the pair's rectangle would leave unused, were the lower one as long as both: bytes times points."""
    return abs(first.size - second.size) * (second.upper - first.lower)


def _one_after_the_other(first: GluedBlock, second: GluedBlock) -> GluedBlock:
    size, alignment = max(first.size, second.size), max(first.alignment, second.alignment)
    return GluedBlock(first.lower, second.upper, size, alignment, ((first, 0), (second, 0)))
