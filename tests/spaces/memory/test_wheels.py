"""Five rectangles around one: found wherever they are, and nothing else is taken for one."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.gluing import glued
from kilotune.spaces.memory.wheels import SizedLife, wheels_among
from tests.spaces.memory.problems import make


def wheel(times: tuple[int, int, int, int], heights: tuple[int, int, int]) -> list[SizedLife]:
    """The five of which the middle one begins and ends at the second and third time, and lies at the first height up to the second."""
    lower, first, second, upper = times
    low, high, size = heights
    return [
        (lower, second, low),
        (second, upper, high),
        (first, upper, size - high),
        (lower, first, size - low),
        (first, second, high - low),
    ]


increasing = st.lists(st.integers(0, 50), min_size=4, max_size=4, unique=True).map(sorted)
heights = st.lists(st.integers(1, 50), min_size=3, max_size=3, unique=True).map(sorted)


@given(increasing, heights, st.booleans(), st.integers(0, 99))
def test_a_wheel_fills_its_rectangle(times: list[int], sizes: list[int], mirrored: bool, seed: int) -> None:
    pieces = wheel((times[0], times[1], times[2], times[3]), (sizes[0], sizes[1], sizes[2]))
    if mirrored:
        pieces = [(50 - upper, 50 - lower, size) for lower, upper, size in pieces]
    random.Random(seed).shuffle(pieces)
    (found,) = wheels_among(pieces)
    assert sorted(found.members) == [0, 1, 2, 3, 4]
    filled = {
        (time, byte)
        for index, shift in zip(found.members, found.shifts, strict=True)
        for time in range(pieces[index][0], pieces[index][1])
        for byte in range(shift, shift + pieces[index][2])
    }
    area = (found.upper - found.lower) * found.size
    assert len(filled) == sum((upper - lower) * size for lower, upper, size in pieces) == area


def test_one_byte_too_many_is_no_wheel() -> None:
    pieces = wheel((0, 2, 5, 9), (3, 7, 11))
    for index, (lower, upper, size) in enumerate(pieces):
        for changed in ((lower, upper, size + 1), (lower, upper + 1, size)):
            assert list(wheels_among([*pieces[:index], changed, *pieces[index + 1 :]])) == []


def test_two_wheels_share_nothing() -> None:
    """Two of the same shape: ten rectangles, of which each belongs to one."""
    twice = wheel((0, 2, 5, 9), (3, 7, 11)) * 2
    found = list(wheels_among(twice))
    assert len(found) == 2
    assert sorted(found[0].members + found[1].members) == list(range(10))


def test_a_wheel_of_wheels_is_one_block() -> None:
    outer = wheel((0, 20, 50, 90), (30, 70, 110))
    inner = wheel((20, 27, 41, 50), (9, 21, 40))  # in place of the middle one
    found = glued(BufferArrays.of(make(*outer[:4], *inner)))
    assert found is not None
    assert (len(found.buffers), found.buffers.size.tolist()) == (1, [110])
