"""The search for the most precise program within limits: on a problem whose best is known, and in front of local search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.hypervolume import GrowingFront
from kilotune.search.procedure import trials_of
from kilotune.search.space import Assignment, Constraint, Measurement, Objective, Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.known_candidates import KnownCandidates
from kilotune.spaces.shiftry.limited_search import NEARLY_USED, PATIENCE, front_at_limits, search_within_limits
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.shiftry.test_front_search import Widths
from tests.spaces.small_network import small_network


@dataclass(frozen=True)
class LimitedWidths(Widths):
    """As much precision as so many bytes hold."""

    share: float = 0.5

    @property
    def objectives(self) -> tuple[Objective, ...]:
        return (Objective("error"), Objective("bytes"))

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (Constraint("bytes", self.limit),)

    def narrowings(self) -> list[Assignment]:
        return [{d.name: bits for d in self.decisions} for bits in (16, 8, 6, 4)]

    @cached_property
    def limit(self) -> float:
        return self.share * super().reference_point[0]

    def best(self) -> float:
        """Of all candidates."""
        names = [d.name for d in self.decisions]
        batch = [dict(zip(names, bits, strict=True)) for bits in itertools.product((16, 8, 6, 4), repeat=self.count)]
        return min(m.metrics["error"] for m in self.evaluate(batch) if m.metrics["bytes"] <= self.limit)


@pytest.mark.parametrize(("seed", "share"), [(0, 0.3), (1, 0.6), (2, 0.45)])
def test_the_best_of_16384_candidates_is_found_with_an_eighth_of_them(seed: int, share: float) -> None:
    space = LimitedWidths(7, seed, share=share)
    met = [t for batch in trials_of(search_within_limits(space, 0), space.evaluate) for t in batch]
    assert len(met) <= 2048
    found = min(t.metrics["error"] for t in met if t.metrics["bytes"] <= space.limit)
    assert found == pytest.approx(space.best(), rel=1e-9)


def test_it_ends_where_nothing_is_gained_or_nothing_is_left() -> None:
    space = LimitedWidths(9, 1)
    same = Measurement({"bytes": 1.0, "error": 0.5})
    met = [t for batch in trials_of(search_within_limits(space, 0), lambda batch: [same] * len(batch)) for t in batch]
    assert PATIENCE <= len(met) <= 2 * PATIENCE
    small = LimitedWidths(3, 1)
    assert len([t for batch in trials_of(search_within_limits(small, 0), small.evaluate) for t in batch]) == 64


@pytest.mark.parametrize("last_gain", [100, 700])
def test_it_goes_on_for_twice_as_long_as_the_last_gain_took(last_gain: int) -> None:
    space, met = LimitedWidths(9, 1), list[Trial]()

    def evaluate(batch: Sequence[Assignment]) -> list[Measurement]:
        numbers = range(len(met), len(met) + len(batch))
        return [Measurement({"bytes": 1.0, "error": 2.0 - min(number + 1, last_gain) * 1e-3}) for number in numbers]

    for batch in trials_of(search_within_limits(space, 0), evaluate):
        met += batch
    until = 2 * last_gain + PATIENCE
    assert len(met) >= until - 2  # of the first candidates there may be two, which count when they are proposed again
    assert len(met) - len(batch) < until


def test_the_limit_itself_may_be_reached() -> None:
    space = LimitedWidths(5, 1)
    asked = front_at_limits(space)
    assert GrowingFront(asked.reference).add((space.limit, 1e9))
    assert asked.cheapest == (NEARLY_USED * space.limit,)


def test_what_nearly_uses_the_limits_costs_the_same() -> None:
    """Of two candidates below, the more precise one is the front, and what is cheaper is measured against it."""
    space = LimitedWidths(5, 1)
    for cheapest, best in ((1000.0, 0.2), (0.0, 0.4)):
        known = KnownCandidates(space, replace(front_at_limits(space), cheapest=(cheapest,)))
        batch = known.assignments(np.array([[1, 1, 1, 1, 1], [2, 2, 2, 2, 2]]))
        measured = [Measurement({"bytes": 900.0, "error": 0.2}), Measurement({"bytes": 500.0, "error": 0.4})]
        known.take_in([Trial(i, one, m) for i, (one, m) in enumerate(zip(batch, measured, strict=True))])
        (promise,) = known.promise(np.array([[600.0]]), np.array([0.01]))
        assert promise == pytest.approx(math.log(best**2 / 0.01))
        of_front = {tuple(known.any_of_front(np.random.default_rng(seed)).tolist()) for seed in range(20)}
        assert of_front == ({(1,) * 5} if cheapest else {(1,) * 5, (2,) * 5})


def test_refine_opens_with_it_where_more_is_offered_than_the_papers_formats() -> None:
    task = small_network(13)
    for narrow in (False, True):
        space = ShiftrySpace(task, ShiftryOptions(narrow=narrow, flash_limit_bytes=60))
        opening = space.opening(1)
        assert (opening is not None) == narrow
    assert ShiftrySpace(task, ShiftryOptions(narrow=True, front=("flash",))).opening(0) is None
    assert opening is not None
    study = Study(space, "refine", 1)
    study.run(InProcessExecutor(space), Budget(trials=1200))
    measured = {tuple(trial.assignment.items()) for trial in study.trials()}
    for batch in itertools.islice(trials_of(opening, space.evaluate), 2):
        assert {tuple(trial.assignment.items()) for trial in batch} <= measured
