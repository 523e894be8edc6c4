"""The front of fitted programs: on a made problem where the best is known, and on a network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.front import Rank, Ranking
from kilotune.search.hypervolume import hypervolume
from kilotune.search.space import Assignment, Constraint, Measurement, Objective, Option, Procedure, Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_front import FITTED_TOGETHER, Promising, search_fitted_front
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, FittedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.spaces.small_network import small_network


@dataclass(frozen=True)
class Shelf:
    """Candidates by bytes and error; finishing one halves its error, of those with many bytes by less."""

    errors: tuple[float, ...]
    most_bytes: float = 100.0

    @property
    def ranking(self) -> Ranking:
        return Ranking(
            (Objective("bytes"), Objective("error")), (Constraint("bytes", self.most_bytes), Constraint("error", 1.0))
        )

    @property
    def reference(self) -> Rank:
        return (float(len(self.errors) + 1), 1.0)

    def measured(self, assignment: Assignment) -> Measurement:
        at = int(assignment["at"])
        share = (0.4 if at % 2 else 0.6) if assignment.get("finished") else 1.0
        return Measurement({"bytes": float(at + 1), "error": self.errors[at] * share})

    def nothing_known(self) -> Promising:
        return Promising(self.ranking, self.reference)

    def plain(self) -> Procedure:
        """Every candidate that is not finished, two at a time."""
        for first in range(0, len(self.errors), 2):
            yield [{"at": at} for at in range(first, min(first + 2, len(self.errors)))]


def run(shelf: Shelf, a_fit: float) -> list[list[Trial]]:
    search = search_fitted_front(shelf.nothing_known(), shelf.plain(), lambda one: {**one, "finished": True}, a_fit)
    batches, number = list[list[Trial]](), itertools.count()
    batch = next(search, None)
    while batch is not None:
        batches.append([Trial(next(number), one, shelf.measured(one)) for one in batch])
        try:
            batch = search.send(batches[-1])
        except StopIteration:
            break
    return batches


def finished(batches: list[list[Trial]]) -> Iterator[int]:
    for trial in itertools.chain(*batches):
        if trial.assignment.get("finished"):
            yield int(trial.assignment["at"])


SHELF = Shelf((3.0, 1.9, 1.2, 1.5, 0.9, 0.8, 0.5, 0.55, 0.3, 0.29, 0.28))


@pytest.mark.parametrize("a_fit", [1.0, 4.0, 1000.0])
def test_the_whole_front_of_finished_candidates_is_found(a_fit: float) -> None:
    """Candidate 1, which breaks the limit as it is, is on it, and candidate 0, which would still break it, is never tried."""
    batches = run(SHELF, a_fit)
    every: list[Assignment] = [{"at": at, "finished": True} for at in range(len(SHELF.errors))]
    losses = [(m.metrics["bytes"], m.metrics["error"]) for m in map(SHELF.measured, every)]
    met = [(t.metrics["bytes"], t.metrics["error"]) for t in itertools.chain(*batches)]
    best = hypervolume(losses, SHELF.reference)
    assert hypervolume(met, SHELF.reference) == pytest.approx(best, rel=0.02)
    tried = list(finished(batches))
    assert len(tried) == len(set(tried)) < len(SHELF.errors)
    assert 1 in tried
    assert 0 not in tried


def test_finishing_takes_its_share_of_the_time() -> None:
    """With 3 candidates a fit, two are fitted after every six others."""
    kinds = [bool(batch[0].assignment.get("finished")) for batch in run(SHELF, 3.0)]
    assert kinds[:3] == [False, False, True]  # the first as soon as one could have been fitted
    assert kinds[3:7] == [False, False, False, True]
    assert all(len(batch) <= FITTED_TOGETHER for batch in run(SHELF, 3.0))


def test_what_breaks_a_limit_on_costs_is_not_worth_a_fit() -> None:
    small = Shelf(SHELF.errors, most_bytes=5.0)
    assert max(finished(run(small, 1.0))) == 4


def promising(*known: tuple[float, float]) -> Promising:
    """Of candidates by their bytes and errors, called by their numbers."""
    found = SHELF.nothing_known()
    found.take_in([Trial(i, {"at": i}, Measurement({"bytes": b, "error": e})) for i, (b, e) in enumerate(known)])
    return found


def best(of: Promising, most: int) -> list[Option]:
    return [one["at"] for one in of.take_best(most)[0]]


def test_what_fitting_has_gained_is_expected_of_the_next() -> None:
    """Candidate 1 may come before 0, which costs less, where fitting halves errors, not where it has done nothing lately."""
    assert best(promising((1.0, 0.5), (2.0, 0.9)), 1) == [0]
    for fits, then in ((0, [1]), (200, [])):
        known = promising((1.0, 0.5), (2.0, 0.9))
        assert known.take_best(1) == ([{"at": 0}], [0.5])
        known.take_in_fitted([0.5] * fits, [Trial(0, {"at": 0}, Measurement({"bytes": 1.0, "error": 0.5}))] * fits)
        assert best(known, 1) == then


def test_what_is_on_the_front_as_it_is_needs_no_fit_to_stand_before_others() -> None:
    for error, then in ((0.35, [1]), (0.45, [])):
        known = promising((1.0, 0.2), (2.0, error))
        assert best(known, 1) == [0]
        assert best(known, 1) == then


def test_of_equal_costs_the_most_precise_are_fitted_one_after_the_other() -> None:
    known = promising((1.0, 0.9), (1.0, 0.5), (1.0, 0.7), (1.0, 0.6))
    assert best(known, 2) == [1]  # if the first one's error is halved, the second one's half is no gain
    nothing = Measurement({"bytes": 1.0, "error": 1.0})
    known.take_in_fitted([1.0], [Trial(9, {"at": 1}, nothing)])
    assert [best(known, 1) for _ in range(3)] == [[3], [2], []]


def test_a_search_for_one_program_has_no_front() -> None:
    with pytest.raises(ValueError, match="reference point"):
        FittedSpace(ShiftrySpace(small_network(13), ShiftryOptions())).front_search(0)


def test_a_front_with_fitted_codes_covers_more() -> None:
    """The formats are the same in both searches; what is fitted comes on top, and each front can be lowered point by point."""
    formats = ShiftrySpace(small_network(13), ShiftryOptions(narrow=True, finer=True, front=("flash",)))
    volumes = []
    for space in (formats, FittedSpace(formats)):
        study = Study(space, "front", 1)
        result = study.run(InProcessExecutor(space), Budget(trials=400))
        losses = [(t.metrics["flash_bytes"], t.metrics["expected_flips"]) for t in result.front]
        volumes.append(hypervolume(losses, formats.reference_point or ()))
    assert volumes[1] > volumes[0]
    fitted = [trial for trial in result.front if trial.assignment.get(CODES) == FITTED]
    assert fitted
    for trial in fitted:
        assert FittedSpace(formats).evaluate([trial.assignment])[0].metrics == trial.metrics
