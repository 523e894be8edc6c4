"""What a trained candidate must not lose, what is said where none can be trained, and what an earlier run has trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilotune.evaluators.fixed_point.fresh_inputs import PairedFlips
from kilotune.experiments.studies.command_time import never
from kilotune.experiments.studies.confirmed_finalists import chosen_finalist
from kilotune.experiments.studies.finished_finalists import NEW, record_new
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.trained_finalists import LEFT_SHARE
from kilotune.search.space import Measurement, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from tests.experiments.studies.test_finished_finalists import Finished, Rounded
from tests.experiments.studies.test_trained_finalists import Training, fewest


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path / 'studies.db'}")


def chosen_of(problem: Training, store: Store, is_trained: bool) -> tuple[Trial, str]:
    """The best of a search, of which the trained one is delivered or not, and what is said."""
    study = problem.searched(store)
    before, found = study.result().best, problem.chosen(study)
    assert before is not None
    assert found.said is not None
    assert (found.result.best != before) == is_trained
    assert problem.kept(study) == found.result.best
    return before, found.said


@pytest.mark.parametrize(("wrong", "is_trained"), [(0, True), (10, True), (15, True), (40, False)])
def test_what_loses_the_samples_themselves_is_not_delivered(wrong: int, is_trained: bool, store: Store) -> None:
    """Others get 10 of them wrong. With much noise classes are where they are not."""
    before, said = chosen_of(Training(Finished(Rounded(4, 5, 0)), fewest, wrong_samples=wrong), store, is_trained)
    if not is_trained:
        assert f"it is wrong on more of the training samples than trial {before.number}, which stays" in said


@pytest.mark.parametrize(
    ("unseen", "is_trained"),
    [
        (None, True),
        (PairedFlips(300, 300, 30, 2, 5), True),
        (PairedFlips(300, 300, 10, 14, 5), True),
        (PairedFlips(1200, 1200, 10, 34, 5), True),
        (PairedFlips(1200, 1200, 20, 52, 5), False),
        (PairedFlips(300, 300, 20, 52, 5), False),
    ],
)
def test_what_holds_for_no_other_samples_is_not_delivered(
    unseen: PairedFlips | None, is_trained: bool, store: Store
) -> None:
    before, said = chosen_of(Training(Finished(Rounded(4, 5, 0)), fewest, unseen=unseen), store, is_trained)
    if not is_trained:
        assert "trained with either half of the training samples it gives 57 of the others another class" in said
        assert f"and trial {before.number}, which stays, 25" in said


def test_what_cannot_be_trained_becomes_no_trial(store: Store) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest, reason="it is too large")
    study = problem.searched(store)
    before, count = study.result().best, len(study.trials())
    found = problem.chosen(study)
    assert before is not None
    assert found.result.best == before
    assert found.said == f"Trial {before.number} was not trained: it is too large."
    assert len(study.trials()) == count
    assert not problem.space.measured
    assert not problem.told


def test_a_training_has_most_of_the_time_that_is_left(store: Store) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    study = problem.searched(store)
    chosen_finalist(problem, study, study.result(), None, never, left_s=lambda: 20.0)  # type: ignore[arg-type]
    assert problem.seconds == [LEFT_SHARE * 20.0]


def resumed(problem: Training, store: Store, flips: float = -1.0) -> tuple[Study, Trial, Trial]:
    """The study goes on, what its first run has trained and delivered, and a new best one of the same bytes, of so many expected flips."""
    study = problem.searched(store)
    earlier = problem.chosen(study).result.best
    assert earlier is not None
    again = Study.resume(store, "study", problem.space)
    known = {str(sorted(trial.assignment.items())) for trial in again.trials()}
    decisions = problem.space.rounded.decisions
    other = next(
        one
        for option in decisions[0].options
        for last in decisions[-1].options
        if str(sorted((one := {**{d.name: d.options[0] for d in decisions}, "d0": option, "d3": last}).items()))
        not in known
    )
    metrics = {**earlier.metrics, "expected_flips": flips}
    record_new(again, [Trial(NEW, other, Measurement(metrics))])
    best = again.result().best
    assert best is not None
    assert best.assignment == other
    problem.compared.clear()
    return again, earlier, best


@pytest.mark.parametrize("ends", [True, False])
def test_what_an_earlier_run_has_trained_stays_where_there_is_no_time_to_train(ends: bool, store: Store) -> None:
    """Whether there is time to compare it or not."""
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    again, earlier, best = resumed(problem, store)
    over = (lambda: True) if ends else (lambda: bool(problem.compared))
    found = problem.chosen(again, is_over=over)
    assert found.result.best == earlier == problem.kept(again)
    assert found.said is not None
    assert f"Trial {earlier.number}, which an earlier run has trained and delivered, stays" in found.said
    assert f"There was no time to train the weights of trial {best.number}" in found.said
    assert (f"no time to compare trial {best.number} with it" in found.said) == ends
    assert bool(problem.compared) != ends


def test_what_an_earlier_run_has_trained_goes_where_it_is_not_right_more_often(store: Store) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    again, _, best = resumed(problem, store)
    problem.wrong = 50
    found = problem.chosen(again, is_over=lambda: len(problem.compared) >= 2)
    assert found.result.best == best


def test_the_new_one_is_trained_and_compared_with_what_stays(store: Store) -> None:
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    again, earlier, best = resumed(problem, store)
    found = problem.chosen(again).result.best
    assert found is not None
    assert found.assignment == problem.trained(best.assignment)
    assert [one.assignment for one in problem.compared[2:]] == [earlier.assignment, found.assignment]
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    for trial in (earlier, found):
        assert problem.is_trained(trial.assignment)


def test_a_training_that_was_interrupted_is_made_by_the_next_run(store: Store) -> None:
    """More time is not what it needs."""
    problem = Training(Finished(Rounded(4, 5, 0)), fewest)
    study = problem.searched(store)
    before = study.result().best
    study.stop()
    found = problem.chosen(study, is_over=lambda: study.stopped)
    assert before is not None
    assert found.result.best == before
    assert found.said == f"Training the weights of trial {before.number} was interrupted: `tune resume study` does it."
    again = Study.resume(store, "study", problem.space)
    assert problem.is_trained((problem.chosen(again).result.best or before).assignment)
