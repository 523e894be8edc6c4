"""Candidates with too many labels that are others than expected stop, and nothing else about a search changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point import native
from kilotune.evaluators.fixed_point.class_scores import ClassScore
from kilotune.evaluators.fixed_point.label_limits import LimitsOfHurdles
from kilotune.evaluators.fixed_point.race import least_expected_flips
from kilotune.evaluators.fixed_point.sample_blocks import LANES, MANY_LANES
from kilotune.search.budget import Budget
from kilotune.search.front import Front, Ranking
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Constraint, Direction, Measurement, Objective, Trial
from kilotune.search.strategies.moves import Moves
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.emit.compiled import needs_compiler
from tests.spaces.small_network import of_many_samples, small_network

SAMPLES = 40
COUNTS = np.arange(SAMPLES + 1)
FLIPS = least_expected_flips([0] * len(COUNTS), COUNTS)
ACCURACY = 100.0 * ((SAMPLES - COUNTS) / SAMPLES)
LOOKED_AFTER = 128


@st.composite
def hurdles(draw: st.DrawFn) -> Hurdle:
    """Of two costs and expected flips in any order, with limits on some metrics."""
    objectives = draw(
        st.permutations([Objective("bytes"), Objective("expected_flips"), Objective("demoted", Direction.MAXIMIZE)])
    )
    limits = [
        Constraint("bytes", draw(st.sampled_from([1.0, 3.0]))),
        Constraint("accuracy_percent", draw(st.sampled_from([101.0, 90.0, 80.0])), at_least=True),
        Constraint("expected_flips", draw(st.sampled_from([2.0, 5.0]))),
    ]
    constraints = draw(st.lists(st.sampled_from(limits), unique=True))
    ranking = Ranking(tuple(objectives[: draw(st.integers(1, 3))]), tuple(constraints))
    front = Front(ranking)
    trials = st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from(FLIPS.tolist()), st.integers(0, SAMPLES))
    for number, (size, demoted, flips, wrong) in enumerate(draw(st.lists(trials, max_size=5))):
        metrics = {"bytes": size, "demoted": demoted, "expected_flips": flips, "accuracy_percent": ACCURACY[wrong]}
        front.add(Trial(number, {}, Measurement(metrics)))
    wanted = draw(st.sampled_from([(), (0.0, 1.0, 2.0, 3.0)]))[: 1 + len(ranking.objectives)]
    return Hurdle.of(wanted, front)


@given(hurdle=hurdles())
@settings(max_examples=300, deadline=None)
def test_who_has_more_other_labels_than_allowed_is_out_and_who_has_not_is_not(hurdle: Hurdle) -> None:
    costs = list(itertools.product(range(5), range(3)))
    exact = {"bytes": np.array([b for b, _ in costs]), "demoted": np.array([d for _, d in costs])}
    most = LimitsOfHurdles(FLIPS, ACCURACY).most(hurdle, len(costs), exact)
    for (size, demoted), (others, wrong) in zip(costs, most.tolist(), strict=True):
        known = {"bytes": size, "demoted": demoted, "expected_flips": 0.0, "accuracy_percent": 100.0}
        for count in COUNTS.tolist():
            flipped = hurdle.is_out(known | {"expected_flips": FLIPS[count]})
            missed = hurdle.is_out(known | {"accuracy_percent": ACCURACY[count]})
            assert flipped or count <= others
            assert missed or count <= wrong
            if hurdle.rank[0] == 0.0 and hurdle.front and len(hurdle.ranking.objectives) == 3:
                at_once = hurdle.is_out(known)
                assert at_once == (others < 0)
                assert at_once or missed == (count > wrong)
    assert hurdle.rank[0] < math.inf or (most >= 0).all()


@given(several=st.lists(hurdles(), min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_hurdle_is_taken_for_another_one(several: list[Hurdle]) -> None:
    kept, exact = LimitsOfHurdles(FLIPS, ACCURACY), {"bytes": np.arange(5), "demoted": np.zeros(5, dtype=np.int64)}
    for hurdle in several * 2:
        fresh = LimitsOfHurdles(FLIPS, ACCURACY).most(hurdle, 5, exact)
        np.testing.assert_array_equal(kept.most(hurdle, 5, exact), fresh)


def test_a_metric_that_is_not_known_beforehand_limits_nothing() -> None:
    ranking = Ranking((Objective("disagreements"), Objective("expected_flips")))
    front = Front(ranking)
    front.add(Trial(0, {}, Measurement({"disagreements": 3, "expected_flips": 0.0})))
    most = LimitsOfHurdles(FLIPS, ACCURACY).most(Hurdle.of((), front), 2, {"bytes": np.zeros(2)})
    assert (most == SAMPLES).all()


@contextmanager
def counting(lanes: int = MANY_LANES) -> Iterator[None]:
    """Labels are counted however small the program is."""
    with ExitStack() as patches:
        for name in ("WORTH_COUNTING", "WORTH_KEEPING"):
            patches.enter_context(mock.patch.object(native, name, 0))
        patches.enter_context(mock.patch.object(native, "lanes_of_block", return_value=lanes))
        yield


def network(seed: int, score: ClassScore = ClassScore.ACCURACY) -> ShiftrySpace:
    """Of a few hundred samples, so that there is something to stop before."""
    task = of_many_samples(small_network(seed))
    assert task.targets is not None
    targets = task.targets[:550].copy()
    targets[::15] = (targets[::15] + 1) % 3  # where the float program is wrong
    targets[7::90] = np.resize([0.5, 65537.0, 1.5], len(targets[7::90]))  # where all are
    task = replace(task, features=task.features[:550], targets=targets, score=score)
    return ShiftrySpace(task, ShiftryOptions(accuracy_drop=4.0))


def hurdle_and_changes(space: ShiftrySpace) -> tuple[Hurdle, list[Assignment]]:
    home = {decision.name: decision.options[0] for decision in space.decisions}
    front = Front(Ranking.of(space))
    front.add(Trial(0, home, space.evaluate([home])[0]))
    moves = Moves(space)
    return Hurdle.of(front.best_rank, front), [moves.apply(home, dict([move])) for move in moves.of(home)]


@needs_compiler
@pytest.mark.parametrize("score", list(ClassScore))
def test_who_stops_is_out_and_all_others_measure_the_same(score: ClassScore) -> None:
    with counting():
        hurdle, changes = hurdle_and_changes(network(3, score))
        whole = network(3, score).evaluate(changes)
        space = network(3, score)
        assert space.races
        assert not space.races_who_is_asked_again
        found = space.evaluate_against(changes, hurdle)
        labels = space.evaluator.simulator.run(space.lower(changes))[:, :, 0]
    float_labels, targets = space.evaluator.float_outputs[:, 0], space.task.targets
    stopped = 0
    for one, true, of_one in zip(found, whole, labels, strict=True):
        if not one.censored:
            assert one == true
            continue
        stopped += 1
        assert set(one.metrics) == set(true.metrics)
        assert hurdle.is_out(dict(one.metrics))
        assert hurdle.is_out(dict(true.metrics))
        assert one.failure is not None
        met = int(one.failure.split()[2])
        assert met % LOOKED_AFTER == 0
        assert targets is not None
        flipped, wrong = of_one[:met] != float_labels[:met], of_one[:met] != targets[:met]
        assert one.metrics["disagreements"] == flipped.sum()
        assert one.metrics["disagreements_where_right"] <= (flipped & (float_labels[:met] == targets[:met])).sum()
        assert one.metrics["accuracy_percent"] == pytest.approx(100 * (1 - wrong.sum() / len(targets)))
        for name, value in one.metrics.items():
            if name in {"accuracy_percent", score.metric}:
                assert value >= true.metrics[name]
            elif name in {"expected_flips", "disagreements", "disagreements_where_right"}:
                assert value <= true.metrics[name]
            else:
                assert value == true.metrics[name]
    assert 3 < stopped < len(changes) - 5


def parts(changes: Sequence[Assignment], size: int) -> list[Sequence[Assignment]]:
    return [changes[start : start + size] for start in range(0, len(changes), size)]


@needs_compiler
def test_who_stops_where_hangs_on_the_candidate_and_the_hurdle_alone() -> None:
    """Neither on the others of a batch, nor on what has run before, nor on the size of blocks."""
    with counting():
        hurdle, changes = hurdle_and_changes(network(3))
        found = network(3).evaluate_against(changes, hurdle)
        space = network(3)
        for size in (1, 5):
            again = [one for part in parts(changes, size) for one in space.evaluate_against(part, hurdle)]
            assert again == found
        known = network(3)
        known.evaluate(changes)
        assert known.evaluate_against(changes, hurdle) == found
    with counting(LANES):
        assert network(3).evaluate_against(changes[::-1], hurdle) == found[::-1]
        space = network(3)
        space.evaluate_against(changes, hurdle)
        assert space.evaluate(changes) == network(3).evaluate(changes)


@needs_compiler
def test_a_search_finds_what_it_finds_without() -> None:
    def study_of(space: ShiftrySpace, trials: int) -> Study:
        study = Study(space, "local", 2, procedure_first=True)
        study.run(InProcessExecutor(space), Budget(trials=trials))
        return study

    with counting():
        raced = study_of(network(3), 400)
    censored = sum(trial.measurement.censored for trial in raced.trials())
    firsts = list(dict.fromkeys(tuple(sorted(trial.assignment.items())) for trial in raced.trials()))
    whole = study_of(network(3), len(firsts))
    assert censored > 20
    assert firsts == [tuple(sorted(trial.assignment.items())) for trial in whole.trials()]
    assert [(t.assignment, t.metrics) for t in raced.front.trials] == [
        (t.assignment, t.metrics) for t in whole.front.trials
    ]


@needs_compiler
def test_nobody_stops_where_a_strategy_asks_again() -> None:
    with counting():
        study = Study(network(3), "refine", 2, procedure_first=True)
        study.run(InProcessExecutor(study.space), Budget(trials=300))
        assert not any(trial.measurement.censored for trial in study.trials())
        hurdle, changes = hurdle_and_changes(network(3))
        whole = network(3).evaluate_against(changes, replace(hurdle, is_last=False))
        assert not any(one.censored for one in whole)


@needs_compiler
def test_programs_that_keep_nothing_are_not_counted() -> None:
    space = network(3)
    batch = space.lower([{decision.name: decision.options[0] for decision in space.decisions}])
    assert not space.races
    assert not space.evaluator.simulator.counts_labels(batch)
    with mock.patch.object(native, "WORTH_COUNTING", 0), mock.patch.object(native, "WORTH_KEEPING", math.inf):
        assert not network(3).races
