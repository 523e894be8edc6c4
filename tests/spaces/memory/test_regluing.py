"""Ruin and recreate over what is glued: blocks hold their buffers without overlap, and wrong stacks come apart."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.gluing import MOST_LEFT, GluedBuffers
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.regluing import RegluingLimits, can_reglue, load_regluing, reglued, share_with_exact_mates
from kilotune.spaces.memory.succession import SuccessionRule, glued_by_succession
from tests.spaces.memory.problems import instances, random_instance, shrunken_wheels

if load_regluing() is None:
    pytest.skip("no C compiler", allow_module_level=True)

LOOKS = 3_000_000
MEGABYTE = 1 << 20


def few_points(count: int, points: int, seed: int, smaller: float = 0.1) -> BufferArrays:
    """Tiles in wheels and from edge to edge, each smaller by up to a share, over so few points of time that cuts meet by chance."""
    rng = np.random.default_rng(seed)
    tiles = [(0, points, 1 << 20)]
    while len(tiles) < count:
        areas = np.array([float(upper - lower) * size for lower, upper, size in tiles])
        lower, upper, size = tile = tiles.pop(int(rng.choice(len(tiles), p=areas / areas.sum())))
        if rng.random() < 0.3 and upper - lower > 2:
            first, second = sorted(rng.choice(np.arange(lower + 1, upper), 2, replace=False).tolist())
            low, high = sorted(rng.integers(1, size, 2).tolist())
            if low == high:
                tiles.append(tile)
                continue
            tiles += [(lower, second, low), (second, upper, high), (first, upper, size - high)]
            tiles += [(lower, first, size - low), (first, second, high - low)]
        elif rng.random() < 0.5 and upper - lower > 1:
            at = int(rng.integers(lower + 1, upper))
            tiles += [(lower, at, size), (at, upper, size)]
        else:
            at = int(rng.integers(1, size))
            tiles += [(lower, upper, at), (lower, upper, size - at)]
    table = np.array(tiles)[rng.permutation(len(tiles))]
    size = np.maximum((table[:, 2] * (1 - rng.random(len(table)) * smaller)).astype(np.int64), 1)
    lower, upper = (np.ascontiguousarray(table[:, column]) for column in (0, 1))
    return BufferArrays(lower, upper, size, np.ones(len(table), dtype=np.int64))


def assert_holds(whole: GluedBuffers, buffers: BufferArrays) -> None:
    """Each block holds the lives and sizes of its buffers, no two of which overlap: alone, each block is a placement."""
    blocks, group, shift = whole.buffers, whole.group, whole.shift
    assert (blocks.lower[group] <= buffers.lower).all()
    assert (blocks.upper[group] >= buffers.upper).all()
    assert (shift >= 0).all()
    assert (shift + buffers.size <= blocks.size[group]).all()
    assert (shift % buffers.alignment == 0).all()
    for block in range(len(blocks)):
        assert_apart(buffers.subset(np.flatnonzero(group == block)), shift[group == block])


def assert_apart(buffers: BufferArrays, offsets: IntArray) -> None:
    lower, upper, top = buffers.lower, buffers.upper, offsets + buffers.size
    meet = (lower[:, None] < upper) & (lower < upper[:, None]) & (offsets[:, None] < top) & (offsets < top[:, None])
    assert int(meet.sum()) == len(buffers)  # each meets itself


@pytest.mark.parametrize("seed", range(3))
def test_wrong_stacks_come_apart(seed: int) -> None:
    """What never looks back is left with many blocks."""
    buffers = few_points(300, 300, seed)
    once = glued_by_succession(buffers, SuccessionRule(difference=0.1), np.random.default_rng(0))
    found = reglued(buffers, RegluingLimits(LOOKS), seed)
    assert once is not None
    assert found.whole is not None
    assert len(found.whole.buffers) <= len(once.buffers) // 3
    assert found.looks > 0
    assert_holds(found.whole, buffers)


def test_exact_sizes_tell_who_lay_beside_whom_over_few_points() -> None:
    """Seven buffers begin at each point. Whatever is left, next to nothing is unused, and most come down to one block."""
    left = []
    for seed in range(4):
        buffers = few_points(700, 100, seed, smaller=0.0)
        whole = reglued(buffers, RegluingLimits(40_000_000), seed, likeness=0.001).whole
        assert whole is not None
        assert_holds(whole, buffers)
        assert int(whole.buffers.section_bytes.max()) - MEGABYTE <= MEGABYTE // 1000
        left.append(len(whole.buffers))
    assert sorted(left)[2] == 1


@settings(max_examples=40, deadline=None)
@given(instances(most=12, aligned=False))
def test_buffers_with_exact_mates_are_counted(instance: Instance) -> None:
    rows = instance.buffers
    with_mates = sum(
        any(one.size == other.size and (one.upper == other.lower or one.lower == other.upper) for other in rows)
        for one in rows
    )
    assert share_with_exact_mates(BufferArrays.of(instance)) == pytest.approx(with_mates / max(len(rows), 1))


def test_live_sums_stay_within_the_limit() -> None:
    buffers = BufferArrays.of(shrunken_wheels(200, 3))
    live = int(buffers.section_bytes.max())
    free, limited = (reglued(buffers, RegluingLimits(LOOKS, most), 1).whole for most in (math.inf, live + live // 500))
    assert free is not None
    assert limited is not None
    assert int(limited.buffers.section_bytes.max()) <= live + live // 500 < int(free.buffers.section_bytes.max())
    assert len(limited.buffers) > len(free.buffers)
    assert_holds(limited, buffers)


@settings(max_examples=40, deadline=None)
@given(instances(most=12, aligned=False), st.integers(0, 5))
def test_whatever_is_glued_is_a_placement(instance: Instance, seed: int) -> None:
    instance = Instance("made", tuple(b for b in instance.buffers if b.size))
    if not instance.buffers:
        return
    buffers = BufferArrays.of(instance)
    whole = reglued(buffers, RegluingLimits(20_000), seed).whole
    if whole is not None:
        assert_holds(whole, buffers)
        assert len(whole.buffers) <= MOST_LEFT * len(buffers)


def test_it_says_none_where_nothing_belongs_together() -> None:
    assert reglued(BufferArrays.of(random_instance(1, 200)), RegluingLimits(LOOKS), 1).whole is None


def test_alignments_that_leave_gaps_are_not_reglued() -> None:
    instance = shrunken_wheels(100, 1)
    aligned = replace(
        instance, buffers=tuple(replace(b, alignment=16, size=-(-b.size // 16) * 16) for b in instance.buffers)
    )
    uneven = replace(instance, buffers=tuple(replace(b, alignment=16) for b in instance.buffers))
    assert can_reglue(BufferArrays.of(aligned))
    assert not can_reglue(BufferArrays.of(uneven))
    whole = reglued(BufferArrays.of(aligned), RegluingLimits(LOOKS), 1).whole
    assert whole is not None
    assert_holds(whole, BufferArrays.of(aligned))


def test_the_same_seed_glues_the_same() -> None:
    buffers = few_points(200, 100, 7)
    first, second = (reglued(buffers, RegluingLimits(300_000), 5) for _ in range(2))
    assert first.whole is not None
    assert second.whole is not None
    assert (first.whole.group == second.whole.group).all()
    assert (first.whole.shift == second.whole.shift).all()
    assert first.looks == second.looks


def test_the_first_gluing_keeps_to_the_limits_too() -> None:
    """Of all lives between forty points, five times over, which are much alike."""
    lives = [(40 * k + a, 40 * k + b) for k in range(5) for a in range(40) for b in range(a + 1, 41)]
    lower, upper = np.array(lives).T
    buffers = BufferArrays(
        lower.copy(), upper.copy(), np.random.default_rng(3).integers(900, 1001, len(lives)), np.ones_like(lower)
    )
    all_points = reglued(buffers, RegluingLimits(1_000_000), 1).looks
    assert reglued(buffers, RegluingLimits(1), 1).looks < all_points / 10
    assert reglued(buffers, RegluingLimits(1_000_000, seconds=0.0), 1).looks < all_points / 10


def test_nothing_is_not_reglued() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert not can_reglue(BufferArrays(none, none, none, none))


def test_of_many_that_live_equally_long_some_lay_elsewhere() -> None:
    """Three live from 0 to 5, of which the last one has a mate of exactly its size behind it. Two alone that live from 0 to 7 are stacked
    before any of the three; what meets where their neighbour begins is looked at then, and the mates find each other."""
    rows = np.array([[0, 7, 50], [0, 7, 30], [5, 7, 160], [5, 9, 37], [0, 5, 100], [0, 5, 60], [0, 5, 37]])
    lower, upper, size = (np.ascontiguousarray(column) for column in rows.T)
    buffers = BufferArrays(lower, upper, size, np.ones_like(size))
    # Without time it ends with what begins at the first point.
    whole = reglued(buffers, RegluingLimits(LOOKS, seconds=0.0), 1).whole
    assert whole is not None
    behind, first, second, mate = whole.group[3:].tolist()
    assert first == second != mate == behind
