"""Bounds of what a candidate can still become are bounds, and a race changes nothing but when losers stop."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.pool import PoolExecutor
from kilotune.evaluators.fixed_point import measuring
from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.evaluators.fixed_point.fidelity import least_tail_sums, margin_errors, tail_sums
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.margins import Contest, MarginSums
from kilotune.evaluators.fixed_point.native_tails import native_least_tail_sums
from kilotune.evaluators.fixed_point.race import least_spread, stages
from kilotune.search.budget import Budget
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Measurement
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.emit.compiled import needs_compiler
from tests.spaces.small_network import small_network

SAMPLES = 120


@st.composite
def contests_with_scores(draw: st.DrawFn) -> tuple[Contest, np.ndarray, int]:
    """A contest between two scores, and a candidate's margins, as integers at a scale: some errors are wild, some few ones only."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.integers(2, 12))
    margins = np.abs(random.normal(0, draw(st.sampled_from([0.1, 1.0, 4.0])), SAMPLES))
    errors = random.normal(draw(st.sampled_from([-0.3, 0.0, 0.5])), draw(st.sampled_from([0.0, 0.05, 1.0])), SAMPLES)
    errors[random.random(SAMPLES) < draw(st.sampled_from([0.0, 0.02, 0.3]))] += draw(st.sampled_from([-8.0, 8.0]))
    if draw(st.booleans()):
        errors[SAMPLES // 2 :] = draw(st.sampled_from([-1.0, 0.0, 0.2, 3.0]))
    zero = np.zeros(SAMPLES, dtype=np.int32)
    held = np.rint((margins + errors) * 2.0**scale).astype(np.int64)
    return Contest(0, "scores", zero, zero + 1, margins), held, scale


def sums_of(contest: Contest, held: np.ndarray, count: int) -> MarginSums:
    units = contest.units[:count].astype(np.int64)
    held = held[:count]
    return MarginSums(int(held.sum()), int((held * held).sum()), int((held * units).sum()))


@needs_compiler
@given(case=contests_with_scores(), met=st.integers(1, SAMPLES - 1))
@settings(max_examples=150, deadline=None)
def test_no_errors_of_the_other_samples_bring_the_tails_below_the_bound(
    case: tuple[Contest, np.ndarray, int], met: int
) -> None:
    contest, held, scale = case
    spread = least_spread(contest, contest.sums_of_first(met), sums_of(contest, held, met), scale, met)
    bound = least_tail_sums(contest.ascending, [spread])
    assert bound[0] <= tail_sums(contest.ascending, [margin_errors(contest, sums_of(contest, held, SAMPLES), scale)])[0]
    kernel = load_kernel()
    assert kernel is not None
    assert native_least_tail_sums(kernel, contest.ascending, [spread, spread]) == bound * 2


def test_a_bound_is_worth_something() -> None:
    random = np.random.default_rng(0)
    zero = np.zeros(SAMPLES, dtype=np.int32)
    contest = Contest(0, "scores", zero, zero + 1, np.abs(random.normal(0, 1, SAMPLES)))
    held = np.rint((contest.margins + random.normal(0, 0.5, SAMPLES)) * 2.0**8).astype(np.int64)
    (final,) = tail_sums(contest.ascending, [margin_errors(contest, sums_of(contest, held, SAMPLES), 8)])
    shares = []
    for met in (15, 30, 60, 110):
        spread = least_spread(contest, contest.sums_of_first(met), sums_of(contest, held, met), 8, met)
        shares.append(least_tail_sums(contest.ascending, [spread])[0] / final)
    assert shares == sorted(shares)
    assert shares[1] > 0.03
    assert shares[2] > 0.25
    assert shares[3] > 0.6


def test_the_last_look_is_at_the_end() -> None:
    assert [stages(blocks) for blocks in (1, 2, 3, 19)] == [[1], [1, 2], [1, 2, 3], [3, 5, 10, 19]]


class Unraced(ShiftrySpace):
    """The same space, in which everything is measured to the end."""

    def evaluate_against(self, batch: list[Assignment], hurdle: Hurdle) -> list[Measurement]:  # type: ignore[override]
        return self.evaluate(batch)


@pytest.fixture(autouse=True)
def always() -> object:
    with mock.patch.object(measuring, "WORTH_RACING", 0):
        yield


def spaces(
    seed: int, drop: float, flash_limit_bytes: int | None = None, score: ClassScore = ClassScore.ACCURACY
) -> tuple[ShiftrySpace, Unraced]:
    options = ShiftryOptions(accuracy_drop=drop, flash_limit_bytes=flash_limit_bytes)
    task = replace(small_network(seed), score=score)
    return ShiftrySpace(task, options), Unraced(task, options)


@needs_compiler
def test_who_is_not_worth_stopping_says_so_and_who_is_does_not() -> None:
    space, _ = spaces(0, 2.0)
    first = space.lower([{decision.name: decision.options[0] for decision in space.decisions}])
    own = space.evaluator.simulator.own_work(first)
    assert space.races
    for worth, races in ((math.ceil(own), True), (10 * math.ceil(own), False)):
        with mock.patch.object(measuring, "WORTH_RACING", worth):
            assert spaces(0, 2.0)[0].races == races


def study_of(space: ShiftrySpace, trials: int, seed: int = 0) -> Study:
    study = Study(space, "local", seed, procedure_first=True)
    study.run(InProcessExecutor(space), Budget(trials=trials))
    return study


@needs_compiler
@pytest.mark.parametrize(
    ("seed", "drop", "limit", "score"),
    [
        (0, 2.0, None, ClassScore.ACCURACY),
        (1, 10.0, None, ClassScore.F1),
        (2, 5.0, None, ClassScore.BALANCED),
        (0, 2.0, 200, ClassScore.ACCURACY),
    ],
)
def test_a_race_finds_what_is_found_without_one(seed: int, drop: float, limit: int | None, score: ClassScore) -> None:
    raced, whole = (study_of(space, 600, seed) for space in spaces(seed, drop, limit, score))
    censored = [trial for trial in raced.trials() if trial.measurement.censored]
    assert len(censored) > 20
    firsts = list({trial.assignment_key: trial for trial in map(Keyed, raced.trials())})
    assert firsts == [Keyed(trial).assignment_key for trial in whole.trials()][: len(firsts)]
    known = {Keyed(trial).assignment_key: trial for trial in whole.trials()}
    for trial in censored:
        assert not trial.metrics
        assert raced.front.ranking.rank(trial.measurement)[0] == math.inf
        true = known.get(Keyed(trial).assignment_key)
        if true is not None:
            assert trial.measurement.metrics["expected_flips"] <= true.metrics["expected_flips"]
            for name in {"accuracy_percent", score.metric}:
                assert trial.measurement.metrics[name] >= true.metrics[name]
            assert trial.measurement.metrics["disagreements"] <= true.metrics["disagreements"]
            assert trial.measurement.metrics["memory_bytes"] == true.metrics["memory_bytes"]
    again = Study(spaces(seed, drop, limit, score)[1], "local", seed, procedure_first=True)
    again.run(InProcessExecutor(again.space), Budget(trials=len(firsts)))
    assert [(t.assignment, t.metrics) for t in raced.front.trials] == [
        (t.assignment, t.metrics) for t in again.front.trials
    ]
    assert raced.front.best is not None
    assert again.front.best is not None
    assert raced.front.best.metrics == again.front.best.metrics
    assert not raced.front.best.measurement.censored


class Keyed:
    """A trial, and what its candidate is known by."""

    def __init__(self, trial: object) -> None:
        self.trial = trial
        self.assignment_key = tuple(sorted(trial.assignment.items()))  # type: ignore[attr-defined]


def facts(study: Study) -> list[tuple[object, ...]]:
    return [(t.number, dict(t.assignment), t.measurement) for t in study.trials()]


@needs_compiler
def test_decisions_are_the_same_on_any_number_of_workers_and_after_any_interruption(tmp_path: Path) -> None:
    space = spaces(1, 10.0)[0]
    whole = study_of(space, 400, 1)
    assert any(trial.measurement.censored for trial in whole.trials())
    store = Store(str(tmp_path / "studies.db"))
    study = Study.create(store, "parts", space, "local", 1, procedure_first=True)
    for trials in (37, 150, 11, 202):
        study.run(InProcessExecutor(space), Budget(trials=trials))
        study = Study.resume(store, "parts", space, procedure_first=True)
    assert facts(study) == facts(whole)
    executor = PoolExecutor(space, 2)
    try:
        shared = Study(space, "local", 1, procedure_first=True)
        shared.run(executor, Budget(trials=400))
    finally:
        executor.close()
    # workers are processes of their own, in which so small a program is not worth a race: what is proposed is the same all the same
    firsts = list(dict.fromkeys(Keyed(trial).assignment_key for trial in whole.trials()))
    assert [Keyed(trial).assignment_key for trial in shared.trials()][: len(firsts)] == firsts
