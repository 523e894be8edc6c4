"""What is delivered where the best candidates of a search are finished after it: the one that flips fewer of the same made-up inputs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.fresh_inputs import PairedFlips
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.command_time import DEVICE_SHARE, CommandTime, never
from kilotune.experiments.studies.confirmed_finalists import chosen_finalist
from kilotune.experiments.studies.finished_finalists import MOST_FINISHED, Finishing, finishes_finalists
from kilotune.experiments.studies.measured_finalists import MeasuredFinalists, kept_finalist
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.tuning import run
from kilotune.experiments.studies.workplace import Workplace
from kilotune.search.budget import Budget
from kilotune.search.flat_state import FlatState
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Objective, Option, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.shiftry.fitted_space import FITTED
from tests.search.problems import FlatProblem

MEMORY, FLIPS = Objective("memory_bytes"), Objective("expected_flips")
CODES = "codes"
FLASH = 36
"""Of the first three answers, 10 to 14 each, together."""

SEARCHED = 300
"""Of 625 candidates."""


@dataclass(frozen=True)
class Rounded(FlatProblem):
    """Four decisions: three cost bytes and lower flips, of the last one half are alike."""

    objectives: tuple[Objective, ...] = (FLIPS,)
    constraints: tuple[Constraint, ...] = (Constraint("flash_bytes", FLASH),)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [self._measured([int(one[decision.name]) for decision in self.decisions]) for one in batch]

    def _measured(self, answers: list[int]) -> Measurement:
        *wide, last = answers
        flips = 40.0 - sum(weight * answer for weight, answer in zip((1.1, 0.9, 0.7), wide, strict=True)) + last // 2
        return Measurement({"flash_bytes": sum(wide), "memory_bytes": wide[0], "expected_flips": flips, "cycles": 1.0})


@dataclass(frozen=True)
class Finished:
    """Those candidates, and each finished, of which so much more is measured than is expected that a search ranks none first."""

    rounded: Rounded
    finished_at: list[Assignment] = field(default_factory=list)
    measured: list[Assignment] = field(default_factory=list)
    name: str = "finished"
    prefers_flat: bool = True

    @property
    def objectives(self) -> tuple[Objective, ...]:
        return self.rounded.objectives

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return self.rounded.constraints

    @property
    def fingerprint(self) -> str:
        return f"finished {self.rounded.fingerprint}"

    def flat_view(self) -> Rounded:
        return self.rounded

    def start(self) -> FlatState:
        return FlatState((*self.rounded.decisions, Decision(CODES, ("rounded", "fitted"))), -math.inf)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return dict(answers)

    def finished(self, candidate: Assignment, measurement: Measurement) -> Assignment | None:
        assert measurement.metrics
        self.finished_at.append(candidate)
        return {**candidate, CODES: "fitted"}

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        self.measured.extend(one for one in batch if CODES in one)
        return [
            Measurement({**found.metrics, "expected_flips": found.metrics["expected_flips"] + 5.0 * (CODES in one)})
            for one, found in zip(batch, self.rounded.evaluate(batch), strict=True)
        ]


@dataclass
class Comparing:
    """A problem whose candidates flip what `flips` says of them, of 1000 inputs."""

    space: Finished
    flips: Callable[[Assignment], int]
    finishes_finalists: bool = True
    told: list[str] = field(default_factory=list)
    until_over: int = 1000
    """How many are compared before time is over."""

    def is_over(self) -> bool:
        return self.until_over < 0

    def paired_flips(self, first: Trial, second: Trial) -> PairedFlips | None:
        self.until_over -= 1
        if self.is_over():
            time.sleep(5.0)  # abandoned
        return PairedFlips(1000, 1000, self.flips(first.assignment), self.flips(second.assignment), 0)

    def searched(self, store: Store, trials: int = SEARCHED) -> Study:
        study = Study.create(store, "study", self.space, "random", 0, request={})
        study.run(InProcessExecutor(self.space.flat_view()), Budget(trials=trials))
        return study

    def chosen(
        self, study: Study, paper: Trial | None = None, is_over: Callable[[], bool] = never
    ) -> MeasuredFinalists:
        return chosen_finalist(self, study, study.result(), paper, is_over, self.told.append)  # type: ignore[arg-type]

    def kept(self, study: Study) -> Trial | None:
        return kept_finalist(self, study, study.result()).best  # type: ignore[arg-type]


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path / 'studies.db'}")


def is_fitted(candidate: Assignment) -> bool:
    return CODES in candidate


def fewer(candidate: Assignment) -> int:
    """The fitted ones flip fewer, each as many as its first two answers say."""
    return 30 + (int(candidate["d0"]) * 3 + int(candidate["d1"])) % 5 if is_fitted(candidate) else 50


def rank_of(trial: Trial) -> tuple[float, int]:
    return trial.metrics["expected_flips"], trial.number


def within(study: Study) -> list[Trial]:
    """Trials that are not finished and keep the limit, the best first."""
    trials = [t for t in study.trials() if not is_fitted(t.assignment) and t.metrics["flash_bytes"] <= FLASH]
    return sorted(trials, key=rank_of)


def test_of_six_distinct_ones_that_are_finished_the_one_of_fewest_flips_is_delivered(store: Store) -> None:
    problem = Comparing(Finished(Rounded(4, 5, 0)), fewer)
    study = problem.searched(store)
    before = study.result().best
    found = problem.chosen(study)
    best, begun = found.result.best, problem.space.finished_at
    assert best is not None
    assert before is not None
    losses = [problem.space.evaluate([one])[0].metrics["expected_flips"] for one in begun]
    distinct = sorted({trial.metrics["expected_flips"] for trial in within(study)})
    assert losses == distinct[:MOST_FINISHED]
    assert problem.flips(best.assignment) == min(problem.flips({**one, CODES: "fitted"}) for one in begun)
    assert is_fitted(best.assignment)
    assert best.metrics["flash_bytes"] <= FLASH
    assert best.metrics["expected_flips"] > before.metrics["expected_flips"], "the search would not have taken it"
    assert found.said is not None
    assert f"trial {best.number} changes the class of the fewest made-up inputs" in found.said
    assert f"Of 6 finished candidates and trial {before.number}, the best of the others" in found.said
    assert problem.told[0] == "finishing candidates, 1 of at most 6"
    assert len(problem.told) == MOST_FINISHED
    assert problem.kept(study) == best


def test_what_is_finished_is_a_trial_and_is_not_finished_again(store: Store) -> None:
    problem = Comparing(Finished(Rounded(4, 5, 0)), fewer)
    best = problem.chosen(problem.searched(store)).result.best
    again = Study.resume(store, "study", problem.space)
    assert len(again.trials()) == SEARCHED + MOST_FINISHED
    assert problem.kept(again) == best
    problem.space.measured.clear()
    for result in (again.result(), replace(again.result(), best=best)):
        found = chosen_finalist(problem, again, result, None, never)  # type: ignore[arg-type]
        assert found.result.best == best
    assert not problem.space.measured
    assert len(Study.resume(store, "study", problem.space).trials()) == SEARCHED + MOST_FINISHED
    over = problem.chosen(again, is_over=lambda: True)
    assert over.result.best == best, "what was chosen stays where there is no time"
    further = again.run(InProcessExecutor(problem.space), Budget(trials=10))
    assert further.evaluations == SEARCHED + MOST_FINISHED + 10


def test_what_was_compared_when_time_is_over_counts_but_for_an_earlier_run_that_had_more(store: Store) -> None:
    problem = Comparing(Finished(Rounded(4, 5, 0)), fewer, until_over=2)
    study = problem.searched(store)
    little = problem.chosen(study, is_over=problem.is_over).result.best
    assert little is not None
    assert problem.flips(little.assignment) == min(
        problem.flips({**one, CODES: "fitted"}) for one in problem.space.finished_at[:2]
    )
    assert problem.kept(study) == little
    problem.until_over = 1000
    best = problem.chosen(study).result.best
    assert best is not None
    assert problem.flips(best.assignment) < problem.flips(little.assignment)
    problem.until_over = 2
    assert problem.chosen(study, is_over=problem.is_over).result.best == best == problem.kept(study)


@pytest.mark.parametrize("fitted", [50, 51])
def test_the_best_stays_where_nothing_finished_flips_fewer(fitted: int, store: Store) -> None:
    problem = Comparing(Finished(Rounded(4, 5, 0)), lambda one: fitted if is_fitted(one) else 50)
    study = problem.searched(store)
    before = study.result().best
    found = problem.chosen(study)
    assert len(problem.space.finished_at) == MOST_FINISHED
    assert found.said is None
    assert found.result.best == before == problem.kept(study)


def test_after_memory_only_candidates_of_the_least_are_finished(store: Store) -> None:
    problem = Comparing(Finished(Rounded(4, 5, 0, objectives=(MEMORY, FLIPS))), fewer)
    study = problem.searched(store, trials=20)
    before = study.result().best
    best = problem.chosen(study).result.best
    assert best is not None
    assert before is not None
    assert is_fitted(best.assignment)
    assert len(problem.space.finished_at) < MOST_FINISHED
    assert {int(one["d0"]) for one in problem.space.finished_at} == {10}
    assert best.metrics["memory_bytes"] == before.metrics["memory_bytes"] == 10


def with_trial(study: Study, candidate: Assignment, measurement: Measurement) -> Trial:
    """A trial of the study's, which the search might have finished."""
    number = study.book.free_number()
    study.record(study.book.encoding.key(candidate), number, candidate, measurement, 0.0)
    study.save(0.0)
    return Trial(number, candidate, measurement)


@pytest.mark.parametrize(("flips", "is_delivered"), [(20, True), (60, False)])
@pytest.mark.parametrize("gained", [-5.0, 5.0])
def test_what_the_search_has_finished_is_compared_too(
    flips: int, is_delivered: bool, gained: float, store: Store
) -> None:
    """Also where it ranks before all others, by what is measured."""
    problem = Comparing(Finished(Rounded(4, 5, 0)), lambda one: flips if is_fitted(one) and one["d3"] == 14 else 50)
    study = problem.searched(store)
    best, *_, tenth = within(study)[:10]
    measurement = Measurement({**best.metrics, "expected_flips": best.metrics["expected_flips"] + gained})
    fitted = with_trial(study, {**tenth.assignment, "d3": 14, CODES: "fitted"}, measurement)
    found = problem.chosen(study).result.best
    assert found == problem.kept(study) == (fitted if is_delivered else best)


@pytest.mark.parametrize(("step", "count"), [(1e-3, 8), (-1e-3, 7)])
def test_what_an_earlier_run_has_chosen_is_compared_however_much_the_search_has_ranked_before_it(
    step: float, count: int, store: Store
) -> None:
    """Seven rounded ones that the search has met since, and has finished, are ranked before it, and even before the search's best."""
    problem = Comparing(Finished(Rounded(4, 5, 0)), fewer)
    study = problem.searched(store, 60)
    problem.chosen(study)
    chosen, best = problem.kept(study), study.result().best
    assert chosen is not None
    assert best is not None
    problem.flips = lambda one: (20 if one == chosen.assignment else 45) if is_fitted(one) else 50
    known = [dict(trial.assignment) for trial in study.trials()]
    new = [{"d0": 10, "d1": 10, "d2": n // 5 + 10, "d3": n % 5 + 10} for n in range(25)]
    for place, one in enumerate([one for one in new if one not in known][: MOST_FINISHED + 1]):
        metrics = {**best.metrics, "expected_flips": best.metrics["expected_flips"] + step * (place + 1)}
        with_trial(study, one, Measurement(metrics))
        with_trial(study, {**one, CODES: "fitted"}, Measurement(metrics))
    found = problem.chosen(study)
    assert found.result.best == chosen == problem.kept(study)
    assert found.said is not None
    assert f"Of {count} finished candidates and" in found.said


def test_finished_ones_that_break_a_limit_are_not_delivered(store: Store) -> None:
    limits = (Constraint("flash_bytes", FLASH), Constraint("expected_flips", 16.0))
    problem = Comparing(Finished(Rounded(4, 5, 0, constraints=limits)), fewer)
    study = problem.searched(store)
    before = study.result().best
    assert before is not None
    assert before.metrics["expected_flips"] < 16.0 < before.metrics["expected_flips"] + 5.0
    assert problem.chosen(study).result.best == before == problem.kept(study)


@pytest.mark.parametrize(("of_paper", "is_kept"), [(32, True), (900, False)])
def test_the_procedures_answer_is_compared_with_what_is_finished(of_paper: int, is_kept: bool, store: Store) -> None:
    """30 of 1000 inputs beside 32 are no less beyond chance."""
    problem = Comparing(Finished(Rounded(4, 5, 0)), fewer)
    study = problem.searched(store)
    paper = within(study)[-1]
    problem.flips = lambda one: of_paper if one == paper.assignment else fewer(one)
    found = problem.chosen(study, paper)
    assert found.result.best is not None
    assert is_fitted(found.result.best.assignment) != is_kept
    assert problem.kept(study) == found.result.best
    assert (found.result.best == paper) == is_kept


def test_only_the_most_precise_are_finished_where_that_is_asked_for() -> None:
    precise = Comparing(Finished(Rounded(4, 5, 0)), fewer)
    assert finishes_finalists(precise)  # type: ignore[arg-type]
    assert not finishes_finalists(replace(precise, finishes_finalists=False))  # type: ignore[arg-type]
    for objectives in ((Objective("cycles"), FLIPS), (MEMORY,)):
        other = replace(precise, space=Finished(Rounded(4, 5, 0, objectives=objectives)))
        assert not finishes_finalists(other)  # type: ignore[arg-type]
    given = str(resolve_model("protonn-cancer"))
    for asked, are in (({}, False), ({"fitted": True}, True), ({"fitted": True, "front": ["flash"]}, False)):
        request = TuneRequest("shiftry", given, "refine", options={"flash_limit_bytes": 900, **asked})
        assert finishes_finalists(build_problem(request)) == are


@dataclass(frozen=True)
class HeardTime(CommandTime):
    """Remembers which share of the budget a search leaves."""

    shares: list[float] = field(default_factory=list)

    def for_search(self, reserved_share: float = 0.0) -> Budget:
        self.shares.append(reserved_share)
        return super().for_search(reserved_share)


@pytest.mark.parametrize("fitted", [True, False])
def test_a_command_delivers_codes_that_are_fitted_after_its_search(fitted: bool) -> None:
    """Within 210 bytes of parameters and tables the search ranks another candidate first; without fits that of the fewest flips of made-up
    inputs is taken."""
    options = {"flash_limit_bytes": 210, "narrow": True, "fitted": fitted}
    problem = build_problem(TuneRequest("shiftry", str(resolve_model("protonn-cancer")), "refine", options=options))
    assert isinstance(problem, ModelProblem)
    study, told = Study(problem.space, "refine", 1), list[str]()
    asked = HeardTime(Budget(trials=400))
    outcome = run(problem, study, asked, Workplace(cached=False), None, on_conclusion=told.append)
    best, searched = outcome.result.best, study.result().best
    assert best is not None
    assert searched is not None
    assert asked.shares == [DEVICE_SHARE if fitted else 0.0]
    assert (FITTED in best.assignment.values()) == any(one.startswith("finishing") for one in told) == fitted
    assert ("running the best candidates on made-up inputs" in told) != fitted
    assert best.number != searched.number
    assert best.metrics["flash_bytes"] <= 210
    assert outcome.test == problem.test_metrics(best.assignment)
    if fitted:
        flips = problem.paired_flips(searched, best)
        assert flips is not None
        assert flips.only_second < flips.only_first


@pytest.mark.parametrize(("ranks_finished", "better"), [(False, True), (True, False)])
def test_two_finished_ones_are_told_apart_by_flips_or_by_rank(ranks_finished: bool, better: bool) -> None:
    """By flips always beside one that is not finished; where nothing can be compared, by rank."""
    space = Finished(Rounded(4, 5, 0))
    problem = Comparing(space, lambda one: 50 - int(one["d3"]))
    finishing = Finishing(
        problem, space, Ranking.of(space), lambda _: None, lambda _: None, problem.told.append, ranks_finished
    )

    def trial(last: int, fitted: bool, flips: float) -> Trial:
        answers: Assignment = {"d0": 10, "d1": 10, "d2": 10, "d3": last, **({CODES: "fitted"} if fitted else {})}
        return Trial(0, answers, Measurement({"flash_bytes": 30, "memory_bytes": 10, "expected_flips": flips}))

    assert finishing.is_surer(trial(10, True, 1.0), trial(11, True, 2.0)) == better
    assert finishing.is_surer(trial(11, True, 2.0), trial(10, True, 1.0)) != better
    assert finishing.is_surer(trial(10, False, 1.0), trial(11, True, 2.0))
    assert not finishing.is_surer(trial(11, False, 2.0), trial(10, True, 1.0))
    problem.paired_flips = lambda first, second: None  # type: ignore[method-assign]
    assert not finishing.is_surer(trial(10, False, 1.0), trial(11, True, 2.0))
