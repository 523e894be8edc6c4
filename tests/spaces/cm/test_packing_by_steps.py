"""Stages put together as PIMCOMP-NN's cost model likes it: `packed_by_steps` of the benchmark beside that tool."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.experiments.benchmarks.cm_pimcomp import CorePart, busiest_us, packed_by_steps
from kilotune.spaces.cm.sharing import StageNeeds

HARDWARE = load_hardware("pimcomp-144")


@pytest.mark.parametrize("seed", range(5))
def test_no_core_holds_or_does_more_than_it_may(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps, blocks = rng.choice([112, 56, 28, 7], 500), rng.integers(1, 10, 500)
    rows = rng.integers(1, HARDWARE.core_rows // 3, 500)
    needs = StageNeeds(tuple(rows.tolist()), (0,) * 500, tuple((steps * blocks).tolist()))
    work = [(int(s * b), int(s)) for s, b in zip(steps, blocks, strict=True)]
    found = [packed_by_steps(HARDWARE, needs, work, most) for most in (1e5, 2e5, 3e5, 1e6)]
    assert found[0] is None
    assert found[-1] is not None
    for cores, most_us in zip(found, (100, 200, 300, 1000), strict=True):
        if cores is not None:
            parts = [CorePart(core, int(b), int(s)) for core, b, s in zip(cores, blocks, steps, strict=True)]
            assert busiest_us(parts) <= most_us
            assert np.bincount(cores, weights=rows).max() <= HARDWARE.core_rows
            assert np.bincount(cores).max() <= HARDWARE.stages_per_core


def test_stages_of_many_steps_lie_together() -> None:
    """Two of 100 steps and two of 10, of as many products: together they take 100 and 46 microseconds, mixed both cores take 100."""
    two = dataclasses.replace(HARDWARE, cores=2)
    needs = StageNeeds((1,) * 4, (0,) * 4, (100,) * 4)
    cores = packed_by_steps(two, needs, [(100, 100), (100, 10), (100, 100), (100, 10)], 110_000)
    assert cores is not None
    assert cores[0] == cores[2]
    assert cores[1] == cores[3]
