"""Tilings that no cut from edge to edge and no wheel takes apart come back whole."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.instance import Buffer, Instance, Placement
from kilotune.spaces.memory.stack_orders import MOST_BUFFERS, stacked

HEIGHT = 1 << 16


def pieces(total: int, count: int, rng: random.Random) -> list[int]:
    cuts = [0, *sorted(rng.sample(range(1, total), count - 1)), total]
    return [high - low for low, high in pairwise(cuts)]


def bands(count: int, seed: int, shrink: float = 0.0, alignment: int = 1) -> Instance:
    """A stack that fills the memory; at each point of time some neighbours end, and others take their place. In a random order."""
    rng = random.Random(seed)
    stack = [(0, size) for size in pieces(HEIGHT, 12, rng)]
    rows: list[tuple[int, int, int]] = []
    at = 0
    while len(rows) + len(stack) < count:
        at += rng.randint(1, 5)
        width = rng.choice((1, 2, 2, 3)) if len(stack) > 6 else 1
        first = rng.randrange(len(stack) - width + 1)
        ending = stack[first : first + width]
        total = sum(size for _, size in ending)
        parts = rng.choice((1, 2, 2, 3)) if len(stack) < 20 else 1
        if total > 3 * parts:
            rows += [(begin, at, size) for begin, size in ending]
            stack[first : first + width] = [(at, size) for size in pieces(total, parts, rng)]
    rows += [(begin, at + 1, size) for begin, size in stack]
    rng.shuffle(rows)
    sized = [(lower, upper, max(1, int(size * (1 - shrink * rng.random())))) for lower, upper, size in rows]
    return Instance("bands", tuple(Buffer(str(number), *row, alignment) for number, row in enumerate(sized)))


def checked_peak(instance: Instance) -> int | None:
    offsets = stacked(BufferArrays.of(instance))
    if offsets is None:
        return None
    return check_placement(
        instance, Placement({b.id: int(at) for b, at in zip(instance.buffers, offsets, strict=True)})
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_tiling_comes_back_whole(seed: int) -> None:
    assert checked_peak(bands(300, seed)) == HEIGHT


@pytest.mark.parametrize("seed", range(5))
def test_smaller_tiles_lie_as_they_lay_and_fall(seed: int) -> None:
    peak = checked_peak(bands(300, seed, shrink=0.1))
    assert peak is not None
    assert peak < HEIGHT


def test_alignments_are_kept() -> None:
    instance = bands(200, 1, shrink=0.1, alignment=64)
    offsets = stacked(BufferArrays.of(instance))
    assert offsets is not None
    assert not (offsets % 64).any()
    assert checked_peak(instance) is not None


def test_other_buffers_have_no_such_order() -> None:
    rng = np.random.default_rng(1)
    rows = [
        (int(low), int(low + life), 8)
        for low, life in zip(rng.integers(0, 90, 60), rng.integers(1, 30, 60), strict=True)
    ]
    assert checked_peak(Instance("random", tuple(Buffer(str(n), *row) for n, row in enumerate(rows)))) is None
    assert checked_peak(bands(MOST_BUFFERS + 50, 0)) is None
    crossed = [(0, 1, 4), (0, 2, 4), (0, 3, 4), (1, 4, 4), (2, 4, 4), (3, 4, 4)]
    assert checked_peak(Instance("crossed", tuple(Buffer(str(n), *row) for n, row in enumerate(crossed)))) == 12


def test_the_search_begins_from_it() -> None:
    instance = bands(300, 3)
    assert next(minimise_peak(BufferArrays.of(instance), HEIGHT)).peak_bytes == HEIGHT
