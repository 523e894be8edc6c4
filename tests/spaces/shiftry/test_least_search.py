"""The search for the least cost within a permitted loss: on a problem whose best is known, and in front of local search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.front import Ranking
from kilotune.search.procedure import trials_of
from kilotune.search.space import Assignment, Constraint, Measurement, Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry import least_search
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.known_candidates import FrontQuestion
from kilotune.spaces.shiftry.least_search import NEARLY_LEAST, PATIENCE, WIDE, CostSeeking, search_least
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.shiftry.test_front_search import Widths
from tests.spaces.small_network import small_network


@dataclass(frozen=True)
class Permitted(Widths):
    """The fewest bytes of which at most `most` per cent of the samples are wrong: steps of 5, which rise with the error."""

    most: float = 20.0
    worst_precision: float = 16.0
    most_bytes: float = math.inf

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (Constraint("wrong", self.most), Constraint("bytes", self.most_bytes))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [
            Measurement({**one.metrics, "wrong": 5.0 * math.floor(4.0 * one.metrics["error"])})
            for one in super().evaluate(batch)
        ]

    def narrowings(self) -> list[Assignment]:
        return [{d.name: bits for d in self.decisions} for bits in (16, 8, 6, 4)]

    def least(self) -> float:
        """Of all candidates."""
        names = [d.name for d in self.decisions]
        batch = [dict(zip(names, bits, strict=True)) for bits in itertools.product((16, 8, 6, 4), repeat=self.count)]
        return min(m.metrics["bytes"] for m in self.evaluate(batch) if m.metrics["wrong"] <= self.most)


def measured(space: Permitted, seed: int = 0) -> list[Trial]:
    return [trial for batch in trials_of(search_least(space, seed), space.evaluate) for trial in batch]


def least_of(space: Permitted, trials: Sequence[Trial]) -> float:
    ranking = Ranking(space.objectives, space.constraints)
    return min(t.metrics["bytes"] for t in trials if not ranking.violation(t.measurement))


@pytest.mark.parametrize(("seed", "most"), [(0, 10.0), (1, 20.0), (2, 5.0), (3, 30.0)])
def test_the_least_of_16384_candidates_is_nearly_found_with_a_tenth_of_them(seed: int, most: float) -> None:
    """Local search does the rest."""
    space = Permitted(7, seed, most=most)
    met = measured(space)
    assert len(met) <= 1638
    assert least_of(space, met) <= 1.03 * space.least()


def test_nothing_is_measured_twice_though_every_front_begins_at_the_same_place() -> None:
    met = measured(Permitted(8, 2))
    assert len({tuple(trial.assignment.items()) for trial in met}) == len(met)


def test_a_limit_on_costs_bounds_every_front() -> None:
    space = Permitted(7, 1)
    limited = Permitted(7, 1, most=60.0, most_bytes=0.9 * space.least())
    assert least_of(limited, measured(limited)) <= limited.most_bytes


def test_each_front_is_what_is_cheaper_than_the_best_and_nearly_as_precise(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[FrontQuestion, int]]()
    search_front, space = least_search.search_front, Permitted(9, 2, most=10.0)

    def heard(space: CostSeeking, question: FrontQuestion, seed: int) -> object:
        asked.append((question, seed))
        assert space.constraints == (Constraint("bytes", math.inf),), "none on what is measured"
        return search_front(space, question, seed)

    monkeypatch.setattr(least_search, "search_front", heard)
    ranking, best, bests = Ranking(space.objectives, space.constraints), None, dict[int, Trial]()
    for batch in trials_of(search_least(space, 5), space.evaluate):
        bests.setdefault(len(asked), best) if best is not None else None  # before the first batch of this front
        best = min([*batch, *([best] if best is not None else [])], key=lambda t: ranking.rank(t.measurement))
    (whole, seed), *others = asked
    assert (whole.reference, whole.cheapest, seed) == ((space.reference_point[0], space.worst_precision), (0.0,), 5)
    assert len(others) >= 2
    assert [seed for _, seed in others] == list(range(6, 6 + len(others)))
    for number, (question, _) in enumerate(others, 2):
        if number in bests:
            dearest, worst = question.reference
            assert dearest == math.nextafter(bests[number].metrics["bytes"], math.inf)
            assert worst == min(space.worst_precision, WIDE * bests[number].metrics["error"])
            assert question.cheapest == (pytest.approx(NEARLY_LEAST * dearest),)
    assert 2 in bests


def test_it_ends_where_nothing_is_gained_or_permitted() -> None:
    space = Permitted(9, 1)
    same = Measurement({"bytes": 1.0, "error": 0.5, "wrong": 0.0})
    met = [t for batch in trials_of(search_least(space, 0), lambda batch: [same] * len(batch)) for t in batch]
    assert PATIENCE <= len(met) <= 6 * PATIENCE  # the first front, whose first batch is large, and a second one
    wrong = Measurement({"bytes": 1.0, "error": 0.5, "wrong": 100.0})
    fewer = [t for batch in trials_of(search_least(space, 0), lambda batch: [wrong] * len(batch)) for t in batch]
    assert PATIENCE <= len(fewer) < len(met)


def test_what_fails_is_left_aside() -> None:
    space = Permitted(3, 1)
    failed = Measurement(failure="It does not end.")
    met = [t for batch in trials_of(search_least(space, 0), lambda batch: [failed] * len(batch)) for t in batch]
    assert len(met) == 1


@pytest.mark.parametrize(
    ("options", "opens"),
    [
        (ShiftryOptions(), False),
        (ShiftryOptions(narrow=True), True),
        (ShiftryOptions(codebook=True), False),  # every parameter is too small for one
        (ShiftryOptions(narrow=True, wide=True), False),
        (ShiftryOptions(narrow=True, offsets=True), False),
        (ShiftryOptions(narrow=True, front=("flash",)), False),
        (ShiftryOptions(narrow=True, flash_limit_bytes=60), False),
    ],
)
def test_refine_opens_with_it_where_more_is_offered_than_the_papers_formats(
    options: ShiftryOptions, opens: bool
) -> None:
    """Then it begins with all formats, and not with those of the paper."""
    space = ShiftrySpace(small_network(13), options)
    opening = space.opening(1)
    assert (space.core() is None) == (opens or not options.narrow)
    assert (opening is None) == (not opens and not options.limited)
    if opens:
        assert opening is not None
        study = Study(space, "refine", 1)
        study.run(InProcessExecutor(space), Budget(trials=1200))
        tried = {tuple(trial.assignment.items()) for trial in study.trials()}
        for batch in itertools.islice(trials_of(opening, space.evaluate), 3):
            assert {tuple(trial.assignment.items()) for trial in batch} <= tried
