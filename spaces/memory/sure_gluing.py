"""Fewer buffers, where sizes are the same to the byte: only what is glued of which chance has next to none.

Over few points of time many buffers live equally long, so that two which do need not have lain on each other
(`spaces.memory.gluing` puts them there). But where two or three of them are together exactly as large as a block that ends where they
begin, or begins where they end, or as two such that live equally long, they did; so did two blocks of exactly one size of which one
follows the other, and five that turn around one of them (`spaces.memory.wheels`). How many would be so by chance is the number of
groups that there are to choose from, for each size that they might have: each multiple of what all sizes are multiples of.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.gluing import MOST_LEFT, BlocksLeft, GluedBlock, GluedBuffers

MOST_BY_CHANCE = 0.002
"""Groups to choose from for each size that there might be, up to which a group is glued: about so many are there by chance, or fewer."""

MOST_ALIKE = 40
"""Blocks that live equally long above which no three of them are tried, as that takes long."""


def surely_glued(buffers: BufferArrays) -> GluedBuffers | None:
    """The blocks that are left; None when hardly any are glued. Sizes are positive, and multiples of one alignment that all have."""
    blocks, unit = BlocksLeft(buffers), int(np.gcd.reduce(buffers.size))
    while _glue_surest(blocks, unit) or blocks.close_wheels():
        pass
    return blocks.result() if len(blocks.left) <= MOST_LEFT * len(buffers) else None


@dataclass(frozen=True)
class _Group:
    members: tuple[GluedBlock, ...]  # of equal lives; or two, the first of which ends where the second one begins
    by_chance: float  # groups to choose from, a byte of size

    @property
    def block(self) -> GluedBlock:
        """What they become."""
        first, last = self.members[0], self.members[-1]
        if first.upper == last.lower:
            parts = ((first, 0), (last, 0))
            return GluedBlock(first.lower, last.upper, first.size, first.alignment, parts)
        at, piled = 0, []
        for member in self.members:
            piled.append((member, at))
            at += member.size
        return GluedBlock(first.lower, first.upper, at, first.alignment, tuple(piled))


def _glue_surest(blocks: BlocksLeft, unit: int) -> bool:
    """Glue groups that share no block, the surest ones first; whether there were any. Sizes are multiples of so many bytes."""
    taken: set[int] = set()
    made = []
    found = [group for group in _groups(blocks.left) if group.by_chance * unit <= MOST_BY_CHANCE]
    for group in sorted(found, key=lambda one: one.by_chance):
        names = {id(member) for member in group.members}
        if not names & taken:
            taken |= names
            made.append(group.block)
    blocks.left = [block for block in blocks.left if id(block) not in taken] + made
    return bool(made)


def _groups(left: Sequence[GluedBlock]) -> Iterator[_Group]:
    sides: dict[tuple[int, bool], list[GluedBlock]] = defaultdict(
        list
    )  # at a point, those that end there or begin there
    for block in left:
        sides[block.upper, True].append(block)
        sides[block.lower, False].append(block)
    for (point, is_end), here in sides.items():
        there = sides.get((point, not is_end), [])
        if is_end:
            yield from _pairs(here, there)
        yield from _piles_with_mates(here, there)


def _pairs(ending: Sequence[GluedBlock], beginning: Sequence[GluedBlock]) -> Iterator[_Group]:
    of_size = defaultdict(list)
    for block in beginning:
        of_size[block.size].append(block)
    to_choose_from = len(ending) + len(beginning)
    for block in ending:
        yield from (_Group((block, later), to_choose_from / block.size) for later in of_size[block.size])


def _piles_with_mates(here: Sequence[GluedBlock], there: Sequence[GluedBlock]) -> Iterator[_Group]:
    """Groups of those here that live equally long, of which one there has the size, or a pile of two there."""
    alike, alike_there = _by_life(here), _by_life(there)
    sizes = {block.size for block in there}
    piled: dict[int, set[int]] = defaultdict(set)  # by the size of both, the sizes of each
    for a, b in (pair for blocks in alike_there for pair in combinations(blocks, 2)):
        piled[a.size + b.size] |= {a.size, b.size}
    count_there = sum(math.comb(len(blocks), 2) for blocks in alike_there)
    for height in (2, 3):
        count = sum(math.comb(len(blocks), height) for blocks in alike)
        for blocks in alike:
            if len(blocks) > MOST_ALIKE and height > 2:
                continue
            for members in combinations(blocks, height):
                size = sum(member.size for member in members)
                if size in sizes:
                    yield _Group(members, count / size)
                elif size in piled and piled[size].isdisjoint(member.size for member in members):
                    yield _Group(members, count * count_there / size)


def _by_life(blocks: Sequence[GluedBlock]) -> list[list[GluedBlock]]:
    lives: dict[tuple[int, int], list[GluedBlock]] = defaultdict(list)
    for block in blocks:
        lives[block.lower, block.upper].append(block)
    return list(lives.values())
