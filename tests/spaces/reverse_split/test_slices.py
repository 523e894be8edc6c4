"""A slice of a proof ends before the clock does, however slow the search is."""

from __future__ import annotations

import math

import pytest

from kilotune.spaces.reverse_split.slices import FIRST_WORK_PER_S, LEAST_WORK, WorkSlices


@pytest.mark.parametrize("work_per_s", [FIRST_WORK_PER_S * 0.75, 1e6])
def test_no_slice_takes_more_than_is_left(work_per_s: float) -> None:
    """On a clock that only the work moves."""
    left = 5.0
    slices = WorkSlices(lambda: left)
    taken = []
    while left > 0.1:
        before, work = left, slices.slice(250_000)
        left -= work / work_per_s
        taken.append(work)
        assert left > 0
        slices.note(work, before)
        assert slices.work_per_s == pytest.approx(work_per_s)
    assert max(taken) == 250_000 or work_per_s < FIRST_WORK_PER_S


def test_without_a_clock_slices_are_what_is_asked_for() -> None:
    slices = WorkSlices(lambda: math.inf)
    slices.note(10, math.inf)
    assert slices.slice(250_000) == 250_000


def test_a_little_is_always_done() -> None:
    assert WorkSlices(lambda: 0.0).slice(250_000) == LEAST_WORK
