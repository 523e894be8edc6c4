"""Trials of a book one at a time: all of them, by number and by rank, whatever order they came in."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search import trial_book
from kilotune.search.budget import Budget
from kilotune.search.front import Front, Ranking
from kilotune.search.kept_trials import KeptTrials
from kilotune.search.space import Constraint, Direction, Measurement, Objective, Trial
from kilotune.search.study import Study
from kilotune.search.telling_trials import telling_trials
from kilotune.search.trial_book import TrialBook
from tests.search.problems import FlatProblem

SPACE = FlatProblem(4, 5, 1)
RANKING = Ranking(
    (Objective("loss", Direction.MINIMIZE), Objective("size", Direction.MINIMIZE)), (Constraint("size", 30),)
)


def drawn(seed: int) -> list[Trial]:
    """Trials in a drawn order: numbers with gaps, equal losses, failures, and censored ones of which some were measured after all."""
    rng = np.random.default_rng(seed)
    names = [decision.name for decision in SPACE.decisions]
    options = [decision.options for decision in SPACE.decisions]
    candidates = [dict(zip(names, answers, strict=True)) for answers in itertools.product(*options)]
    trials = []
    for number, place in zip(rng.permutation(800)[:300].tolist(), rng.permutation(len(candidates))[:300], strict=True):
        metrics = {"loss": float(rng.integers(4)), "size": int(rng.integers(50))}
        kinds = [
            Measurement(metrics),
            Measurement(metrics),
            Measurement({}, "It failed."),
            Measurement(metrics, "Out.", True),
        ]
        trials.append(Trial(number, candidates[place], kinds[rng.integers(4)], float(number)))
    again = [trial for trial in trials if trial.measurement.censored][:20]
    return trials + [
        Trial(900 + n, t.assignment, Measurement({"loss": 1.0, "size": n}), 0.0) for n, t in enumerate(again)
    ]


@pytest.fixture(params=[1, 16, 4096])
def book(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TrialBook:
    monkeypatch.setattr(trial_book, "KeptTrials", partial(KeptTrials, request.param))
    monkeypatch.setattr(trial_book, "BEST_AT_ONCE", 3)
    return TrialBook(SPACE)


@pytest.mark.parametrize("seed", range(3))
def test_all_are_read_by_number_and_by_rank(book: TrialBook, seed: int) -> None:
    trials = drawn(seed)
    for trial in trials:
        book.record(
            book.encoding.key(trial.assignment), trial.number, trial.assignment, trial.measurement, trial.elapsed_s
        )
    by_number = sorted(trials, key=lambda trial: trial.number)
    assert list(book.each_trial()) == by_number
    assert list(book.each_measurement()) == [(trial.elapsed_s, trial.measurement) for trial in by_number]
    ranked = sorted(by_number, key=lambda trial: RANKING.rank(trial.measurement))
    fit = [trial for trial in ranked if RANKING.rank(trial.measurement)[0] == 0.0]
    assert list(book.best_first(RANKING)) == fit
    assert list(book.best_first(RANKING, within_limits=False)) == ranked
    small = [trial for trial in fit if trial.metrics["size"] < 9]
    assert list(book.best_first(RANKING, lambda measured: measured.metrics.get("size", math.inf) < 9)) == small
    assert [book.numbered(number) for number in range(-1, 950)] == [
        {trial.number: trial for trial in trials}.get(number) for number in range(-1, 950)
    ]
    assert all(trial.number in book.numbers() for trial in trials)
    assert len(book.numbers()) == len(book) == len(trials)
    assert book.next_number == by_number[-1].number + 1
    assert book.candidates == 300


def test_a_candidate_has_the_trial_that_was_measured_to_the_end(book: TrialBook) -> None:
    trials = drawn(1)
    for trial in trials:
        book.record(
            book.encoding.key(trial.assignment), trial.number, trial.assignment, trial.measurement, trial.elapsed_s
        )
    whole = {str(t.assignment): t for t in trials if not t.measurement.censored}
    for trial in trials:
        assert book.trial_of(trial.assignment) == whole.get(str(trial.assignment))
    assert book.trial_of({"d0": 10}) is None


def test_the_trials_that_tell_are_all_improvements_the_front_and_others_evenly() -> None:
    study = Study(SPACE, "random", 3)
    study.run(InProcessExecutor(SPACE), Budget(trials=400))
    trials = study.trials()
    told = dict(telling_trials(study, study.each_trial(), len(trials), 50))
    assert all(trials[place] == trial for place, trial in told.items())
    assert {trial.number for trial in study.front.trials} <= {trial.number for trial in told.values()}
    best = Front(study.front.ranking)
    assert {place for place, trial in enumerate(trials) if best.add(trial)} <= told.keys()
    assert all(any(place in told for place in range(start, start + 8)) for start in range(0, 400, 8))
    assert len(told) < 80
    assert dict(telling_trials(study, study.each_trial(), len(trials), 400)) == dict(enumerate(trials))
