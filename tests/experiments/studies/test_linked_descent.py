"""What a descent by linked bytes comes to, where the estimate that the search went by is off."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.simulated import DeviceError
from kilotune.experiments.studies.command_time import never
from kilotune.experiments.studies.finished_finalists import MOST_FINISHED
from kilotune.experiments.studies.linked_descent import MOST_LINKED
from kilotune.experiments.studies.linked_finalists import MOST_LINKED as MOST_FINALISTS
from kilotune.experiments.studies.linked_finalists import linked_finalist
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.experiments.studies.storage import open_store
from kilotune.search.budget import Budget
from kilotune.search.flat_state import FlatState
from kilotune.search.result import Result
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Objective, Option, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

LIMIT = 1000
CODES = "codes"


@dataclass(frozen=True)
class Weighed(FlatProblem):
    """Losses of a table, and bytes of another, of which an estimate is made."""

    objectives: tuple[Objective, ...] = (Objective("loss"),)
    constraints: tuple[Constraint, ...] = (Constraint("linked_bytes", LIMIT + 40),)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        found = super().evaluate([{d.name: one[d.name] for d in self.decisions} for one in batch])
        sizes = [880 + round(4 * measurement.metrics["weight"]) for measurement in found]
        return [
            Measurement({"linked_bytes": size, "loss": measurement.metrics["loss"] + 10.0})
            for size, measurement in zip(sizes, found, strict=True)
        ]


@dataclass(frozen=True)
class Finishing:
    """Those candidates, and each finished, which halves its loss. `bytes_told`: what is said of the candidates that are to be."""

    flat: Weighed
    finished_at: list[Assignment] = field(default_factory=list)
    bytes_told: list[float] = field(default_factory=list)
    name: str = "finishing"
    prefers_flat: bool = True

    @property
    def objectives(self) -> tuple[Objective, ...]:
        return self.flat.objectives

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return self.flat.constraints

    @property
    def fingerprint(self) -> str:
        return f"finishing {self.flat.fingerprint}"

    def flat_view(self) -> Weighed:
        return self.flat

    def start(self) -> FlatState:
        return FlatState((*self.flat.decisions, Decision(CODES, ("rounded", "fitted"))), -math.inf)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return dict(answers)

    def finished(self, candidate: Assignment, measurement: Measurement) -> Assignment | None:
        self.finished_at.append(candidate)
        self.bytes_told.append(measurement.metrics["linked_bytes"])
        return {**candidate, CODES: "fitted"}

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [
            Measurement({**found.metrics, "loss": found.metrics["loss"] / (2.0 if CODES in one else 1.0)})
            for one, found in zip(batch, self.flat.evaluate(batch), strict=True)
        ]


@dataclass
class Linking:
    """A problem whose programs link to `off` bytes more than estimated, to as many more as the first answer says, and finished ones to
    `further` more."""

    space: Weighed | Finishing
    off: int
    further: int = 0
    links: int = 0
    linked_limit_bytes: int | None = LIMIT

    def linked_bytes(self, trial: Trial) -> int:
        self.links += 1
        return self.bytes_of(trial.assignment)

    def bytes_of(self, candidate: Assignment) -> int:
        (found,) = self.space.evaluate([candidate])
        first = 2 * (int(candidate["d0"]) - 10)
        return int(found.metrics["linked_bytes"]) + self.off + first + (self.further if CODES in candidate else 0)


def searched(problem: Linking, store: Store, trials: int = 60) -> tuple[Study, Result]:
    study = Study.create(store, "weighed", problem.space, "random", 0, request={})
    flat = problem.space.flat_view() if isinstance(problem.space, Finishing) else problem.space
    return study, study.run(InProcessExecutor(flat), Budget(trials=trials))


def loss_of(problem: Linking, candidate: Assignment) -> float:
    return problem.space.evaluate([candidate])[0].metrics["loss"]


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path / 'studies.db'}")


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("off", [-35, 0, 25])
def test_no_change_within_the_true_limit_is_better(seed: int, off: int, store: Store) -> None:
    """The estimate is off by what the first answer says and by a constant; the search has seen 60 of 15 625 candidates."""
    space = Weighed(6, 5, seed)
    problem = Linking(space, off)
    study, result = searched(problem, store)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.best is not None
    best = found.result.best
    assert problem.links <= MOST_LINKED + MOST_FINISHED + MOST_FINALISTS
    assert problem.bytes_of(best.assignment) <= LIMIT
    neighbours = [{**best.assignment, d.name: option} for d in space.decisions for option in d.options]
    better = [
        one for one in neighbours if problem.bytes_of(one) <= LIMIT and loss_of(problem, one) < best.metrics["loss"]
    ]
    assert not better
    known = [trial for trial in study.trials() if problem.bytes_of(trial.assignment) <= LIMIT]
    assert best.metrics["loss"] <= min(trial.metrics["loss"] for trial in known)


def test_a_change_that_takes_bytes_is_traded_for_one_that_gives_them(store: Store) -> None:
    """Changes of one decision alone end at another candidate than the best of all within the limit."""
    space = Weighed(4, 4, 9)
    problem = Linking(space, 0)
    study, result = searched(problem, store, trials=8)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.best is not None
    names, options = [d.name for d in space.decisions], space.decisions[0].options
    every = [dict(zip(names, row, strict=True)) for row in itertools.product(options, repeat=4)]
    least = min(loss_of(problem, one) for one in every if problem.bytes_of(one) <= LIMIT)
    assert found.result.best.metrics["loss"] == pytest.approx(least)


def test_what_is_found_is_a_trial_of_the_study_and_stays(store: Store) -> None:
    problem = Linking(Weighed(6, 5, 1), 25)
    study, result = searched(problem, store)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    best = found.result.best
    assert best is not None
    assert best.number == 60, "the search had trials 0 to 59"
    assert found.said is not None
    assert f"comes to trial 60, of {problem.bytes_of(best.assignment)} bytes." in found.said
    again = Study.resume(store, "weighed", problem.space)
    assert len(again.trials()) == 61
    kept = kept_finalist(problem, again, again.result())  # type: ignore[arg-type]
    assert kept.best == best
    for known in (again.result(), kept):
        last = linked_finalist(problem, again, known, never)  # type: ignore[arg-type]
        assert last is not None
        assert last.result.best == best
        assert kept_finalist(problem, again, again.result()).best == best  # type: ignore[arg-type]
    assert len(Study.resume(store, "weighed", problem.space).trials()) == 61, "nothing comes twice"
    further = again.run(InProcessExecutor(problem.space), Budget(trials=10))
    assert further.evaluations == 71
    plain = Study(problem.space, "random", 0)
    plain.run(InProcessExecutor(problem.space), Budget(trials=70))
    assert {str(t.assignment) for t in plain.trials()} <= {str(t.assignment) for t in again.trials()}


def all_too_large(problem: Linking, store: Store) -> Study:
    """A study whose trials keep the limit of the search and, as they link, not that which is asked for."""
    space = problem.space
    assert isinstance(space, Weighed)
    names, options = [d.name for d in space.decisions], space.decisions[0].options
    rows = itertools.islice(itertools.product(options, repeat=6), 0, None, 37)
    every = [dict(zip(names, row, strict=True)) for row in rows]
    bytes_of = [(problem.bytes_of(one), space.evaluate([one])[0]) for one in every]
    study = Study.create(store, "weighed", space, "random", 0, request={})
    near = [
        n for n, (size, found) in enumerate(bytes_of) if size > LIMIT and found.metrics["linked_bytes"] <= LIMIT + 40
    ]
    for number, n in enumerate(near[:40]):
        study.record(study.book.encoding.key(every[n]), number, every[n], bytes_of[n][1], 0.0)
    study.save(0.0)
    return study


@pytest.mark.parametrize("seed", range(1, 7))
def test_where_no_finalist_keeps_the_limit_bytes_are_given_up_until_one_does(seed: int, store: Store) -> None:
    """What is linked is 25 bytes and more beyond that of the estimate."""
    problem = Linking(Weighed(6, 5, seed), 25)
    study = all_too_large(problem, store)
    found = linked_finalist(problem, study, study.result(), never)  # type: ignore[arg-type]
    assert found is not None
    best = found.result.best
    assert found.kept
    assert best is not None
    assert problem.bytes_of(best.assignment) <= LIMIT
    neighbours = [{**best.assignment, d.name: option} for d in problem.space.decisions for option in d.options]
    within = [one for one in neighbours if problem.bytes_of(one) <= LIMIT]
    assert best.metrics["loss"] == min(loss_of(problem, one) for one in within)
    assert found.said is not None
    assert f"finalists linked within {LIMIT} bytes, the smallest to " in found.said
    assert f"comes to trial {best.number}, of {problem.bytes_of(best.assignment)} bytes." in found.said
    assert kept_finalist(problem, study, study.result()).best == best  # type: ignore[arg-type]


@dataclass
class WithoutRoom(Linking):
    def linked_bytes(self, trial: Trial) -> int:
        raise DeviceError("section .text will not fit in region text")


def test_where_nothing_can_be_linked_that_is_said_without_a_size(store: Store) -> None:
    problem = WithoutRoom(Weighed(4, 4, 1), 0)
    study, result = searched(problem, store)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert not found.kept
    assert found.said is not None
    assert found.said.endswith("finalists can be linked: the device has no room for any.")


def test_where_nothing_is_small_enough_nothing_is_delivered(store: Store) -> None:
    problem = Linking(Weighed(4, 4, 1), 500)
    study, result = searched(problem, store)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert not found.kept
    assert found.said is not None
    assert found.said.startswith(f"No finalist was linked within {LIMIT} bytes: the smallest of ")
    assert len(study.trials()) == 60


@pytest.mark.parametrize("links", [2, 8])
@pytest.mark.parametrize("off", [5, -60])
def test_a_descent_that_ends_early_keeps_what_it_has(off: int, links: int, store: Store) -> None:
    """Where estimates are too large, the estimate of what is found is beyond the limit of the search."""
    problem = Linking(Weighed(6, 5, 1, constraints=(Constraint("linked_bytes", LIMIT),)), off)
    study, result = searched(problem, store)
    found = linked_finalist(problem, study, result, lambda: problem.links >= links)  # type: ignore[arg-type]
    assert found is not None
    if found.kept:
        assert found.result.best is not None
        assert problem.bytes_of(found.result.best.assignment) <= LIMIT
        before = found.result.best.metrics["loss"]
        whole = linked_finalist(problem, study, study.result(), never)  # type: ignore[arg-type]
        assert whole is not None
        assert whole.result.best is not None
        assert whole.result.best.metrics["loss"] <= before
        problem.links = 0
        less = linked_finalist(problem, study, study.result(), lambda: problem.links >= 1)  # type: ignore[arg-type]
        assert less is not None
        assert less.result.best == whole.result.best, "a shorter descent does not lose what a longer one has found"


@pytest.mark.parametrize(("further", "is_finished"), [(0, True), (500, False)])
def test_the_best_are_finished_and_linked_again(further: int, is_finished: bool, store: Store) -> None:
    problem = Linking(Finishing(Weighed(6, 5, 2)), 5, further)
    study, result = searched(problem, store)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.best is not None
    assert isinstance(problem.space, Finishing)
    assert (CODES in found.result.best.assignment) == is_finished
    assert problem.bytes_of(found.result.best.assignment) <= LIMIT
    flat = Linking(replace(problem.space.flat), 5)
    other = Study.create(store, "flat", flat.space, "random", 0, request={})
    plain = linked_finalist(flat, other, other.run(InProcessExecutor(flat.space), Budget(trials=60)), never)  # type: ignore[arg-type]
    assert plain is not None
    assert plain.result.best is not None
    assert found.result.best.metrics["loss"] == plain.result.best.metrics["loss"] / (2.0 if is_finished else 1.0)
    assert len({str(sorted(one.items())) for one in problem.space.finished_at}) >= MOST_FINISHED
    assert problem.space.bytes_told == [problem.bytes_of(one) for one in problem.space.finished_at]


@dataclass(frozen=True)
class Uneven(Weighed):
    """Candidates whose last answer changes nothing."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        last = self.decisions[-1]
        return super().evaluate([{**one, last.name: last.options[0]} for one in batch])


@dataclass(frozen=True)
class UnevenFinishing(Finishing):
    """What finishing gains hangs on the answers: nothing, half, or nearly all of the loss."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        answers = [sum(int(one[d.name]) for d in self.flat.decisions[:-1]) for one in batch]
        kept = [(1.0, 0.5, 0.1)[total % 3] if CODES in one else 1.0 for total, one in zip(answers, batch, strict=True)]
        return [
            Measurement({**found.metrics, "loss": found.metrics["loss"] * share})
            for share, found in zip(kept, self.flat.evaluate(batch), strict=True)
        ]


def test_several_are_finished_that_are_not_the_same_and_the_best_of_these_is_taken(store: Store) -> None:
    problem = Linking(UnevenFinishing(Uneven(6, 5, 3)), 5)
    study, result = searched(problem, store)
    found = linked_finalist(problem, study, result, never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.best is not None
    assert isinstance(problem.space, Finishing)
    begun = problem.space.finished_at
    rounded = [loss_of(problem, one) for one in begun]
    assert len(set(rounded)) == len(begun) == MOST_FINISHED
    assert rounded == sorted(rounded)
    assert all(problem.bytes_of(one) <= LIMIT for one in begun)
    known = {loss_of(problem, t.assignment) for t in study.trials() if problem.bytes_of(t.assignment) <= LIMIT}
    assert {loss for loss in known if loss < rounded[-1]} <= {*rounded, found.result.best.metrics["loss"]}
    whole = [loss_of(problem, {**one, CODES: "fitted"}) for one in begun]
    assert found.result.best.metrics["loss"] == min(whole) < whole[0]
