"""Sure gluing: only what sizes to the byte prove is glued, and blocks are filled without a gap."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from kilotune.experiments.benchmarks.placement_instances import over_points
from kilotune.spaces.memory import sure_gluing
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.gluing import GluedBuffers
from kilotune.spaces.memory.regluing import RegluingLimits, load_regluing, reglued
from kilotune.spaces.memory.sure_gluing import surely_glued


def buffers_of(*rows: tuple[int, int, int]) -> BufferArrays:
    table = np.array(rows, dtype=np.int64)
    lower, upper, size = (np.ascontiguousarray(table[:, column]) for column in range(3))
    return BufferArrays(lower, upper, size, np.ones(len(rows), dtype=np.int64))


def blocks_of(buffers: BufferArrays) -> list[tuple[int, int, int]]:
    """First point, one past the last one, bytes of what is left, in order."""
    whole = surely_glued(buffers)
    left = buffers if whole is None else whole.buffers
    return sorted(zip(left.lower.tolist(), left.upper.tolist(), left.size.tolist(), strict=True))


@pytest.mark.parametrize("backwards", [False, True])
def test_of_three_that_live_equally_long_those_are_stacked_that_have_a_mate_together(backwards: bool) -> None:
    rows = [(0, 2, 10_007), (0, 2, 30_011), (0, 2, 77_777), (2, 5, 40_018), (2, 4, 66_666)]
    expected = [(0, 2, 77_777), (0, 5, 40_018), (2, 4, 66_666)]
    if backwards:
        rows, expected = ([(5 - hi, 5 - lo, size) for lo, hi, size in some] for some in (rows, expected))
    assert blocks_of(buffers_of(*rows)) == sorted(expected)


def test_three_are_stacked_below_one_and_two_beside_two() -> None:
    three = [(0, 2, 100_003), (0, 2, 200_017), (0, 2, 300_043), (2, 3, 600_063)]
    assert blocks_of(buffers_of(*three)) == [(0, 3, 600_063)]
    two = [(0, 2, 100_003), (0, 2, 200_017), (0, 2, 777_777), (2, 3, 150_011), (2, 3, 150_009), (2, 3, 444_444)]
    assert blocks_of(buffers_of(*two)) == [(0, 2, 777_777), (0, 3, 300_020), (2, 3, 444_444)]


@pytest.mark.parametrize("unit", [4, 64, 4096])
def test_in_whatever_unit_sizes_are_the_same_is_glued(unit: int) -> None:
    """Where all sizes are multiples of 64 bytes, two are the same by chance 64 times as often."""
    buffers = BufferArrays.of(over_points(300, 40, 3, False))
    larger = BufferArrays(buffers.lower, buffers.upper, buffers.size * unit, buffers.alignment)
    in_bytes, in_units = surely_glued(buffers), surely_glued(larger)
    assert in_bytes is not None
    assert in_units is not None
    assert 1 < len(in_bytes.buffers) < len(buffers)
    assert in_bytes.group.tolist() == in_units.group.tolist()
    assert (in_bytes.buffers.size * unit).tolist() == in_units.buffers.size.tolist()


def test_what_may_be_so_by_chance_is_not_glued() -> None:
    assert blocks_of(buffers_of((0, 2, 10), (0, 2, 30), (0, 2, 77), (2, 5, 40), (2, 4, 66))) == [
        (0, 2, 10),
        (0, 2, 30),
        (0, 2, 77),
        (2, 4, 66),
        (2, 5, 40),
    ]


def test_two_that_are_followed_by_two_of_their_sizes_need_not_have_lain_on_each_other() -> None:
    others = [(1, 4, 81_001), (2, 4, 82_003), (3, 4, 83_007), (4, 5, 91_001), (4, 6, 92_003), (4, 7, 93_007)]
    rows = [(0, 4, 30_000), (0, 4, 10_000), (0, 4, 77_777), (4, 9, 30_000), (4, 9, 10_000), (4, 9, 55_555), *others]
    glued = [(0, 4, 77_777), (0, 9, 10_000), (0, 9, 30_000), (4, 9, 55_555), *others]
    assert blocks_of(buffers_of(*rows)) == sorted(glued)


def assert_is_full(whole: GluedBuffers, buffers: BufferArrays) -> None:
    """Every block holds its buffers, no two of which overlap, and no byte more."""
    offsets, area = whole.spread(np.zeros(len(whole.buffers), dtype=np.int64)), np.zeros(len(whole.buffers))
    np.add.at(area, whole.group, buffers.size * (buffers.upper - buffers.lower))
    assert (area == whole.buffers.size * (whole.buffers.upper - whole.buffers.lower)).all()
    tops = offsets + buffers.size
    assert (tops <= whole.buffers.size[whole.group]).all()
    for b in range(len(buffers)):
        together = (
            (buffers.lower < buffers.upper[b]) & (buffers.lower[b] < buffers.upper) & (whole.group == whole.group[b])
        )
        together[b] = False
        assert not (together & (offsets < tops[b]) & (offsets[b] < tops)).any()


def test_half_of_a_tiling_is_glued_and_the_rest_comes_back_to_one_block() -> None:
    buffers = BufferArrays.of(over_points(1000, 80, 31, False))
    sure = surely_glued(buffers)
    assert sure is not None
    assert len(sure.buffers) < 600
    assert_is_full(sure, buffers)
    assert sure.buffers.section_bytes.max() == 1 << 20
    if load_regluing() is None:
        pytest.skip("no C compiler")
    found = reglued(
        sure.buffers, RegluingLimits(400_000_000), 1, 0.001
    )  # 72 million are enough; all 1000 are not done after a billion
    assert found.whole is not None
    assert len(found.whole.buffers) == 1
    assert_is_full(sure.then(found.whole), buffers)


class Counted:
    """`itertools.combinations`, which counts what it gives."""

    def __init__(self) -> None:
        self.given = 0

    def __call__(self, blocks: Any, height: int) -> Any:
        for members in combinations(blocks, height):
            self.given += 1
            yield members


def alike(scale: int) -> BufferArrays:
    """60 that live equally long; two of them together are as large as one that follows them."""
    sizes = np.random.default_rng(5).integers(1 << 12, 1 << 16, 60) * scale
    rows = [(0, 2, int(size)) for size in sizes]
    return buffers_of(*rows, (2, 4, rows[7][2] + rows[30][2]), (2, 3, 1), (2, 3, 3))


def test_where_many_live_equally_long_no_more_is_looked_at_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are so large that none of the 1770 pairs is there by chance."""
    counted, buffers = Counted(), alike(1 << 20)
    monkeypatch.setattr(sure_gluing, "combinations", counted)
    pair = (0, 4, int(buffers.size[60]))
    assert pair in glued_although_few(buffers)
    assert counted.given >= 1770
    monkeypatch.setattr(sure_gluing, "LOOKS_A_BUFFER", 5)
    counted.given = 0
    assert pair not in glued_although_few(buffers)
    assert counted.given <= 5 * len(buffers)


def glued_although_few(buffers: BufferArrays) -> list[tuple[int, int, int]]:
    """As `blocks_of`, but where most buffers are left, too."""
    blocks = sure_gluing.BlocksLeft(buffers)
    looks = sure_gluing._Looks(sure_gluing.LOOKS_A_BUFFER * len(buffers))
    while sure_gluing._glue_surest(blocks, 1, looks):
        pass
    return [(block.lower, block.upper, block.size) for block in blocks.left]


def test_pairs_that_would_all_be_there_by_chance_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted()
    monkeypatch.setattr(sure_gluing, "combinations", counted)
    surely_glued(alike(1))
    assert counted.given == 1, "the pair of small ones, which one of the others might be as large as"
