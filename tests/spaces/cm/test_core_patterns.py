"""Patterns of cores for PIMCOMP-NN's cost model: held to all patterns there are, on cases small enough to write them down."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from kilotune.experiments.benchmarks.core_patterns import (
    CoreRoom,
    Pattern,
    StageKind,
    fractional_cores,
    whole_cores,
)

ROOM = CoreRoom(most=160, rows=64)


def random_counts(rng: np.random.Generator) -> dict[StageKind, int]:
    """Up to four kinds that a core holds by itself, of one to five stages each. Nothing is rounded: a core is divided into no more parts
    than it has."""
    kinds = {
        StageKind(int(steps * rng.integers(1, 4)), int(steps), int(rng.integers(1, 40)))
        for steps in rng.choice([2, 5, 10, 20], 4)
    }
    return {kind: int(rng.integers(1, 6)) for kind in kinds}


def every_pattern(counts: dict[StageKind, int]) -> list[Pattern]:
    kinds = sorted(counts)
    drawn = itertools.product(*(range(counts[kind] + 1) for kind in kinds))
    patterns = (tuple((k, n) for k, n in zip(kinds, numbers, strict=True) if n) for numbers in drawn)
    return [pattern for pattern in patterns if pattern and ROOM.holds(pattern)]


@pytest.mark.parametrize("seed", range(12))
def test_no_pattern_that_came_up_later_would_have_helped(seed: int) -> None:
    counts = random_counts(np.random.default_rng(seed))
    every, kinds = every_pattern(counts), sorted(counts)
    matrix = -np.array([[dict(pattern).get(kind, 0) for pattern in every] for kind in kinds])
    least = linprog(np.ones(len(every)), A_ub=matrix, b_ub=[-counts[kind] for kind in kinds]).fun
    found = fractional_cores(counts, ROOM)
    assert found.cores == pytest.approx(least)
    assert fractional_cores(counts, ROOM, found.patterns, most=least + 1e-6).cores == pytest.approx(least)
    assert not fractional_cores(counts, ROOM, most=least - 0.01).patterns
    cores = whole_cores(counts, found.patterns, ROOM, 100, seconds=5.0)
    assert cores is not None
    assert len(cores) >= least - 1e-6
    assert all(ROOM.holds(pattern) for pattern in cores)
    for kind, count in counts.items():
        assert sum(dict(pattern).get(kind, 0) for pattern in cores) >= count


def test_stages_of_many_steps_lie_together() -> None:
    """Two of 100 products in 20 steps and six of 10 in 1: the former fill a core each with 60 for their steps, the latter lie together."""
    slow, quick = StageKind(100, 20, 1), StageKind(10, 1, 1)
    found = fractional_cores({slow: 2, quick: 6}, ROOM)
    assert found.cores == pytest.approx(3)
    assert whole_cores({slow: 2, quick: 6}, found.patterns, ROOM, 2, seconds=5.0) is None
    assert whole_cores({slow: 2, quick: 6}, found.patterns, ROOM, 3, seconds=5.0) is not None


def test_a_stage_that_is_too_much_for_a_core_counts_more_than_one() -> None:
    assert fractional_cores({StageKind(200, 20, 1): 1}, ROOM).cores > 2
    assert whole_cores({StageKind(200, 20, 1): 1}, [((StageKind(200, 20, 1), 1),)], ROOM, 9, seconds=5.0) is None
