"""What is delivered where its weights may be trained: that candidate or the trained one, whichever is right more often by the labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from kilotune.evaluators.fixed_point.fresh_inputs import LABELLED_NOISE, PAIRED_SEED, PairedFlips
from kilotune.evaluators.fixed_point.similar_inputs import labelled_inputs
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.command_time import TRAINING_SHARE, CommandTime, never
from kilotune.experiments.studies.confirmed_finalists import chosen_finalist
from kilotune.experiments.studies.finished_finalists import MOST_FINISHED, NEW, record_new
from kilotune.experiments.studies.measured_finalists import MeasuredFinalists
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.trained_finalists import trained_finalist, trains_delivered
from kilotune.experiments.studies.tuning import run
from kilotune.experiments.studies.workplace import Workplace
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Constraint, Measurement, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.shiftry import trained_codes
from kilotune.spaces.shiftry.fitted_space import CODES, TRAINED
from tests.experiments.studies.test_finished_finalists import CODES as FAKE_CODES
from tests.experiments.studies.test_finished_finalists import (
    FLASH,
    Comparing,
    Finished,
    HeardTime,
    Rounded,
    fewer,
)


@dataclass
class Training(Comparing):
    """Trained are those that say `fitted`; of 1000 made-up inputs they get `wrong` another class than the label, the others 50."""

    wrong: int = 30
    wrong_samples: int = 0
    """Of the training samples, of which others get 10 wrong."""
    unseen: PairedFlips | None = None
    reason: str | None = None
    trains_delivered: bool = True
    finishes_finalists: bool = False
    compared: list[Trial] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def trained(self, assignment: Assignment) -> Assignment:
        return {**assignment, FAKE_CODES: "fitted"}

    def trained_within(self, assignment: Assignment, seconds: float) -> Assignment:
        self.seconds.append(seconds)
        return self.trained(assignment)

    def is_trained(self, assignment: Assignment) -> bool:
        return FAKE_CODES in assignment

    def why_untrained(self, assignment: Assignment) -> str | None:
        return self.reason

    def paired_errors(self, first: Trial, second: Trial) -> PairedFlips | None:
        self.compared += [first, second]
        return PairedFlips(1000, 1000, 50, self.wrong, 5)

    def sample_errors(self, first: Trial, second: Trial) -> PairedFlips:
        return PairedFlips(500, 500, 10, self.wrong_samples, 0)

    def unseen_errors(self, first: Trial, second: Trial) -> PairedFlips | None:
        return self.unseen


def fewest(candidate: Assignment) -> int:
    return 50


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path / 'studies.db'}")


@pytest.mark.parametrize(("wrong", "is_trained"), [(20, True), (30, True), (49, False), (50, False), (51, False)])
def test_the_trained_one_is_delivered_where_it_is_right_more_often(wrong: int, is_trained: bool, store: Store) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest, wrong=wrong)
    study = problem.searched(store)
    before = study.result().best
    found = problem.chosen(study)
    best = found.result.best
    assert before is not None
    assert best is not None
    assert (best.assignment == problem.trained(before.assignment)) == is_trained
    assert (best == before) != is_trained
    assert problem.kept(study) == best
    assert problem.told == ["training the weights of what was found with the labels"]
    if is_trained:
        assert found.said is not None
        assert f"Trial {best.number} is trial {before.number} trained" in found.said
        assert (
            f"of 1000 made-up inputs, which are training samples with noise, it gives {wrong + 5} another" in found.said
        )
        assert "and that one 55." in found.said
    else:
        assert found.said is not None
        assert found.said.endswith("and that one 55, which stays.")
    assert [one.assignment for one in problem.compared] == [before.assignment, problem.trained(before.assignment)]


@dataclass(frozen=True)
class NearerTheFloats(Finished):
    """Trained ones have 5 expected flips fewer than the others."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [
            Measurement({**one.metrics, "expected_flips": one.metrics["expected_flips"] - 10.0 * (FAKE_CODES in asked)})
            for asked, one in zip(batch, super().evaluate(batch), strict=True)
        ]


@pytest.mark.parametrize("finds", [lambda *_: PairedFlips(1000, 1000, 50, 50, 5), lambda *_: None])
def test_one_that_is_not_right_more_often_is_not_delivered_later_either(
    finds: Callable[..., PairedFlips | None], store: Store
) -> None:
    """Though it is a trial of the study from then on, and the best by what a search ranks by."""
    problem = Training(NearerTheFloats(Rounded(4, 5, 0)), fewest)
    problem.paired_errors = finds  # type: ignore[method-assign]
    study = problem.searched(store)
    before = study.result().best
    assert before is not None
    found = problem.chosen(study).result.best
    assert study.result().best != before
    assert found == before == problem.kept(study)
    again = Study.resume(store, "study", problem.space)
    assert before == problem.kept(again) == problem.chosen(again).result.best == problem.kept(again)


def test_one_that_ranks_first_too_is_what_is_kept(store: Store) -> None:
    problem = Training(NearerTheFloats(Rounded(4, 5, 0)), fewest)
    study = problem.searched(store)
    before, best = study.result().best, problem.chosen(study).result.best
    assert best != before
    assert best == study.result().best == problem.kept(study)
    again = Study.resume(store, "study", problem.space)
    assert best == problem.kept(again) == problem.chosen(again).result.best == problem.kept(again)


def test_a_trained_one_is_trained_once(store: Store) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    study = problem.searched(store)
    best = problem.chosen(study).result.best
    assert len(problem.space.measured) == 1
    again = Study.resume(store, "study", problem.space)
    assert problem.kept(again) == best
    assert problem.chosen(again).result.best == best
    assert len(problem.space.measured) == 1
    over = problem.chosen(again, is_over=lambda: True)
    assert over.result.best == best, "what was chosen stays where there is no time"


@pytest.mark.parametrize("trains", [True, False])
def test_finishing_ends_early_where_training_needs_the_time(trains: bool, store: Store) -> None:
    """Which is left for nothing that is not asked for."""
    problem = Training(Finished(Rounded(4, 5, 0)), fewer, finishes_finalists=True, trains_delivered=trains)
    study = problem.searched(store)
    before, ended = study.result().best, lambda: True
    found = chosen_finalist(problem, study, study.result(), None, never, problem.told.append, ended)  # type: ignore[arg-type]
    best = found.result.best
    assert before is not None
    assert best is not None
    assert len(problem.space.finished_at) == (0 if trains else MOST_FINISHED)
    assert (best.assignment == problem.trained(before.assignment)) == trains


def test_six_tenths_of_a_budget_are_kept_for_finishing_and_training() -> None:
    time = CommandTime(Budget(seconds=20.0), begun_s=monotonic() - 12.5)
    assert time.untrained_over(replay_s=0.0)
    assert not time.untrained_over(replay_s=1.0)
    assert not CommandTime(Budget(trials=50), begun_s=monotonic() - 12.5).untrained_over(replay_s=0.0)


def test_a_trained_one_that_breaks_a_limit_is_not_delivered(store: Store) -> None:
    limits = (Constraint("flash_bytes", FLASH), Constraint("expected_flips", 16.0))
    problem = Training(Finished(Rounded(4, 5, 0, constraints=limits)), fewest)
    study = problem.searched(store)
    before = study.result().best
    assert before is not None
    assert before.metrics["expected_flips"] < 16.0 < before.metrics["expected_flips"] + 5.0
    assert problem.chosen(study).result.best == before == problem.kept(study)
    assert not problem.compared


def test_what_keeps_a_limit_only_when_it_is_trained_is_delivered(store: Store) -> None:
    """Here trained ones have 5 expected flips more, so a limit that no other candidate keeps asks for more of them."""
    limits = (Constraint("flash_bytes", FLASH), Constraint("expected_flips", 16.0))
    problem = Training(Finished(Rounded(4, 5, 0, constraints=limits)), fewest, wrong=900)
    study = problem.searched(store)
    nearest = study.result().best
    assert nearest is not None
    metrics = {**nearest.metrics, "expected_flips": 17.0}
    unfit = replace(nearest, measurement=Measurement(metrics))
    result = replace(study.result(), best=unfit, feasible=False)
    trained = Trial(NEW, problem.trained(unfit.assignment), Measurement({**metrics, "expected_flips": 15.0}))
    record_new(study, [trained])
    found = trained_finalist(problem, study, MeasuredFinalists(result), never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.feasible
    assert found.result.best is not None
    assert found.result.best.assignment == trained.assignment
    assert found.said is not None
    assert found.said.endswith("which breaks a limit that the trained one keeps.")
    assert not problem.compared


class Estimated(Finished):
    """All are estimated to link to more bytes than the limit."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({**one.metrics, "linked_bytes": 1100.0}) for one in super().evaluate(batch)]


@dataclass
class Linked(Training):
    """They link to `size` bytes, and what is trained as well."""

    size: int = 990
    linked_limit_bytes: int = 1000

    def linked_bytes(self, trial: Trial) -> int:
        return self.size


@pytest.mark.parametrize(("size", "is_trained"), [(990, True), (1000, True), (1001, False)])
def test_what_links_within_the_limit_is_delivered_though_its_estimate_is_beyond(
    size: int, is_trained: bool, store: Store
) -> None:
    """A descent by linked bytes settles at such programs, of which no trained one was delivered."""
    limits = (Constraint("flash_bytes", FLASH), Constraint("linked_bytes", 1000.0))
    problem = Linked(Estimated(Rounded(4, 5, 0, constraints=limits)), fewest, size=size)
    study = Study.create(store, "study", problem.space, "random", 0, request={})
    (candidate,) = [dict.fromkeys(("d0", "d1", "d2", "d3"), 12)]
    record_new(study, [Trial(NEW, candidate, problem.space.evaluate([candidate])[0])])
    result = replace(study.result(), feasible=True)
    found = trained_finalist(problem, study, MeasuredFinalists(result), never)  # type: ignore[arg-type]
    assert found is not None
    assert found.result.best is not None
    assert found.result.best.assignment == (problem.trained(candidate) if is_trained else candidate)
    assert found.said is not None
    assert found.said.endswith("and breaks a limit.") != is_trained


def test_nothing_is_trained_where_that_is_not_asked_for(store: Store) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest, trains_delivered=False)
    study = problem.searched(store)
    assert problem.chosen(study).result.best == study.result().best
    assert not problem.told
    assert not problem.space.measured


@pytest.mark.parametrize("finds", [lambda: True, None])
def test_nothing_is_chosen_where_time_is_over_or_nothing_can_be_compared(
    finds: Callable[[], bool] | None, store: Store
) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    if finds is None:
        problem.paired_errors = lambda first, second: None  # type: ignore[method-assign]
    study = problem.searched(store)
    found, best = problem.chosen(study, is_over=finds or never), study.result().best
    assert best is not None
    assert found.result.best == best
    no_time = f"There was no time to train the weights of trial {best.number}: a larger --budget of `tune resume study` leaves more."
    assert found.said == (None if finds is None else no_time)


def test_a_trained_one_that_there_is_no_time_to_compare_is_compared_by_the_next_run(store: Store) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    study = problem.searched(store)
    over = problem.chosen(study, is_over=lambda: bool(problem.space.measured))
    assert over.result.best == study.result().best
    assert over.said is not None
    assert "no time to train" in over.said
    best = problem.chosen(study).result.best
    assert best is not None
    assert best.assignment[FAKE_CODES] == "fitted"


def test_a_command_delivers_what_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 700 bytes most of 1200 samples get another class by rounded codes of this perceptron."""
    monkeypatch.setattr(trained_codes, "STEPS", 1500)
    options = {"flash_limit_bytes": 700, "narrow": True, "trained": True, "accuracy_drop": 20.0}
    problem = build_problem(TuneRequest("shiftry", str(resolve_model("mlp-digits")), "refine", options=options))
    assert isinstance(problem, ModelProblem)
    assert trains_delivered(problem)
    study, told = Study(problem.space, "refine", 1), list[str]()
    asked = HeardTime(Budget(trials=300))
    outcome = run(problem, study, asked, Workplace(cached=False), None, on_conclusion=told.append)
    best = outcome.result.best
    assert best is not None
    searched = study.book.trial_of({name: option for name, option in best.assignment.items() if name != CODES})
    assert searched is not None
    assert asked.shares == [TRAINING_SHARE]
    assert best.assignment == {**searched.assignment, CODES: TRAINED}
    assert best.metrics["flash_bytes"] == searched.metrics["flash_bytes"] <= 700
    assert best.metrics["accuracy_percent"] > searched.metrics["accuracy_percent"] + 40.0
    assert "Codes of weights: trained with the labels, so classes need not be the float model's." in problem.lines(best)
    found = problem.paired_errors(searched, best)
    assert found is not None
    assert found.only_second < found.only_first
    task = problem.space.task
    assert task.targets is not None
    inputs, labels = labelled_inputs(task.features, task.targets, found.inputs, LABELLED_NOISE, PAIRED_SEED)
    for trial, alone in ((searched, found.only_first), (best, found.only_second)):
        classes = Simulator(task.program, task.parameters, inputs).run(problem.lower(trial.assignment))[0, :, 0]
        assert int((classes != labels).sum()) == alone + found.both


def test_labelled_inputs_are_samples_with_noise_and_their_labels() -> None:
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(50, 3)) * (1.0, 10.0, 0.0), [[1000.0, 0.0, 0.0]] * 50])
    labels = np.arange(100) // 50 * 1.0
    inputs, of_them = labelled_inputs(features, labels, 4000, 0.1, 3)
    np.testing.assert_array_equal(of_them, inputs[:, 0] > 500.0)
    far = inputs[of_them == 1.0] - [1000.0, 0.0, 0.0]
    np.testing.assert_allclose(far.std(axis=0), 0.1 * features.std(axis=0), rtol=0.1, atol=1e-12)
    np.testing.assert_array_equal(inputs, labelled_inputs(features, labels, 4000, 0.1, 3)[0])
