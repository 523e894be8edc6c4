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


LOOKS_A_BUFFER = 200
"""Groups that are looked at for each buffer, some tenths of a microsecond each; tilings take 30 to 80. Points where there are more than
are left of these are passed over."""


def surely_glued(buffers: BufferArrays) -> GluedBuffers | None:
    """The blocks that are left; None when hardly any are glued. Sizes are positive, and multiples of one alignment that all have."""
    blocks, unit = BlocksLeft(buffers), int(np.gcd.reduce(buffers.size))
    looks = _Looks(LOOKS_A_BUFFER * len(buffers))
    while _glue_surest(blocks, unit, looks) or blocks.close_wheels():
        pass
    return blocks.result() if len(blocks.left) <= MOST_LEFT * len(buffers) else None


@dataclass
class _Looks:
    left: int

    def take(self, count: int) -> bool:
        """Whether so many are left; then they are taken."""
        if count > self.left:
            return False
        self.left -= count
        return True


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


def _glue_surest(blocks: BlocksLeft, unit: int, looks: _Looks) -> bool:
    """Glue groups that share no block, the surest ones first; whether there were any. Sizes are multiples of so many bytes."""
    taken: set[int] = set()
    made = []
    for group in sorted(_groups(blocks.left, unit, looks), key=lambda one: one.by_chance):
        names = {id(member) for member in group.members}
        if not names & taken:
            taken |= names
            made.append(group.block)
    blocks.left = [block for block in blocks.left if id(block) not in taken] + made
    return bool(made)


def _groups(left: Sequence[GluedBlock], unit: int, looks: _Looks) -> Iterator[_Group]:
    """Those of which there are few enough by chance."""
    sides: dict[tuple[int, bool], list[GluedBlock]] = defaultdict(
        list
    )  # at a point, those that end there or begin there
    for block in left:
        sides[block.upper, True].append(block)
        sides[block.lower, False].append(block)
    for (point, is_end), here in sides.items():
        there = sides.get((point, not is_end), [])
        if is_end:
            yield from _pairs(here, there, unit, looks)
        yield from _piles_with_mates(here, there, unit, looks)


def _is_sure(to_choose_from: int, size: int, unit: int) -> bool:
    return to_choose_from / size * unit <= MOST_BY_CHANCE


def _pairs(ending: Sequence[GluedBlock], beginning: Sequence[GluedBlock], unit: int, looks: _Looks) -> Iterator[_Group]:
    of_size = defaultdict(list)
    for block in beginning:
        of_size[block.size].append(block)
    to_choose_from = len(ending) + len(beginning)
    for block in ending:
        mates = of_size.get(block.size, ())
        if mates and _is_sure(to_choose_from, block.size, unit) and looks.take(len(mates)):
            yield from (_Group((block, later), to_choose_from / block.size) for later in mates)


def _piles_with_mates(
    here: Sequence[GluedBlock], there: Sequence[GluedBlock], unit: int, looks: _Looks
) -> Iterator[_Group]:
    """Groups of those here that live equally long, of which one there has the size, or a pile of two there."""
    if not there:
        return
    alike, alike_there = _by_life(here), _by_life(there)
    sizes = {block.size for block in there}
    largest, count_there = max(sizes), _count(alike_there, 2)
    piled: dict[int, set[int]] = {}  # by the size of both, the sizes of each
    for height in (2, 3):
        count = _count(alike, height)
        with_one = _is_sure(count, largest, unit)
        with_two = count_there > 0 and _is_sure(count * count_there, 2 * largest, unit)
        if not (count and (with_one or with_two) and looks.take(count)):
            continue
        if with_two and not piled and looks.take(count_there):
            piled = _piled(alike_there)
        for members in _piles(alike, height):
            size = sum(member.size for member in members)
            of_each = {member.size for member in members}
            if size in sizes and _is_sure(count, size, unit):
                yield _Group(members, count / size)
            elif (
                size not in sizes
                and _is_sure(count * count_there, size, unit)
                and of_each.isdisjoint(piled.get(size, of_each))
            ):
                yield _Group(members, count * count_there / size)


def _piles(alike: Sequence[Sequence[GluedBlock]], height: int) -> Iterator[tuple[GluedBlock, ...]]:
    for blocks in alike:
        if height == 2 or len(blocks) <= MOST_ALIKE:
            yield from combinations(blocks, height)


def _count(alike: Sequence[Sequence[GluedBlock]], height: int) -> int:
    return sum(math.comb(len(blocks), height) for blocks in alike)


def _piled(alike: Sequence[Sequence[GluedBlock]]) -> dict[int, set[int]]:
    piled: dict[int, set[int]] = defaultdict(set)
    for a, b in (pair for blocks in alike for pair in combinations(blocks, 2)):
        piled[a.size + b.size] |= {a.size, b.size}
    return piled


def _by_life(blocks: Sequence[GluedBlock]) -> list[list[GluedBlock]]:
    lives: dict[tuple[int, int], list[GluedBlock]] = defaultdict(list)
    for block in blocks:
        lives[block.lower, block.upper].append(block)
    return list(lives.values())
