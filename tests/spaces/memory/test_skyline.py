"""Placements from below: those of a plain definition, and lower after every lesson where there is room."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.arrays import IntArray
from kilotune.experiments.benchmarks.placement_instances import scattered
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.checker import check_placement
from kilotune.spaces.memory.component_search import MOST_PAIRS, VERY_LARGE
from kilotune.spaces.memory.exact import minimise_peak
from kilotune.spaces.memory.instance import Instance, Placement
from kilotune.spaces.memory.skyline import (
    FIRST_LOOKS,
    LATER_LOOKS,
    LEAST_LOG_WEIGHT,
    RULES,
    SIZE_POWER,
    STEEPNESS,
    SkylineRule,
    SkylineSearch,
    load_skyline,
)
from tests.spaces.memory.problems import make, random_instance

if load_skyline() is None:
    pytest.skip("no C compiler", allow_module_level=True)


def peak(instance: Instance, offsets: IntArray) -> int:
    named = zip((b.id for b in instance.buffers), offsets.tolist(), strict=True)
    return check_placement(instance, Placement(dict(named)))


def defined(buffers: BufferArrays) -> list[int]:
    """The first placement, section by section: the lowest stretch, the first one of several; its best buffer, or up it goes."""
    begins, ends, count = buffers.sections
    live = buffers.section_bytes
    weight = np.exp(np.maximum(STEEPNESS * (live / live.max() - 1.0), LEAST_LOG_WEIGHT))
    before = np.concatenate([[0.0], np.cumsum(weight)])
    heights, waiting, offsets = [0] * count, sorted(range(len(buffers)), key=lambda b: int(begins[b])), {}
    while waiting:
        stretches = [(k, list(g)) for k, g in itertools.groupby(range(count), key=heights.__getitem__)]
        height, sections = min(stretches, key=lambda stretch: stretch[0])
        left, right = sections[0], sections[-1] + 1
        sides = [heights[i] if 0 <= i < count else math.inf for i in (left - 1, right)]
        within = [b for b in waiting if begins[b] >= left and ends[b] <= right][:FIRST_LOOKS]
        if not within:
            heights[left:right] = [int(min(sides))] * (right - left)
            continue

        def score(b: int) -> float:
            up = -(-height // int(buffers.alignment[b])) * int(buffers.alignment[b]) + int(buffers.size[b]) - height  # noqa: B023
            life = before[ends[b]] - before[begins[b]]
            unused = (before[begins[b]] - before[left]) * min(sides[0] - height, up)  # noqa: B023
            unused += (before[right] - before[ends[b]]) * min(sides[1] - height, up)  # noqa: B023
            flush = (begins[b] == left) + (ends[b] == right)  # noqa: B023
            worth = np.log(life) + SIZE_POWER * np.log(buffers.size[b])
            return float(worth - RULES[0].waste * unused / (life * up) + RULES[0].flush * flush)

        best = max(within, key=score)
        offsets[best] = -(-height // int(buffers.alignment[best])) * int(buffers.alignment[best])
        heights[begins[best] : ends[best]] = [offsets[best] + int(buffers.size[best])] * int(ends[best] - begins[best])
        waiting.remove(best)
    return [offsets[b] for b in range(len(buffers))]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 30), st.booleans())
def test_the_first_placement_is_the_defined_one(seed: int, count: int, aligned: bool) -> None:
    instance = random_instance(seed, count, aligned)
    buffers = BufferArrays.of(instance)
    found = SkylineSearch(buffers, 0).placement()
    assert found is not None
    assert found.tolist() == defined(buffers)
    peak(instance, found)


def test_a_stretch_without_a_buffer_is_given_up_to_its_lower_neighbour() -> None:
    """Between the towers 2 and 4 bytes high nothing is short enough, so the last buffer lies on the lower one."""
    instance = make((0, 4, 2), (4, 5, 1), (5, 9, 4), (2, 5, 1))
    found = SkylineSearch(BufferArrays.of(instance), 0).placement()
    assert found is not None
    assert found.tolist() == [0, 0, 0, 2]


def test_variations_of_the_best_placement_come_close_to_the_live_sum() -> None:
    """The best of 120 placements, the first of which is a hundredth above it."""
    buffers = BufferArrays.of(scattered(1000, 1))
    live, search = int(buffers.section_bytes.max()), SkylineSearch(buffers, 1)
    placements = [search.placement() for _ in range(120)]
    peaks = [int((found + buffers.size).max()) / live - 1 for found in placements if found is not None]
    assert len(peaks) == 120
    assert peaks[0] > 0.01
    assert min(peaks) < 0.004


def test_the_seed_decides_and_the_clock_ends_it() -> None:
    buffers = BufferArrays.of(scattered(3000, 2))
    searches = [SkylineSearch(buffers, seed) for seed in (1, 1, 2)]
    first, again, other = ([search.placement() for _ in range(3)][-1] for search in searches)
    assert first is not None
    assert again is not None
    assert other is not None
    assert (first == again).all()
    assert (first != other).any()
    assert SkylineSearch(buffers, 1).placement(0.0) is None
    assert min(LATER_LOOKS) > FIRST_LOOKS


def test_more_pairs_than_fit_in_memory_are_searched_and_lowered() -> None:
    """The first placement stands before anything else is looked at; then placements from below and greedy orders take turns."""
    rng = np.random.default_rng(1)
    lower, life, size = rng.integers(0, 10_000, 9000), rng.integers(5000, 10_000, 9000), rng.integers(1, 4097, 9000)
    instance = make(*zip(lower.tolist(), (lower + life).tolist(), size.tolist(), strict=True))
    buffers = BufferArrays.of(instance)
    assert len(buffers) >= VERY_LARGE
    assert buffers.conflicts.sum() > MOST_PAIRS
    live = int(buffers.section_bytes.max())
    standings = list(itertools.islice(minimise_peak(buffers, live), 8))
    assert standings[0].peak_bytes < 1.1 * live
    assert standings[-1].peak_bytes < standings[0].peak_bytes
    assert peak(instance, standings[-1].offsets) == standings[-1].peak_bytes
    assert not standings[-1].done


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_all_numbers_of_looks_are_tried_and_the_best_placements_is_kept(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By both rules; the first placement is a quick one."""
    looked: list[int] = []
    buffers = BufferArrays.of(scattered(600, seed))
    search = SkylineSearch(buffers, seed)
    placed = SkylineSearch._placed

    def recorded(self: SkylineSearch, rule: SkylineRule, looks: int, *rest: Any) -> Any:
        looked.append(looks)
        return placed(self, rule, looks, *rest)

    monkeypatch.setattr(SkylineSearch, "_placed", recorded)
    peaks = [
        int((found + buffers.size).max()) for found in (search.placement() for _ in range(60)) if found is not None
    ]
    each = len(RULES) * len(LATER_LOOKS)
    assert Counter(looked[1 : each + 1]) == dict.fromkeys(LATER_LOOKS, len(RULES))
    best_before = [max(k for k in range(end) if peaks[k] == min(peaks[:end])) for end in range(each + 1, 60)]
    alike = sum(looked[end] == looked[best] for end, best in enumerate(best_before, each + 1))
    assert alike >= 59 - search._fresh, "all that are not fresh vary the best so far"
