"""Wheels whose sizes shrank: found by their lives, placed without overlap, and no pair is glued that leaves a point out of balance."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.balance import leaves_balance
from kilotune.spaces.memory.gluing import GluedBlock
from kilotune.spaces.memory.loose_wheels import around_wheel, loose_wheels
from kilotune.spaces.memory.succession import SuccessionRule, glued_by_succession
from tests.spaces.memory.problems import make, shrunken_wheels

Ends = dict[int, list[GluedBlock]]

SIZE = 10_000
increasing = st.lists(st.integers(0, 50), min_size=4, max_size=4, unique=True).map(sorted)
heights = st.lists(st.integers(500, SIZE - 500), min_size=2, max_size=2, unique=True).map(sorted)
shares = st.lists(st.floats(0.9, 1.0), min_size=5, max_size=5)


def block(lower: int, upper: int, size: int, alignment: int = 1) -> GluedBlock:
    return GluedBlock(lower, upper, size, alignment, ())


def ends_of(blocks: list[GluedBlock]) -> tuple[Ends, Ends]:
    ending, beginning = defaultdict(list), defaultdict(list)
    for one in blocks:
        ending[one.upper].append(one)
        beginning[one.lower].append(one)
    return dict(ending), dict(beginning)


def shrunken(times: list[int], sizes: list[int], kept: list[float], alignment: int) -> list[GluedBlock]:
    """Early, late, over, left and middle one."""
    lower, first, second, upper = times
    low, high = sizes
    lives = [(lower, second), (second, upper), (first, upper), (lower, first), (first, second)]
    whole = [low, high, SIZE - high, SIZE - low, high - low]
    return [block(*life, max(1, int(size * k)), alignment) for life, size, k in zip(lives, whole, kept, strict=True)]


@given(increasing, heights, shares, st.sampled_from((1, 16)))
def test_a_shrunken_wheel_is_found_and_fits_where_it_was(
    times: list[int], sizes: list[int], kept: list[float], alignment: int
) -> None:
    pieces = shrunken(times, sizes, kept, alignment)
    (found,) = loose_wheels(*ends_of(pieces[::-1]), 0.15)
    assert list(found) == pieces
    whole = around_wheel(found)
    assert (whole.lower, whole.upper, whole.alignment) == (times[0], times[-1], alignment)
    assert whole.size <= SIZE + 3 * (alignment - 1)
    for place, (part, at) in enumerate(whole.parts):
        assert at % alignment == 0
        assert 0 <= at <= whole.size - part.size
        for other, above in whole.parts[:place]:
            apart_in_time = part.upper <= other.lower or other.upper <= part.lower
            assert apart_in_time or at + part.size <= above or above + other.size <= at


def test_sizes_that_do_not_fit_together_are_no_wheel() -> None:
    pieces = shrunken([0, 3, 5, 9], [4000, 7000], [1.0] * 5, 1)
    assert loose_wheels(*ends_of(pieces), 0.15)
    pieces[1] = block(5, 9, 12_000)
    assert not loose_wheels(*ends_of(pieces), 0.15)


@pytest.mark.parametrize(("other", "balanced"), [(9, True), (7, False), (None, False)])
def test_what_else_ends_at_a_point_is_as_high_as_what_else_begins(other: int | None, balanced: bool) -> None:
    """The pair of 5 beside one of 10 that ends, and another one that begins, or none."""
    pair = (block(0, 4, 5), block(4, 8, 5))
    rest = [block(1, 4, 10), *([block(4, 9, other)] if other is not None else [])]
    assert leaves_balance(pair, *ends_of([*pair, *rest])) == balanced


def test_where_one_ends_and_two_begin_no_pair_is_glued_though_a_life_confirms_it() -> None:
    """The middle one and the late one of a wheel live together as long as the one over them does."""
    beside, middle, late, over = (0, 3, 1000), (3, 5, 900), (5, 9, 950), (3, 9, 100)
    assert (
        glued_by_succession(
            BufferArrays.of(make(beside, middle, late, over)), SuccessionRule(), np.random.default_rng(0)
        )
        is not None
    )  # at the end of the middle one nothing else ends
    early = (1, 5, 2000)
    assert (
        glued_by_succession(
            BufferArrays.of(make(beside, middle, late, over, early)), SuccessionRule(), np.random.default_rng(0)
        )
        is None
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tiles_in_wheels_that_shrank_come_down_to_a_few_blocks_that_fit_where_they_did(seed: int) -> None:
    rule = SuccessionRule(math.inf)
    whole = glued_by_succession(BufferArrays.of(shrunken_wheels(300, seed)), rule, np.random.default_rng(0))
    assert whole is not None
    assert len(whole.buffers) <= 3
    assert int(whole.buffers.section_bytes.max()) <= 1 << 20
