"""Fewer buffers: those that fit together without a gap are glued, and the glued ones are searched in place of all.

Two buffers of equal lives are stacked; two of equal sizes of which one begins where the other ends become one of both lives; five
that turn around one of them as a pinwheel, which no two of them fill, become one rectangle (`spaces.memory.wheels`).
This goes on until nothing fits any more: a program of a thousand buffers that fill a memory may come down to a dozen. A
placement of the glued ones is one of all, but not the other way round, so only placements are taken from it, never bounds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.wheels import wheels_among

MOST_LEFT = 0.9
"""The share of the buffers that may be left: a search of almost as many has nothing to add."""


@dataclass(frozen=True)
class GluedBuffers:
    """Fewer buffers in place of many. `group`, `shift`, shape (buffers,) each: the glued one that a buffer is part of, and where in
    it, in bytes above its offset."""

    buffers: BufferArrays
    group: IntArray
    shift: IntArray

    def spread(self, offsets: IntArray) -> IntArray:
        """The offsets of all buffers, from those of the glued ones."""
        return offsets[self.group] + self.shift

    def then(self, whole: GluedBuffers) -> GluedBuffers:
        """What is left of all buffers where the glued ones were glued once more, to `whole`."""
        return GluedBuffers(whole.buffers, whole.group[self.group], self.shift + whole.shift[self.group])


def glued(buffers: BufferArrays) -> GluedBuffers | None:
    """None when hardly any fit together."""
    blocks = BlocksLeft(buffers)
    while blocks.stack() or blocks.join() or blocks.close_wheels():
        pass
    if not blocks.left or len(blocks.left) > MOST_LEFT * len(buffers):
        return None
    return blocks.result()


@dataclass(frozen=True)
class GluedBlock:
    """A buffer, or a rectangle of several: the points of its life [lower, upper), bytes, and what its address is a multiple of."""

    lower: int
    upper: int
    size: int
    alignment: int
    parts: tuple[tuple[GluedBlock, int], ...]  # and where in this one, in bytes; none: a buffer


class BlocksLeft:
    """The buffers and glued blocks that are `left`, in no order. Sizes are positive."""

    def __init__(self, buffers: BufferArrays) -> None:
        columns = (buffers.lower, buffers.upper, buffers.size, buffers.alignment)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self._buffers = [GluedBlock(lower, upper, size, alignment, ()) for lower, upper, size, alignment in rows]
        self.left = list(self._buffers)

    def stack(self) -> bool:
        """Put blocks of equal lives on each other; whether there were any. The most aligned ones go below."""
        lives: dict[tuple[int, int], list[GluedBlock]] = defaultdict(list)
        for block in self.left:
            lives[block.lower, block.upper].append(block)
        before = len(self.left)
        self.left = []
        for alike in lives.values():
            pile, *others = sorted(alike, key=lambda block: -block.alignment)
            for block in others:
                if pile.size % block.alignment or pile.alignment % block.alignment:
                    self.left.append(block)
                    continue
                parts = ((pile, 0), (block, pile.size))
                pile = GluedBlock(pile.lower, pile.upper, pile.size + block.size, pile.alignment, parts)
            self.left.append(pile)
        return len(self.left) < before

    def join(self) -> bool:
        """Join blocks of equal sizes of which one begins where the other ends; whether there were any."""
        ending: dict[tuple[int, int], list[GluedBlock]] = defaultdict(list)
        before = len(self.left)
        for block in sorted(self.left, key=lambda block: (block.lower, block.upper)):
            earlier = ending[block.lower, block.size]
            if earlier:
                first = earlier.pop()
                alignment = max(first.alignment, block.alignment)
                if alignment % first.alignment or alignment % block.alignment:
                    earlier.append(first)
                else:
                    block = GluedBlock(first.lower, block.upper, block.size, alignment, ((first, 0), (block, 0)))
            ending[block.upper, block.size].append(block)
        self.left = [block for blocks in ending.values() for block in blocks]
        return len(self.left) < before

    def close_wheels(self) -> bool:
        """Glue five blocks around one of them; whether there were any. Only blocks that may lie at any byte."""
        free = [block for block in self.left if block.alignment == 1]
        wheels = list(wheels_among([(block.lower, block.upper, block.size) for block in free]))
        used: set[int] = set()
        for wheel in wheels:
            used |= {id(free[index]) for index in wheel.members}
            parts = tuple((free[index], at) for index, at in zip(wheel.members, wheel.shifts, strict=True))
            self.left.append(GluedBlock(wheel.lower, wheel.upper, wheel.size, 1, parts))
        self.left = [block for block in self.left if id(block) not in used]
        return bool(wheels)

    def result(self) -> GluedBuffers:
        """The blocks as buffers, and where in them the buffers are."""
        number = {id(block): index for index, block in enumerate(self._buffers)}
        group = np.zeros(len(number), dtype=np.int64)
        shift = np.zeros(len(number), dtype=np.int64)
        for index, whole in enumerate(self.left):
            waiting = [(whole, 0)]
            while waiting:
                block, at = waiting.pop()
                if not block.parts:
                    group[number[id(block)]], shift[number[id(block)]] = index, at
                waiting += [(part, at + above) for part, above in block.parts]
        table = np.array([(b.lower, b.upper, b.size, b.alignment) for b in self.left], dtype=np.int64)
        return GluedBuffers(BufferArrays(*(np.ascontiguousarray(table[:, i]) for i in range(4))), group, shift)
