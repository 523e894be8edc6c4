"""Wheels of five whose sizes fit together only nearly: the four times at which their lives meet betray them.

The pattern is that of `spaces.memory.wheels`. A, the early one, ends where the middle one does and the late one, B, begins; D, the left
one, ends where the middle one and C, the one over it, begin; A begins with D, and B ends with C.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilotune.spaces.memory.balance import BlocksAt
from kilotune.spaces.memory.gluing import GluedBlock

MOST_AT_A_POINT = 30
"""Blocks that begin, or end, at a point above which it is not looked at for wheels: all of them would be compared with one another."""

LooseWheel = tuple[GluedBlock, GluedBlock, GluedBlock, GluedBlock, GluedBlock]


def loose_wheels(ending: BlocksAt, beginning: BlocksAt, difference: float) -> list[LooseWheel]:
    """All of them, as early, late, over, left and middle block, from those that end and those that begin at each point. The middle one
    and the early one together may be lower or higher than the late one by a share `difference` of the higher, and so may the
    middle one and the one over it compared with the left one."""
    return [
        wheel
        for first, begun in beginning.items()
        if first in ending and max(len(begun), len(ending[first])) <= MOST_AT_A_POINT
        for wheel in _wheels_from(ending[first], begun, ending, beginning)
        if _are_near(wheel[0].size + wheel[4].size, wheel[1].size, difference)
        and _are_near(wheel[4].size + wheel[2].size, wheel[3].size, difference)
    ]


def around_wheel(wheel: LooseWheel) -> GluedBlock:
    """The rectangle of a wheel: what lies on others rests on the higher one of them, at multiples of its alignment."""
    early, late, over, left, middle = wheel
    left_at, middle_at = _aligned(early.size, left), _aligned(early.size, middle)
    over_at = _aligned(max(middle_at + middle.size, late.size), over)
    parts = ((early, 0), (late, 0), (over, over_at), (left, left_at), (middle, middle_at))
    size = max(at + block.size for block, at in parts)
    return GluedBlock(early.lower, late.upper, size, max(block.alignment for block in wheel), parts)


def _wheels_from(
    ended: Sequence[GluedBlock],
    begun: Sequence[GluedBlock],
    ending: BlocksAt,
    beginning: BlocksAt,
) -> Iterator[LooseWheel]:
    """Those whose left one is among the first, and whose middle one and the one over it are among the second."""
    for middle in begun:
        late_ones = beginning.get(middle.upper, ())
        early_ones = [block for block in ending[middle.upper] if block.lower < middle.lower]
        if not late_ones or not early_ones or max(len(late_ones), len(early_ones)) > MOST_AT_A_POINT:
            continue
        for over in begun:
            if over.upper <= middle.upper:
                continue
            for late in late_ones:
                if late.upper != over.upper:
                    continue
                for early in early_ones:
                    yield from ((early, late, over, left, middle) for left in ended if left.lower == early.lower)


def _are_near(first: int, second: int, difference: float) -> bool:
    return abs(first - second) <= difference * max(first, second)


def _aligned(offset: int, block: GluedBlock) -> int:
    return -(-offset // block.alignment) * block.alignment
