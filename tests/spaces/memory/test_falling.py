"""Placements that fall and are turned upside down, against the same done buffer by buffer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.falling import FALLS, fallen
from kilotune.spaces.memory.instance import Instance, Placement
from tests.spaces.memory.problems import random_instance


def stacked(instance: Instance, seed: int) -> list[int]:
    """All on one another, in some order."""
    offsets, top = [0] * len(instance.buffers), 0
    for i in np.random.default_rng(seed).permutation(len(offsets)).tolist():
        offsets[i], top = top, top + instance.buffers[i].size
    return offsets


def fallen_once(instance: Instance, offsets: list[int]) -> list[int]:
    """The lowest buffer first, each as low as what has fallen before lets it."""
    buffers, found = instance.buffers, dict[int, int]()
    for i in sorted(range(len(buffers)), key=lambda i: (offsets[i], i)):
        met = sorted((found[j], found[j] + buffers[j].size) for j in found if buffers[j].overlaps(buffers[i]))
        at = 0
        for low, high in met:
            if low - at >= buffers[i].size:
                break
            at = max(at, high)
        found[i] = at
    return [found[i] for i in range(len(buffers))]


def peaks_met(instance: Instance, offsets: list[int]) -> list[int]:
    """After each fall."""
    sizes, peaks = [b.size for b in instance.buffers], list[int]()
    for _ in range(FALLS):
        offsets = fallen_once(instance, offsets)
        peaks.append(max(offset + size for offset, size in zip(offsets, sizes, strict=True)))
        offsets = [peaks[-1] - size - offset for offset, size in zip(offsets, sizes, strict=True)]
    return peaks


@pytest.mark.parametrize("seed", range(12))
def test_the_lowest_of_all_that_are_met_is_kept(seed: int) -> None:
    instance = random_instance(seed, 25)
    offsets = stacked(instance, seed)
    found = fallen(BufferArrays.of(instance), np.array(offsets, dtype=np.int64))
    named = zip((b.id for b in instance.buffers), found.tolist(), strict=True)
    assert check_placement(instance, Placement(dict(named))) == min(peaks_met(instance, offsets))


def test_turning_upside_down_gains_and_no_fall_loses() -> None:
    met = [peaks_met(random_instance(seed, 25), stacked(random_instance(seed, 25), seed)) for seed in range(12)]
    assert sum(min(peaks) < peaks[0] for peaks in met) >= 3
    assert all(later <= peak for peaks in met for peak, later in pairwise(peaks))  # nothing falls upwards
