"""Who follows whom tells where a tiling was cut, whatever the sizes: its blocks are rectangles of all, within the live sums allowed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.falling import fallen
from kilotune.spaces.memory.gluing import GluedBuffers
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.missing_mates import has_gaps
from kilotune.spaces.memory.orders import best_greedy
from kilotune.spaces.memory.succession import SuccessionRule, glued_by_succession
from tests.spaces.memory.problems import instances, make, shrunk, thinned


def glue(instance: Instance, rule: SuccessionRule | None = None) -> GluedBuffers | None:
    return glued_by_succession(BufferArrays.of(instance), rule or SuccessionRule(), np.random.default_rng(0))


def checked_peak(instance: Instance, offsets: np.ndarray) -> int:
    named = zip((b.id for b in instance.buffers), offsets.tolist(), strict=True)
    return check_placement(instance, Placement(dict(named)))


@settings(max_examples=100)
@given(
    instances(most=12),
    st.sampled_from((math.inf, 1.0, 0.0)),
    st.sampled_from(((0.0, False), (0.3, False), (0.0, True))),
    st.integers(0, 9),
)
def test_placements_of_blocks_are_valid_and_live_sums_keep_their_limit(
    instance: Instance, share: float, kind: tuple[float, bool], seed: int
) -> None:
    """Fallen or not."""
    kept = Instance("kept", tuple(b for b in instance.buffers if b.size))
    if not kept.buffers:
        return
    buffers = BufferArrays.of(kept)
    live = int(buffers.section_bytes.max())
    most = live * (1 + share)
    difference, gaps = kind
    rule = SuccessionRule(most, difference, 0.5, gaps)
    whole = glued_by_succession(buffers, rule, np.random.default_rng(seed))
    if whole is None:
        return
    assert live <= int(whole.buffers.section_bytes.max()) <= most
    offsets = whole.spread(best_greedy(whole.buffers)[1])
    assert checked_peak(kept, fallen(buffers, offsets)) <= checked_peak(kept, offsets)


@pytest.mark.parametrize("seed", [8, 10, 11])
def test_a_shrunken_tiling_comes_down_to_a_few_blocks_that_fit_where_it_did(seed: int) -> None:
    """A pair's place is as high as its higher one, so no block is higher than what its tiles filled together."""
    whole = glue(shrunk(300, seed))
    assert whole is not None
    assert len(whole.buffers) < 45
    assert int(whole.buffers.section_bytes.max()) <= 1 << 20


def test_the_limit_says_which_rectangle_is_not_made() -> None:
    """The second one is higher by 2, which the third one's life leaves no room for."""
    instance = make((0, 4, 6), (4, 9, 8), (0, 3, 5))
    whole = glue(instance, SuccessionRule(most_bytes=13))
    assert whole is not None
    assert sorted(whole.buffers.size.tolist()) == [5, 8]
    assert glue(instance, SuccessionRule(most_bytes=12)) is None


def lives(instance: Instance, difference: float) -> list[tuple[int, int, int]] | None:
    whole = glue(instance, SuccessionRule(difference=difference))
    if whole is None:
        return None
    columns = (whole.buffers.lower, whole.buffers.upper, whole.buffers.size)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_as_many_that_end_and_begin_are_matched_where_sizes_leave_no_choice() -> None:
    two = make((0, 4, 60), (1, 4, 20), (4, 9, 57), (4, 8, 21))
    assert lives(two, 0.0) is None
    assert lives(two, 0.1) == [(0, 9, 60), (1, 8, 21)]
    forced = make((0, 4, 100), (1, 4, 92), (4, 9, 95), (4, 8, 105))  # 92 has no other mate than 95
    assert lives(forced, 0.1) == [(0, 8, 105), (1, 9, 95)]
    assert lives(forced, 0.2) is None
    assert lives(make((0, 4, 60), (1, 4, 30), (4, 9, 57), (4, 8, 21)), 0.1) is None


def test_of_more_that_begin_than_end_only_nearly_equal_ones_without_another_choice_are_glued() -> None:
    assert lives(make((0, 4, 60), (1, 4, 30), (4, 9, 59), (4, 8, 21), (4, 7, 8)), 0.1) == [
        (0, 9, 60), (1, 4, 30), (4, 7, 8), (4, 8, 21)
    ]  # fmt: skip
    assert lives(make((0, 4, 60), (1, 4, 61), (4, 9, 60), (4, 8, 21), (4, 7, 8)), 0.1) is None


def blocks_with_gaps(instance: Instance) -> list[tuple[int, int, int]]:
    whole = glue(instance, SuccessionRule(gaps=True))
    assert whole is not None
    columns = (whole.buffers.lower, whole.buffers.upper, whole.buffers.size)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("given_ones", "blocks"),
    [
        (
            ((0, 4, 60), (0, 9, 20)),
            [(0, 9, 80)],
        ),  # the first one's successor is missing, the second one lay beside both
        (((4, 9, 60), (0, 9, 20)), [(0, 9, 80)]),
        (((0, 4, 60), (6, 9, 60)), [(0, 9, 60)]),  # what lay between them is missing
        (((0, 4, 60), (0, 9, 20), (4, 7, 50)), [(0, 7, 60), (0, 9, 20)]),  # the first one's successor is there
    ],
)
def test_mates_that_are_missing_are_made_up_for(
    given_ones: tuple[tuple[int, int, int], ...], blocks: list[tuple[int, int, int]]
) -> None:
    """The last pair ends with a block that lacks a mate in its turn, and is put on the other one then."""
    apart = (20, 21, 1), (22, 23, 2)  # so that there is something that nothing is glued to
    made = blocks_with_gaps(make(*given_ones, *apart))
    assert [block for block in made if block[0] < 20] in (blocks, [(0, 9, 80)])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_thinned_tiling_leaves_fewer_blocks_where_mates_may_be_missing(seed: int) -> None:
    instance = thinned(300, seed)
    live = int(BufferArrays.of(instance).section_bytes.max())
    plain, gaps = (glue(instance, SuccessionRule(most_bytes=live, gaps=gaps)) for gaps in (False, True))
    assert plain is not None
    assert gaps is not None
    assert len(gaps.buffers) < 0.7 * len(plain.buffers)
    assert int(gaps.buffers.section_bytes.max()) == live


def test_gaps_are_some_of_all_points() -> None:
    assert has_gaps(BufferArrays.of(thinned(300, 1)))
    assert not has_gaps(BufferArrays.of(shrunk(300, 8)))
    assert not has_gaps(BufferArrays.of(make(*((at, at + 3, 1) for at in range(0, 40, 4)))))


def test_alignments_that_do_not_divide_each_other_are_not_glued() -> None:
    """One place for both would have to be a multiple of 6, which is neither's own."""
    assert glue(make((0, 4, 6, 2), (4, 9, 6, 3))) is None


def test_what_a_rectangle_left_unused_is_filled_by_falling() -> None:
    """The last one lies on the pair's rectangle, and falls beside its higher one."""
    buffers = BufferArrays.of(make((0, 4, 6), (4, 9, 8), (0, 3, 5)))
    assert fallen(buffers, np.array([0, 0, 8])).tolist() == [0, 0, 6]
