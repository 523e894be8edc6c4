"""What lies at a point of time where a memory was cut from edge to edge: what ends there is as high as what begins there.

Sizes that shrank, each by its own share, still nearly balance. So a pair of which one ends and one begins at a point did not take each
other's place when the others there, without the two, are on one side alone or far higher on one side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kilotune.spaces.memory.gluing import GluedBlock

BALANCE = 0.2
"""How much of the higher side the lower one may lack."""

GluedGroup = tuple[GluedBlock, ...]
"""A pair, the second of which begins where the first one ends, or a wheel of five (`spaces.memory.loose_wheels`)."""

BlocksAt = Mapping[int, Sequence[GluedBlock]]
"""Those that end, or that begin, at each point."""


def leaves_balance(group: GluedGroup, ending: BlocksAt, beginning: BlocksAt) -> bool:
    """Whether at each point where some of a group end and some begin, what else ends and begins there is nearly as high."""
    return all(_is_balanced(ending[point], beginning[point], set(map(id, group))) for point in _points(group))


def exclusive(groups: Sequence[GluedGroup]) -> list[GluedGroup]:
    """Those that share no block with another one."""
    count = Counter(id(block) for group in groups for block in group)
    return [group for group in groups if all(count[id(block)] == 1 for block in group)]


def _points(group: GluedGroup) -> set[int]:
    """Where some of a group end and some begin."""
    return {block.upper for block in group} & {block.lower for block in group}


def _is_balanced(ended: Sequence[GluedBlock], begun: Sequence[GluedBlock], without: set[int]) -> bool:
    before, after = (sum(block.size for block in blocks if id(block) not in without) for blocks in (ended, begun))
    return abs(before - after) <= BALANCE * max(before, after)
