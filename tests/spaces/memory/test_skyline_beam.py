"""Several placements from below at a time: all are valid, and over few points they leave less unused than one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory import skyline_beam
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.skyline import SkylineSearch
from kilotune.spaces.memory.skyline_beam import BeamSearch, has_few_points, load_beam
from tests.spaces.memory.problems import instances
from tests.spaces.memory.test_regluing import few_points

if load_beam() is None:
    pytest.skip("no C compiler", allow_module_level=True)

PLACEMENTS = 8


def pile(buffers: BufferArrays) -> IntArray:
    """All on one another, in bytes: what the search is to lower."""
    step = int(np.lcm.reduce(buffers.alignment))
    tops = np.cumsum(-(-buffers.size // step) * step)
    return np.concatenate([[0], tops[:-1]])


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
        found = search.placement(pile(buffers.subset(there)))
        if found is None:
            continue
        placed += 1
        offsets = np.zeros(len(buffers), dtype=np.int64)
        offsets[there] = found
        named = zip((buffer.id for buffer in instance.buffers), offsets.tolist(), strict=True)
        assert check_placement(instance, Placement(dict(named))) == int((found + buffers.size[there]).max())
    assert placed


@settings(max_examples=150, deadline=None)
@given(instances(most=7, aligned=False), st.integers(0, 3))
def test_with_room_for_all_states_the_optimum_is_met(instance: Instance, seed: int) -> None:
    """Whatever is filtered out for what it must leave unused would have ended above the capacity."""
    instance = Instance("made", tuple(b for b in instance.buffers if b.size))
    if not instance.buffers:
        return
    buffers = BufferArrays.of(instance)
    bound = int(buffers.section_bytes.max())
    *_, proved = minimise_peak(buffers, bound)
    assert proved.done
    with pytest.MonkeyPatch.context() as patch:
        for name, many in (("WIDTH", 4000), ("LOOKED_AHEAD", 4000), ("CHILDREN", 7), ("RAISES", 7)):
            patch.setattr(skyline_beam, name, many)
        patch.setattr(BeamSearch, "_capacity", lambda search, peak: proved.peak_bytes)
        found = BeamSearch(buffers, seed).placement(pile(buffers))
    assert found is not None
    assert int((found + buffers.size).max()) == proved.peak_bytes


@pytest.mark.parametrize("seed", range(2))
def test_leaves_less_unused_over_few_points_than_one_at_a_time(seed: int) -> None:
    buffers = few_points(400, 30, seed)
    live = int(buffers.section_bytes.max())
    beam, skyline = BeamSearch(buffers, seed), SkylineSearch(buffers, seed)
    peak = beam_peak = 2 * live
    for _ in range(3 * PLACEMENTS):
        offsets, found = skyline.placement(), beam.placement(pile(buffers))
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
            found = search.placement(pile(buffers))
            if found is not None:
                peaks.append(int((found + buffers.size).max()))
        assert all(later < sorted(peaks[:k])[3] for k, later in enumerate(peaks) if k >= 4)
        ways.append(peaks)
    assert ways[0] == ways[1]
    assert ways[0] != ways[2]


def test_ends_with_its_time() -> None:
    buffers = few_points(400, 30, 0)
    assert BeamSearch(buffers, 0).placement(pile(buffers), seconds=0.0) is None


def test_goes_on_from_what_others_lowered() -> None:
    """With it among the best four, no later placement is as high as the fourth."""
    buffers = few_points(200, 20, 0)

    def peak_of(offsets: IntArray) -> int:
        return int((offsets + buffers.size).max())

    other, search = BeamSearch(buffers, 1), BeamSearch(buffers, 2)
    lowest = min((found for _ in range(100) if (found := other.placement(pile(buffers))) is not None), key=peak_of)
    peaks = [peak_of(found) for _ in range(4) if (found := search.placement(pile(buffers))) is not None]
    assert peak_of(lowest) < min(peaks)
    kept = sorted([peak_of(lowest), *peaks])
    later = [found for _ in range(40) if (found := search.placement(lowest)) is not None]
    assert later
    assert all(peak_of(found) < kept[3] for found in later)


def test_is_for_few_points() -> None:
    assert has_few_points(few_points(400, 30, 0))
    assert not has_few_points(few_points(400, 200, 0))
