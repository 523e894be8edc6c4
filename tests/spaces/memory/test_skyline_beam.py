"""Several placements from below at a time: all are valid, and over few points they leave less unused than one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.skyline import SkylineSearch
from kilotune.spaces.memory.skyline_beam import BeamSearch, has_few_points, load_beam
from tests.spaces.memory.problems import instances
from tests.spaces.memory.test_regluing import few_points

if load_beam() is None:
    pytest.skip("no C compiler", allow_module_level=True)

PLACEMENTS = 8


@settings(max_examples=60, deadline=None)
@given(instances())
def test_placements_are_valid(instance: Instance) -> None:
    """Those that begin from what is kept of others, too; alignments, gaps in time and lone buffers included."""
    buffers = BufferArrays.of(instance)
    there = np.flatnonzero(buffers.size > 0)
    if not len(there):
        return
    search = BeamSearch(buffers.subset(there), seed=0)
    placed = 0
    for _ in range(PLACEMENTS):
        found = search.placement(int(buffers.size.sum() + buffers.alignment.sum()))
        if found is None:
            continue
        placed += 1
        offsets = np.zeros(len(buffers), dtype=np.int64)
        offsets[there] = found
        named = zip((buffer.id for buffer in instance.buffers), offsets.tolist(), strict=True)
        assert check_placement(instance, Placement(dict(named))) == int((found + buffers.size[there]).max())
    assert placed


@pytest.mark.parametrize("seed", range(2))
def test_leaves_less_unused_over_few_points_than_one_at_a_time(seed: int) -> None:
    buffers = few_points(400, 30, seed)
    live = int(buffers.section_bytes.max())
    beam, skyline = BeamSearch(buffers, seed), SkylineSearch(buffers, seed)
    peak = beam_peak = 2 * live
    for _ in range(3 * PLACEMENTS):
        offsets, found = skyline.placement(), beam.placement(peak)
        assert offsets is not None
        peak = min(peak, int((offsets + buffers.size).max()))
        if found is not None:
            beam_peak = min(beam_peak, int((found + buffers.size).max()))
    assert beam_peak - live < 0.7 * (peak - live)


def test_what_is_met_later_is_lower_than_what_is_kept() -> None:
    """And each search goes its own way, the same one every time."""
    buffers = few_points(200, 20, 0)
    ways = []
    for seed in (1, 1, 2):
        search, peaks = BeamSearch(buffers, seed), []
        for _ in range(4 * PLACEMENTS):
            found = search.placement(2 * int(buffers.section_bytes.max()))
            if found is not None:
                peaks.append(int((found + buffers.size).max()))
        assert all(later < sorted(peaks[:k])[3] for k, later in enumerate(peaks) if k >= 4)
        ways.append(peaks)
    assert ways[0] == ways[1]
    assert ways[0] != ways[2]


def test_ends_with_its_time() -> None:
    assert BeamSearch(few_points(400, 30, 0), 0).placement(1 << 40, seconds=0.0) is None


def test_is_for_few_points() -> None:
    assert has_few_points(few_points(400, 30, 0))
    assert not has_few_points(few_points(400, 200, 0))
