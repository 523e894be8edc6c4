"""Where the least memory is asked for and weights may be trained: smaller programs than rounding makes good."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.evaluators.fixed_point.fresh_inputs import PairedFlips
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies import trained_bisection
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.trained_bisection import MOST_TRAINED, NARROWEST, next_limit
from kilotune.experiments.studies.tuning import run
from kilotune.experiments.studies.workplace import Workplace
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Constraint, Measurement, Objective, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.shiftry import trained_codes
from kilotune.spaces.shiftry.fitted_space import CODES, TRAINED
from tests.experiments.studies.test_finished_finalists import CODES as FAKE_CODES
from tests.experiments.studies.test_finished_finalists import FLIPS, MEMORY, Finished, HeardTime, Rounded, fewer
from tests.experiments.studies.test_trained_finalists import Training

WORTH = 6.0
"""Expected flips fewer of what is trained."""

PERMITTED = 9.0


class LeastMemory(Rounded):
    """Memory is all that costs, in hundreds of bytes."""

    def _measured(self, answers: list[int]) -> Measurement:
        metrics = super()._measured(answers).metrics
        size = 100.0 * metrics["flash_bytes"]
        return Measurement({**metrics, "flash_bytes": size, "memory_bytes": size})


class Trained(Finished):
    """Trained ones have some expected flips fewer than the others."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        less = 5.0 + WORTH  # 5 more are measured of what is finished
        return [
            Measurement({**one.metrics, "expected_flips": one.metrics["expected_flips"] - less * (FAKE_CODES in asked)})
            for asked, one in zip(batch, super().evaluate(batch), strict=True)
        ]


@dataclass
class Smaller:
    """The most precise program within some bytes is searched exhaustively."""

    space: Rounded
    request: TuneRequest = field(default_factory=lambda: TuneRequest("shiftry", "smaller", "exhaustive"))


@dataclass
class Narrowing(Training):
    """Trained programs of fewer bytes than `worse_below` are wrong more often on made-up inputs, of fewer than `learnt_below` on samples
    that they are not trained with; within `unread` none can be searched."""

    finishes_finalists: bool = False
    worse_below: float = 0.0
    learnt_below: float = 0.0
    unread: float = 0.0
    limits: list[int] = field(default_factory=list)
    compared_errors: list[tuple[Trial, Trial]] = field(default_factory=list)
    request: TuneRequest = field(default_factory=lambda: TuneRequest("shiftry", "narrowing", "random"))

    def within_memory(self, limit_bytes: int) -> Smaller:
        self.limits.append(limit_bytes)
        if len(self.limits) > self.until_over:
            time.sleep(5.0)  # abandoned
        if limit_bytes < self.unread:
            raise ValueError("the input is there no more")
        return Smaller(LeastMemory(4, 5, 0, constraints=(Constraint("memory_bytes", limit_bytes),)))

    def paired_errors(self, first: Trial, second: Trial) -> PairedFlips | None:
        """The first trained one is wrong 35 times and what it was rounded to 55 times, so others may be wrong 41 times."""
        self.compared_errors += [(first, second)] if FAKE_CODES in first.assignment else []
        if FAKE_CODES not in first.assignment or first.metrics["memory_bytes"] == second.metrics["memory_bytes"]:
            swapped = FAKE_CODES in first.assignment
            return PairedFlips(1000, 1000, 30 if swapped else 50, 50 if swapped else 30, 5)
        assert FAKE_CODES not in second.assignment
        return PairedFlips(1000, 1000, 37 if first.metrics["memory_bytes"] < self.worse_below else 36, 50, 5)

    def unseen_errors(self, first: Trial, second: Trial) -> PairedFlips | None:
        return PairedFlips(1000, 1000, 30, 51 if second.metrics["memory_bytes"] < self.learnt_below else 50, 5)


def narrowing(**options: Any) -> Narrowing:
    space = LeastMemory(4, 5, 0, objectives=(MEMORY, FLIPS), constraints=(Constraint("expected_flips", PERMITTED),))
    return Narrowing(Trained(space), fewer, **options)


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path / 'studies.db'}")


def least(trained: bool) -> float:
    """The least memory of any candidate within what is permitted, by brute force."""
    space = LeastMemory(4, 5, 0)
    names = [decision.name for decision in space.decisions]
    every = [dict(zip(names, answers, strict=True)) for answers in product(*(d.options for d in space.decisions))]
    return min(
        one.metrics["memory_bytes"]
        for one in space.evaluate(every)
        if one.metrics["expected_flips"] - WORTH * trained <= PERMITTED
    )


def test_the_smallest_that_training_makes_good_is_delivered(store: Store) -> None:
    problem = narrowing()
    study = problem.searched(store, trials=625)
    before = study.result().best
    found = problem.chosen(study)
    best = found.result.best
    assert before is not None
    assert best is not None
    assert before.metrics["memory_bytes"] == least(trained=False)
    assert least(trained=True) <= best.metrics["memory_bytes"] <= least(trained=True) * (1.0 + 2 * NARROWEST)
    assert best.metrics["memory_bytes"] < before.metrics["memory_bytes"]
    assert best.metrics["expected_flips"] <= PERMITTED
    assert FAKE_CODES in best.assignment
    assert found.said is not None
    assert f"Trial {best.number} takes {best.metrics['memory_bytes']:.0f} bytes of memory for" in found.said
    assert problem.kept(study) == best
    assert len(problem.limits) <= MOST_TRAINED
    assert "training a program of" in problem.told[-1]


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_a_bisection_ends_next_to_the_fewest_bytes_that_do(most: int, least_that_does: int) -> None:
    """Of 23 bytes it asked for 22 again and again."""
    does, fails = most, 0
    for _ in range(60):
        limit = next_limit(does, fails)
        if limit is None:
            break
        assert fails < limit < does
        does, fails = (limit, fails) if limit >= least_that_does else (does, limit)
    assert limit is None
    nearest = (
        least_that_does / (1.0 - 2 * NARROWEST) + 1
    )  # the middle of what is twice as wide is next to what does, rounded
    assert does <= nearest or does == most < least_that_does


@pytest.mark.parametrize("wrong", ["worse_below", "learnt_below"])
def test_one_that_is_wrong_too_often_does_not_do(wrong: str, store: Store) -> None:
    """It keeps what may be lost on the training samples, which it was trained with."""
    limit = least(trained=True) + 200.0
    problem = narrowing(**{wrong: limit})
    study = problem.searched(store, trials=625)
    best = problem.chosen(study).result.best
    assert best is not None
    assert limit <= best.metrics["memory_bytes"] <= limit * (1.0 + 2 * NARROWEST)
    assert problem.kept(study) == best


@pytest.mark.parametrize("options", [{"worse_below": 1e9}, {"unread": 1e9}])
def test_what_was_chosen_stays_where_nothing_smaller_does(options: dict[str, Any], store: Store) -> None:
    problem = narrowing(**options)
    study = problem.searched(store, trials=625)
    before = study.result().best
    found = problem.chosen(study)
    assert before is not None
    assert found.result.best is not None
    assert found.result.best.assignment == problem.trained(before.assignment)
    assert found.said is not None
    none_trained = "Of less memory no program was found that may be trained."
    tried = counted(len(problem.limits), "smaller program")
    none_does = f"No smaller program that training makes good was found: {tried} trained"
    assert (none_trained if problem.unread else none_does) in found.said
    assert problem.kept(study) == found.result.best
    limits = problem.limits
    assert limits == sorted(limits), "after the first each is nearer to what does"


def test_what_it_has_come_to_stays_where_time_is_over(store: Store) -> None:
    problem = narrowing(until_over=2)
    study = problem.searched(store, trials=625)
    found = problem.chosen(study, is_over=lambda: len(problem.limits) > problem.until_over)
    best = found.result.best
    assert best is not None
    assert problem.limits[0] < best.metrics["memory_bytes"] <= problem.limits[1] < least(trained=False)
    assert found.said is not None
    assert f"Trial {best.number} takes" in found.said
    assert (
        "was not ended in time, with 2 smaller programs trained: `tune resume study` goes on with a larger --budget"
        in found.said
    )
    problem.until_over = 1000
    again = Study.resume(store, "study", problem.space)
    assert problem.kept(again) == best
    smaller = problem.chosen(again).result.best
    assert smaller is not None
    assert smaller.metrics["memory_bytes"] < best.metrics["memory_bytes"]


def test_one_that_is_interrupted_before_anything_smaller_does_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = narrowing(until_over=0)
    study = problem.searched(store, trials=625)
    monkeypatch.setattr(Study, "stopped", True)
    found = problem.chosen(study, is_over=lambda: len(problem.limits) > 0)
    assert found.result.best is not None
    assert found.result.best.metrics["memory_bytes"] == least(trained=False)
    assert found.said is not None
    assert "was interrupted, with 0 smaller programs trained: `tune resume study` goes on." in found.said


def test_what_may_be_lost_does_not_grow_from_run_to_run(store: Store) -> None:
    """It is a third of what training gains at the size that rounding needs, not of what a smaller program has left of that."""
    limit = least(trained=True) + 200.0
    problem = narrowing(worse_below=limit)
    study = problem.searched(store, trials=625)
    first = problem.chosen(study).result.best
    again = Study.resume(store, "study", problem.space)
    assert problem.chosen(again).result.best == first
    pairs = problem.compared_errors
    references = [one.number for one, other in pairs if one.metrics["memory_bytes"] == other.metrics["memory_bytes"]]
    assert len(references) == 2
    assert len(set(references)) == 1


def test_nothing_smaller_is_trained_where_nothing_can_be_compared(store: Store) -> None:
    problem = narrowing()
    problem.paired_errors = lambda first, second: None  # type: ignore[method-assign]
    problem.chosen(problem.searched(store, trials=625))
    assert not problem.limits


def test_nothing_smaller_is_looked_for_where_programs_cannot_be_trained(store: Store) -> None:
    problem = narrowing(reason="it is too large")
    problem.chosen(problem.searched(store, trials=625))
    assert not problem.limits


@pytest.mark.parametrize(
    ("objectives", "trains"), [((FLIPS, MEMORY), True), ((Objective("cycles"), FLIPS), True), ((MEMORY, FLIPS), False)]
)
def test_nothing_smaller_is_looked_for_where_that_is_not_asked_for(
    objectives: tuple[Objective, ...], trains: bool, store: Store
) -> None:
    space = LeastMemory(4, 5, 0, objectives=objectives, constraints=(Constraint("expected_flips", PERMITTED),))
    problem = Narrowing(Trained(space), fewer, trains_delivered=trains)
    problem.chosen(problem.searched(store, trials=625))
    assert not problem.limits


def test_a_command_delivers_a_smaller_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within two points of a perceptron's accuracy."""
    monkeypatch.setattr(trained_codes, "STEPS", 1500)
    monkeypatch.setattr(trained_bisection, "MOST_TRAINED", 2)
    options = {"narrow": True, "trained": True}
    problem = build_problem(TuneRequest("shiftry", str(resolve_model("mlp-digits")), "refine", options=options))
    assert isinstance(problem, ModelProblem)
    study, told = Study.create(store, "study", problem.space, "refine", 1, request={}), list[str]()
    outcome = run(
        problem, study, HeardTime(Budget(trials=600)), Workplace(cached=False), None, on_conclusion=told.append
    )
    best = outcome.result.best
    assert best is not None
    assert best.assignment[CODES] == TRAINED
    rounded = [trial for trial in study.trials() if CODES not in trial.assignment]
    floor = problem.float_metrics()["train"]["accuracy_percent"] - 2.0
    before = min(t.metrics["memory_bytes"] for t in rounded if t.metrics.get("accuracy_percent", 0.0) >= floor)
    assert best.metrics["memory_bytes"] < before
    assert best.metrics["accuracy_percent"] >= floor
    assert problem.space.evaluate([best.assignment])[0].metrics == best.metrics
    assert any("looking for a smaller program" in one for one in told)
    again = Study.resume(store, "study", problem.space)
    assert kept_finalist(problem, again, again.result()).best == best
