"""Which of the best candidates of a search is taken, by inputs that none of them was chosen by."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.fewest_flips import MOST_RANKED, FewestFlips
from kilotune.evaluators.fixed_point.fresh_inputs import PairedFlips
from kilotune.experiments.studies.command_time import never
from kilotune.experiments.studies.confirmed_finalists import chosen_finalist
from kilotune.experiments.studies.measured_finalists import MeasuredFinalists, kept_finalist
from kilotune.search.budget import Budget
from kilotune.search.result import Result
from kilotune.search.space import Assignment, Constraint, Measurement, Objective, Trial
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

MEMORY, FLIPS, CYCLES = Objective("memory_bytes"), Objective("expected_flips"), Objective("cycles")
SURELY, AS_MANY = PairedFlips(1000, 100, 0, 900, 0), PairedFlips(1000, 100, 50, 50, 0)


@dataclass(frozen=True)
class Classifying(FlatProblem):
    """Three decisions, 10 and on: memory, expected flips, and cycles."""

    objectives: tuple[Objective, ...] = (MEMORY, FLIPS, CYCLES)
    constraints: tuple[Constraint, ...] = (Constraint("memory_bytes", 12),)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        numbers = [[float(option) for option in one.values()] for one in batch]
        return [Measurement({"memory_bytes": m, "expected_flips": f, "cycles": c}) for m, f, c in numbers]


@dataclass
class Ranking:
    """A problem of whose candidates that one is likely to flip the fewest that `place` says, and two flip what `pair` says."""

    space: Classifying
    place: Callable[[int], int]
    pair: PairedFlips | None = None
    slow: bool = False
    finishes_finalists: bool = False
    ranked: list[list[Trial]] = field(default_factory=list)
    compared: list[tuple[Trial, Trial]] = field(default_factory=list)

    def fewest_flips(self, trials: Sequence[Trial]) -> FewestFlips | None:
        if self.slow:
            time.sleep(5.0)  # abandoned
        self.ranked.append(list(trials))
        place = self.place(len(trials))
        return None if place < 0 else FewestFlips(place, len(trials), 2500)

    def paired_flips(self, first: Trial, second: Trial) -> PairedFlips | None:
        self.compared.append((first, second))
        return self.pair

    def chosen(
        self, study: Study, paper: Trial | None = None, is_over: Callable[[], bool] = never
    ) -> MeasuredFinalists:
        return chosen_finalist(self, study, study.result(), paper, is_over)  # type: ignore[arg-type]

    def kept(self, study: Study) -> Trial | None:
        return kept_finalist(self, study, study.result()).best  # type: ignore[arg-type]


def searched(space: Classifying) -> Study:
    study = Study(space, "exhaustive", 0)
    study.run(InProcessExecutor(space), Budget(trials=space.options**space.count))
    return study


def numbers_of(trial: Trial | None) -> tuple[int, ...]:
    assert trial is not None
    return tuple(int(option) for option in trial.assignment.values())


def trial_of(study: Study, *numbers: int) -> Trial:
    return next(trial for trial in study.trials() if numbers_of(trial) == numbers)


SPACE = Classifying(3, 4, 0)


def test_what_is_likely_to_flip_the_fewest_of_those_as_cheap_is_taken_and_kept() -> None:
    study, problem = searched(SPACE), Ranking(SPACE, lambda count: count - 1)
    found = problem.chosen(study)
    (ranked,) = problem.ranked
    assert [numbers_of(trial) for trial in ranked] == [
        (10, flips, 10) for flips in (10, 11, 12, 13)
    ]  # one of each precision
    assert found.result.best == ranked[3] == problem.kept(study)
    assert found.said is not None
    assert f"Of the 4 best candidates trial {ranked[3].number} is" in found.said
    assert f"by 2500 made-up ones; trial {ranked[0].number} is the best by the samples" in found.said


@dataclass(frozen=True)
class AskingForFront(Classifying):
    """The whole front is asked for."""

    reference_point: tuple[float, ...] = (14.0, 14.0, 14.0)


@pytest.mark.parametrize(
    "space",
    [
        AskingForFront(3, 4, 0),
        replace(SPACE, objectives=(CYCLES, MEMORY, FLIPS)),
        replace(SPACE, objectives=(MEMORY, CYCLES)),
        replace(SPACE, constraints=(Constraint("memory_bytes", 9),)),
    ],
)
def test_nothing_is_ranked_where_precision_does_not_decide(space: Classifying) -> None:
    study, problem = searched(space), Ranking(space, lambda count: count - 1)
    assert problem.chosen(study).result == study.result()
    assert not problem.ranked


def test_nothing_is_ranked_where_candidates_are_finished_or_time_is_over_or_nothing_was_found() -> None:
    for problem in (
        Ranking(SPACE, lambda count: count - 1, slow=True),
        Ranking(SPACE, lambda count: -1),
        Ranking(SPACE, lambda count: 0),
    ):
        study = searched(SPACE)
        found = problem.chosen(study, is_over=lambda slow=problem.slow: slow)  # type: ignore[misc]
        assert found.result == study.result()
        assert found.said is None
        assert problem.kept(study) == study.result().best


def test_margins_tell_apart_what_flips_as_many_under_limits() -> None:
    """There the precision of margins is what comes next; a candidate of the same of both computes the same."""
    space = replace(SPACE, objectives=(FLIPS, CYCLES, MEMORY))
    study = Study(space, "random", 1)
    study.run(InProcessExecutor(space), Budget(trials=60))
    problem = Ranking(space, lambda count: 0)
    problem.chosen(study)
    (ranked,) = problem.ranked
    pairs = [numbers_of(trial)[1:] for trial in ranked]
    assert len(set(pairs)) == len(pairs) == 16
    assert pairs == sorted(pairs)
    assert {numbers_of(trial)[0] for trial in ranked} == {10}  # the smallest of each


def test_where_the_fewest_expected_flips_are_proved_only_as_few_are_ranked() -> None:
    space = replace(SPACE, objectives=(FLIPS, CYCLES, MEMORY))
    study = searched(space)
    assert study.result().proved
    problem = Ranking(space, lambda count: count - 1, AS_MANY)
    assert numbers_of(problem.chosen(study).result.best) == (10, 10, 13)
    assert [numbers_of(trial) for trial in problem.ranked[0]] == [(10, 10, cycles) for cycles in (10, 11, 12, 13)]
    for answer, kept in (((11, 10, 12), True), ((10, 11, 10), False)):  # which flips as few, and which more
        paper = trial_of(study, *answer)
        assert (problem.chosen(study, paper).result.best == paper == problem.kept(study)) == kept


def test_no_more_are_ranked_than_are_looked_at() -> None:
    space = Classifying(3, 12, 0, objectives=(FLIPS, CYCLES, MEMORY), constraints=())
    study = Study(space, "random", 1)
    study.run(InProcessExecutor(space), Budget(trials=1700))
    problem = Ranking(space, lambda count: 0)
    problem.chosen(study)
    assert len(problem.ranked[0]) == MOST_RANKED < 144


@pytest.mark.parametrize(("pair", "delivers"), [(SURELY, True), (AS_MANY, False), (None, True)])
def test_what_is_taken_is_compared_with_the_procedures_answer(pair: PairedFlips | None, delivers: bool) -> None:
    study = searched(SPACE)
    answer, last = trial_of(study, 10, 12, 11), trial_of(study, 10, 13, 10)
    problem = Ranking(SPACE, lambda count: count - 1, pair)
    found = problem.chosen(study, replace(answer, number=99))
    assert [numbers_of(trial)[1] for trial in problem.ranked[0]] == [
        10,
        11,
        13,
    ]  # without what is as precise as the answer
    assert problem.compared == [(last, answer)]
    assert found.result.best == problem.kept(study) == (last if delivers else answer)


def test_where_the_procedures_answer_is_the_best_by_the_samples_others_are_compared_with_it() -> None:
    study = searched(SPACE)
    answer = study.result().best
    assert answer is not None
    for pair, best in ((SURELY, trial_of(study, 10, 13, 10)), (AS_MANY, answer)):
        problem = Ranking(SPACE, lambda count: count - 1, pair)
        assert problem.chosen(study, answer).result.best == best == problem.kept(study)
        assert problem.ranked[0][0] == answer
    assert Ranking(SPACE, lambda count: 0, AS_MANY).chosen(study, answer).result.best == answer


def test_what_an_earlier_run_has_kept_is_ranked_again_and_stays_without_time() -> None:
    study = searched(SPACE)
    last, best = trial_of(study, 10, 13, 10), study.result().best
    assert Ranking(SPACE, lambda count: count - 1).chosen(study).result.best == last
    hurried = Ranking(SPACE, lambda count: count - 1, slow=True)
    assert hurried.chosen(study, is_over=lambda: True).result.best == last == hurried.kept(study)
    again = Ranking(SPACE, lambda count: 0)
    assert again.chosen(study).result.best == best == again.kept(study)


def test_what_time_is_over_for_while_it_is_compared_is_not_kept_instead_of_what_was() -> None:
    """An earlier run has kept the procedure's answer; a later one ranks, and has no time to compare."""
    study = searched(SPACE)
    answer = trial_of(study, 10, 12, 11)
    assert Ranking(SPACE, lambda count: 1, AS_MANY).chosen(study, answer).result.best == answer

    def no_time(first: Trial, second: Trial) -> PairedFlips | None:
        over.append(True)
        time.sleep(5.0)
        return SURELY

    over = list[bool]()
    hurried = Ranking(SPACE, lambda count: count - 1)
    hurried.paired_flips = no_time  # type: ignore[method-assign]
    result: Result = hurried.chosen(study, answer, is_over=lambda: bool(over)).result
    assert over
    assert result.best == answer == hurried.kept(study)
