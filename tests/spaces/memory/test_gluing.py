"""Gluing loses nothing that it claims to keep: a placement of the glued buffers is one of all, of the same height."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.gluing import glued
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.orders import place_in_order
from tests.spaces.memory.problems import guillotine, instances, make


@settings(max_examples=200)
@given(instances(most=12), st.integers(0, 99))
def test_a_placement_of_the_glued_ones_is_one_of_all(instance: Instance, seed: int) -> None:
    whole = BufferArrays.of(instance)
    buffers = whole.subset(np.flatnonzero(whole.size > 0))
    found = glued(buffers)
    if found is None:
        return
    order = np.random.default_rng(seed).permutation(len(found.buffers)).astype(np.int32)
    offsets = place_in_order(found.buffers, order)
    named = zip((b.id for b in instance.buffers if b.size), found.spread(offsets).tolist(), strict=True)
    kept = Instance("kept", tuple(b for b in instance.buffers if b.size))
    assert check_placement(kept, Placement(dict(named))) == int((offsets + found.buffers.size).max())


@settings(max_examples=100)
@given(instances(most=12, aligned=False))
def test_no_byte_is_wasted(instance: Instance) -> None:
    """The sum of size times life is what it was."""
    whole = BufferArrays.of(instance)
    found = glued(whole.subset(np.flatnonzero(whole.size > 0)))
    if found is not None:
        area = [int((b.size * (b.upper - b.lower)).sum()) for b in (whole, found.buffers)]
        assert area[0] == area[1]


def test_what_was_cut_from_edge_to_edge_is_put_together_again() -> None:
    found = glued(BufferArrays.of(guillotine(400, 2)))
    assert found is not None
    assert len(found.buffers) <= 20  # where three edges meet by chance, what fits together is not unique


def test_alignment_decides_what_goes_below() -> None:
    """3 bytes that may lie anywhere go above 8 aligned ones; two of 6 bytes that must both be aligned to 4 are not stacked."""
    found = glued(BufferArrays.of(make((0, 4, 3, 1), (0, 4, 8, 8))))
    assert found is not None
    assert (len(found.buffers), found.shift.tolist()) == (1, [8, 0])
    assert glued(BufferArrays.of(make((0, 4, 6, 4), (0, 4, 6, 4)))) is None


def test_buffers_that_follow_one_another_become_one() -> None:
    found = glued(BufferArrays.of(make((0, 4, 8), (4, 9, 8, 4), (9, 12, 7))))
    assert found is not None
    assert sorted(zip(found.buffers.lower, found.buffers.upper, found.buffers.alignment, strict=True)) == [
        (0, 9, 4),
        (9, 12, 1),
    ]
