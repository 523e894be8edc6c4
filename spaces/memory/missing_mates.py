"""Blocks whose mate is missing: where a memory that was cut from edge to edge has gaps, a block ends and none takes its place.

Such a block may have been as long as one that it lay on, or one on it: of those that begin with it, one that ends later. Or what
followed it is missing, and a block of exactly its size, before which something is missing too, lay behind the gap. In time and
backwards alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.gluing import GluedBlock

FEWEST_ALONE, MOST_ALONE = 0.02, 0.5
"""The shares of points at which one buffer ends and none begins, or the other way round, between which mates may be called missing: of
fewer nothing is to be told, and where there are more the rest has not been cut from edge to edge."""


def has_gaps(buffers: BufferArrays) -> bool:
    """Whether some buffers seem to lack a mate."""
    ends, begins = np.unique(buffers.upper), np.unique(buffers.lower)
    points = len(np.union1d(ends, begins))
    alone = points - len(np.intersect1d(ends, begins)) - 2  # nothing was before the first point, or after the last
    return FEWEST_ALONE * points < alone < MOST_ALONE * points


def pairs_with_missing_mates(
    ending: Mapping[int, Sequence[GluedBlock]], beginning: Mapping[int, Sequence[GluedBlock]], most_beside: int
) -> list[tuple[GluedBlock, GluedBlock]]:
    """Pairs of which a block lacks a mate, from those that end and those that begin at each point. It is put beside another one where at
    most `most_beside` others begin, or end, with it."""
    ends = [blocks[0] for point, blocks in ending.items() if len(blocks) == 1 and point not in beginning]
    begins = [blocks[0] for point, blocks in beginning.items() if len(blocks) == 1 and point not in ending]
    of_size: dict[int, list[GluedBlock]] = defaultdict(list)
    for block in begins:
        of_size[block.size].append(block)
    pairs = [(block, later) for block in ends for later in of_size[block.size] if later.lower > block.upper]
    for block in ends:
        beside = beginning[block.lower]
        if len(beside) <= most_beside + 1:
            pairs += [(longer, block) for longer in beside if longer.upper > block.upper]
    for block in begins:
        beside = ending[block.upper]
        if len(beside) <= most_beside + 1:
            pairs += [(longer, block) for longer in beside if longer.lower < block.lower]
    return pairs
