"""Five rectangles that turn around one of them: the smallest way to fill a rectangle that no cut from edge to edge parts.

    DCCCC
    DCCCC
    DEEBB
    DEEBB
    AAABB

A lies at the floor from the beginning to the end of the middle one; B beside it to the end of all; C on B, from the beginning of the
middle one; D on A at the beginning. Its mirror images hold the same rectangles, so there is one pattern.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SizedLife = tuple[int, int, int]
"""First point of the program, one past the last one, bytes."""

MOST_PAIRS = 2_000_000
"""Where so many rectangles begin or end together that more pairs would have to be looked at, no wheels are looked for."""


@dataclass(frozen=True)
class Wheel:
    """The rectangle that five fill: their indices, and how many bytes above its floor each lies."""

    lower: int
    upper: int
    size: int
    members: tuple[int, int, int, int, int]
    shifts: tuple[int, int, int, int, int]


def wheels_among(rectangles: Sequence[SizedLife]) -> Iterator[Wheel]:
    """Wheels that share no rectangle, in the order of their middle ones."""
    ending: dict[int, list[int]] = defaultdict(list)
    beginning: dict[tuple[int, int], list[int]] = defaultdict(list)  # by first point and size
    spanning: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, (lower, upper, size) in enumerate(rectangles):
        ending[upper].append(index)
        beginning[lower, size].append(index)
        spanning[lower, upper].append(index)
    if sum(len(ending[upper]) for _, upper, _ in rectangles) > MOST_PAIRS:
        return
    used: set[int] = set()
    for middle in range(len(rectangles)):
        wheel = _wheel_around(middle, rectangles, used, ending, beginning, spanning)
        if wheel is not None:
            used.update(wheel.members)
            yield wheel


def _wheel_around(
    middle: int,
    rectangles: Sequence[SizedLife],
    used: set[int],
    ending: dict[int, list[int]],
    beginning: dict[tuple[int, int], list[int]],
    spanning: dict[tuple[int, int], list[int]],
) -> Wheel | None:
    if middle in used:
        return None
    first, second, height = rectangles[middle]
    for early in ending[second]:  # A
        lower, _, low = rectangles[early]
        if lower >= first or early in used:
            continue
        for late in beginning.get((second, low + height), ()):  # B
            upper = rectangles[late][1]
            for left in spanning.get((lower, first), ()):  # D
                high = rectangles[left][2] - height
                for over in beginning.get((first, high), ()):  # C
                    members = (early, late, over, left, middle)
                    if rectangles[over][1] == upper and not used & set(members):
                        return Wheel(lower, upper, low + height + high, members, (0, 0, low + height, low, low))
    return None
