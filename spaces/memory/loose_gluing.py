"""Fewer buffers at the price of a little memory: two blocks at a time become the rectangle around them.

Where no two buffers fit without a gap (`spaces.memory.gluing`), many still almost do: a program whose memory is nearly full is a
tiling with some tiles missing. The pair that leaves the least unused is glued first, on each other when their lives meet, behind one
another when not, until the unused bytes reach a share of all. A byte left unused where the live sum is near its largest is worse than
elsewhere, so each section weighs a power of its live sum; no section rises above the largest live sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.gluing import GluedBuffers

MOST_BLOCKS = 2_500
"""Buffers above which no pairs are looked for: their costs take the square of that, half a second."""

PAIRS_BETWEEN_WEIGHTS = 50
"""After so many pairs the live sums that weigh the sections are looked at again."""

REPLACEMENTS = 12
"""So many other mates are looked at for a block whose cheapest pair would rise above the largest live sum."""


@dataclass(frozen=True)
class Looseness:
    """How loosely buffers are glued. `waste`: the share of all weighed bytes that may be left unused; `power`: of the live sum in a
    section's weight; `noise`: the spread of the logarithm of the factors on the costs."""

    waste: float
    power: float
    noise: float = 0.0


def loosely_glued(buffers: BufferArrays, looseness: Looseness, seed: int) -> GluedBuffers | None:
    """None when hardly any can be glued, when there are too many, or their alignments would leave gaps."""
    alignment = int(buffers.alignment[0])
    if len(buffers) > MOST_BLOCKS or (buffers.alignment != alignment).any() or (buffers.size % alignment).any():
        return None
    blocks = _LooseBlocks(buffers, looseness, seed)
    while blocks.glue_cheapest():
        pass
    return blocks.result(alignment)


class _LooseBlocks:
    """The blocks so far, by number, those of glued pairs after the buffers. Lives are sections, sizes bytes; costs are unused bytes
    times weight. `_mate` is the cheapest mate that was met for a block, which need not be there any more."""

    def __init__(self, buffers: BufferArrays, looseness: Looseness, seed: int) -> None:
        count = self._buffers = len(buffers)
        begins, ends, _ = buffers.sections
        room = np.zeros(count, dtype=np.int64)
        self._lower = np.concatenate([begins, room]).astype(np.int64)
        self._upper = np.concatenate([ends, room]).astype(np.int64)
        self._size = np.concatenate([buffers.size, room])
        self._there = np.arange(2 * count) < count
        self._parts: list[tuple[int, int, int]] = []  # of each glued pair: both, and bytes from the first to the second
        self._live = buffers.section_bytes.copy()
        self._most_live = int(self._live.max())
        self._looseness, self._random = looseness, np.random.default_rng(seed)
        self._weigh()
        self._cost = np.full(2 * count, np.inf)
        self._mate = np.full(2 * count, -1)
        self._left_to_waste = looseness.waste * float(self._size[:count] @ self._weight_of(begins, ends))
        for block in range(count):
            self._find_mate(block)

    def glue_cheapest(self) -> bool:
        """Glue a pair, or look for another mate of one whose mate is gone; False when no pair is cheap enough."""
        block = int(self._cost.argmin())
        if not np.isfinite(self._cost[block]):
            return False
        mate = int(self._mate[block])
        if not self._there[mate]:
            self._find_mate(block)
            return True
        waste = float(self._wasted(block, np.array([mate]))[0])
        if waste > self._left_to_waste:
            return False
        if not self._fits(block, mate):
            self._find_mate_that_fits(block)
            return True
        self._left_to_waste -= waste
        self._glue(block, mate)
        return True

    def result(self, alignment: int) -> GluedBuffers | None:
        """The blocks as buffers, and where in them the buffers are."""
        left = np.flatnonzero(self._there)
        if len(left) == self._buffers:
            return None
        count = self._buffers + len(self._parts)
        group, shift = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        group[left] = np.arange(len(left))
        for number in range(count - 1, self._buffers - 1, -1):  # a pair has a higher number than its parts
            first, second, above = self._parts[number - self._buffers]
            group[[first, second]] = group[number]
            shift[first], shift[second] = shift[number], shift[number] + above
        columns = (self._lower[left], self._upper[left], self._size[left], np.full(len(left), alignment))
        whole = BufferArrays(*(np.ascontiguousarray(column, dtype=np.int64) for column in columns))
        return GluedBuffers(whole, group[: self._buffers], shift[: self._buffers])

    def _weigh(self) -> None:
        weights = (self._live / self._most_live) ** self._looseness.power
        self._weight_before = np.concatenate([[0.0], np.cumsum(weights)])

    def _weight_of(self, lower: npt.NDArray[np.integer], upper: npt.NDArray[np.integer]) -> FloatArray:
        weight: FloatArray = self._weight_before[upper] - self._weight_before[lower]
        return weight

    def _wasted(self, block: int, others: npt.NDArray[np.integer]) -> FloatArray:
        """What the rectangle around this one and each of others leaves unused."""
        lower, upper, size = self._lower[others], self._upper[others], self._size[others]
        here = (np.minimum(lower, self._lower[block]), np.maximum(upper, self._upper[block]))
        apart = (lower >= self._upper[block]) | (upper <= self._lower[block])
        height = np.where(apart, np.maximum(size, self._size[block]), size + self._size[block])
        own = self._size[block] * float(
            self._weight_before[self._upper[block]] - self._weight_before[self._lower[block]]
        )
        wasted: FloatArray = height * self._weight_of(*here) - size * self._weight_of(lower, upper) - own
        return wasted

    def _costs(self, block: int) -> tuple[IntArray, FloatArray]:
        others = np.flatnonzero(self._there)
        others = others[others != block]
        costs = self._wasted(block, others)
        if self._looseness.noise:
            costs = costs * np.exp(self._looseness.noise * self._random.standard_normal(len(costs)))
        return others, costs

    def _find_mate(self, block: int) -> None:
        others, costs = self._costs(block)
        if not len(others):
            self._cost[block] = np.inf
            return
        best = int(costs.argmin())
        self._mate[block], self._cost[block] = others[best], costs[best]

    def _find_mate_that_fits(self, block: int) -> None:
        others, costs = self._costs(block)
        self._cost[block] = np.inf
        for place in costs.argsort(kind="stable")[:REPLACEMENTS]:
            if self._fits(block, int(others[place])):
                self._mate[block], self._cost[block] = others[place], costs[place]
                return

    def _around(self, first: int, second: int) -> tuple[int, int, int, IntArray]:
        """The rectangle around both: its life, its size, and by how many bytes it raises each section of its life."""
        lower = int(min(self._lower[first], self._lower[second]))
        upper = int(max(self._upper[first], self._upper[second]))
        apart = self._upper[first] <= self._lower[second] or self._upper[second] <= self._lower[first]
        sizes = int(self._size[first]), int(self._size[second])
        size = max(sizes) if apart else sum(sizes)
        raised = np.full(upper - lower, size, dtype=np.int64)
        for part in (first, second):
            raised[self._lower[part] - lower : self._upper[part] - lower] -= self._size[part]
        return lower, upper, size, raised

    def _fits(self, first: int, second: int) -> bool:
        lower, upper, _, raised = self._around(first, second)
        return int((self._live[lower:upper] + raised).max()) <= self._most_live

    def _glue(self, first: int, second: int) -> None:
        lower, upper, size, raised = self._around(first, second)
        new = self._buffers + len(self._parts)
        on_each_other = size == self._size[first] + self._size[second]
        self._parts.append((first, second, int(self._size[first]) if on_each_other else 0))
        self._live[lower:upper] += raised
        self._lower[new], self._upper[new], self._size[new] = lower, upper, size
        self._there[[first, second]], self._there[new] = False, True
        self._cost[[first, second]] = np.inf
        if len(self._parts) % PAIRS_BETWEEN_WEIGHTS == 0:
            self._weigh()
        others, costs = self._costs(new)
        if not len(others):
            return
        best = int(costs.argmin())
        self._mate[new], self._cost[new] = others[best], costs[best]
        cheaper = costs < self._cost[others]
        self._mate[others[cheaper]], self._cost[others[cheaper]] = new, costs[cheaper]
