"""Races on a space with known answers: what a hurdle lets through, and that stopping losers changes nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.pool import PoolExecutor
from kilotune.search.budget import Budget
from kilotune.search.encoding import encoding_of
from kilotune.search.front import Front, Rank, Ranking
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Constraint, Measurement, Metrics, Objective, Trial
from kilotune.search.store import Store
from kilotune.search.strategy import UNKNOWN_BOUND, SteppedStrategy, Steps
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

OBJECTIVES = (Objective("loss"), Objective("cost"))
CONSTRAINTS = (Constraint("weight", 32.0),)


class RacingProblem(FlatProblem):
    """Weight and cost of a candidate are known at once; of its loss a part at first, which all that is left can only add to."""

    def evaluate_against(self, batch: Sequence[Assignment], hurdle: Hurdle) -> list[Measurement]:
        return [
            Measurement(self._at_best(whole), "Stopped.", True) if self.censors(whole, hurdle) else whole
            for whole in self.evaluate(batch)
        ]

    def censors(self, whole: Measurement, hurdle: Hurdle) -> bool:
        """Whether a candidate that would measure this is stopped."""
        return hurdle.is_out(self._at_best(whole))

    @staticmethod
    def _at_best(whole: Measurement) -> Metrics:
        return {**whole.metrics, "loss": math.floor(whole.metrics["loss"] - 0.25)}


def problem(kind: type[FlatProblem], seed: int) -> FlatProblem:
    return kind(6, 4, seed, pairs=5, objectives=OBJECTIVES, constraints=CONSTRAINTS)


def key_of(trial: Trial) -> tuple[object, ...]:
    return tuple(trial.assignment.values())


def facts(study: Study) -> list[tuple[object, ...]]:
    return [(trial.number, key_of(trial), trial.measurement) for trial in study.trials()]


def run(space: FlatProblem, trials: int, seed: int, strategy: str = "local") -> Study:
    study = Study(space, strategy, seed)
    study.run(InProcessExecutor(space), Budget(trials=trials))
    return study


numbers = st.integers(0, 4).map(float)


@given(
    st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=8),
    st.tuples(numbers, numbers, numbers),
    st.integers(0, 7),
)
def test_what_is_out_neither_improves_nor_enters_the_front(
    known: list[tuple[float, float, float]], at_best: tuple[float, float, float], beaten: int
) -> None:
    """Against all that it may still turn out to be."""
    ranking = Ranking(OBJECTIVES, (Constraint("weight", 2.0),))

    def metrics(values: tuple[float, float, float]) -> Metrics:
        return dict(zip(("loss", "cost", "weight"), values, strict=True))

    front = Front(ranking)
    front.update(Trial(number, {}, Measurement(metrics(values))) for number, values in enumerate(known))
    wanted = ranking.rank(Measurement(metrics(known[beaten % len(known)])))
    out = Hurdle.of(wanted, front).is_out(metrics(at_best))
    useful = []
    for more in itertools.product((0.0, 1.0, 3.0), repeat=3):
        end = Measurement(metrics(tuple(a + b for a, b in zip(at_best, more, strict=True))))  # type: ignore[arg-type]
        after = Front(ranking)
        after.update(front.trials)
        entered = ranking.rank(end)[0] == 0.0 and (
            after.add(Trial(99, {}, end)) or any(trial.number == 99 for trial in after.trials)
        )
        useful.append(entered or ranking.rank(end) < max(wanted, front.best_rank))
    assert out == (not any(useful))


def test_who_asks_for_nothing_still_has_to_beat_the_best() -> None:
    front = Front(Ranking(OBJECTIVES))
    assert not Hurdle.of((), front).is_out({"loss": 9.0, "cost": 9.0})
    front.add(Trial(0, {}, Measurement({"loss": 1.0, "cost": 1.0})))
    hurdle = Hurdle.of((), front)
    assert hurdle.is_out({"loss": 1.0, "cost": 1.0})
    assert not hurdle.is_out({"loss": 0.5, "cost": 9.0})
    assert not hurdle.is_out({"loss": 9.0, "cost": 0.5})


class Knows(InProcessExecutor):
    """Recalls every second candidate of a round from an earlier study that has censored none."""

    recalled = 0

    def recall(self, candidates: Sequence[Assignment]) -> dict[int, Measurement]:
        known = dict(list(enumerate(self._space.evaluate(candidates)))[1::2])
        self.recalled += len(known)
        return known


@pytest.mark.parametrize("strategy", ["local", "refine"])
def test_what_an_earlier_study_knows_changes_no_trial(strategy: str) -> None:
    """Some are censored in the one search and known in the other."""
    space = problem(RacingProblem, 3)
    cold = run(space, 300, 3, strategy)
    assert any(trial.measurement.censored for trial in cold.trials())
    study, executor = Study(space, strategy, 3), Knows(space)
    study.run(executor, Budget(trials=300))
    assert executor.recalled > 50
    assert facts(study) == facts(cold)


@pytest.mark.parametrize("strategy", ["local", "refine"])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_candidates_are_proposed_and_the_same_ones_are_best(strategy: str, seed: int) -> None:
    """Changes that are worth trading break a limit, by which they are stopped early."""
    raced = run(problem(RacingProblem, seed), 900, seed, strategy)
    proposed = list(dict.fromkeys(map(key_of, raced.trials())))
    whole = run(problem(FlatProblem, seed), len(proposed), seed, strategy)
    assert proposed == [key_of(trial) for trial in whole.trials()]
    assert sum(trial.measurement.censored for trial in raced.trials()) > 100
    assert [(key_of(t), t.metrics) for t in raced.front.trials] == [(key_of(t), t.metrics) for t in whole.front.trials]
    assert raced.front.best is not None
    assert whole.front.best is not None
    assert raced.front.best.metrics == whole.front.best.metrics


def test_a_censored_candidate_is_measured_to_the_end_once_the_hurdle_is_lower() -> None:
    raced = run(problem(RacingProblem, 0), 900, 0)
    trials: dict[tuple[object, ...], list[Trial]] = {}
    for trial in raced.trials():
        trials.setdefault(key_of(trial), []).append(trial)
    twice = [two for two in trials.values() if len(two) > 1]
    assert twice
    assert all([trial.measurement.censored for trial in two] == [True, False] for two in twice)
    assert raced.book.candidates == len(trials) < len(raced.book) == 900


def test_decisions_are_the_same_on_any_number_of_workers_and_after_any_interruption(tmp_path: Path) -> None:
    space = problem(RacingProblem, 0)
    whole = run(space, 900, 0)
    store = Store(str(tmp_path / "studies.db"))
    study = Study.create(store, "parts", space, "local", 0)
    for trials in [13] * 69 + [3]:
        study.run(InProcessExecutor(space), Budget(trials=trials))
        study = Study.resume(store, "parts", space)
    assert facts(study) == facts(whole)
    executor = PoolExecutor(space, 3)
    try:
        shared = Study(space, "local", 0)
        shared.run(executor, Budget(trials=900))
    finally:
        executor.close()
    assert facts(shared) == facts(whole)


class NeverRacing(RacingProblem):
    """It could stop candidates, and says that it does not."""

    races = races_who_is_asked_again = False

    def evaluate_against(self, batch: Sequence[Assignment], hurdle: Hurdle) -> list[Measurement]:
        raise AssertionError("asked to race")


class RacingOnce(RacingProblem):
    """Nobody is worth stopping who may be asked for once more."""

    races, races_who_is_asked_again = True, False

    def evaluate_against(self, batch: Sequence[Assignment], hurdle: Hurdle) -> list[Measurement]:
        assert hurdle.is_last
        return super().evaluate_against(batch, hurdle)


def test_a_space_that_says_it_does_not_race_is_not_asked_to() -> None:
    plain, never = (run(problem(kind, 1), 300, 1) for kind in (FlatProblem, NeverRacing))
    assert facts(never) == facts(plain)
    assert any(trial.measurement.censored for trial in run(problem(RacingProblem, 1), 300, 1).trials())


@pytest.mark.parametrize("strategy", ["local", "refine"])
def test_who_may_be_asked_again_is_raced_only_where_a_space_says_so(strategy: str) -> None:
    once, kind = problem(RacingOnce, 1), FlatProblem if strategy == "refine" else RacingProblem
    assert facts(run(once, 300, 1, strategy)) == facts(run(problem(kind, 1), 300, 1, strategy))


class TwoRounds:
    """First one candidate, then two more, which have to clear it."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: FlatProblem, candidates: Sequence[Assignment]) -> None:
        self._ranking, self._candidates = Ranking.of(space), candidates
        self.hurdle: Rank | None = None

    def steps(self) -> Steps:
        (first,) = yield [self._candidates[0]]
        self.hurdle = self._ranking.rank(first.measurement)
        yield [*self._candidates[1:]]
        return None


def first_then_rivals(space: RacingProblem) -> list[Assignment]:
    """Three feasible candidates, of which the third enters a front of the first, as far as its bound goes, and is out of one of the
    first two."""
    drawn: list[Assignment] = [
        {d.name: d.options[(number // 4**i) % 4] for i, d in enumerate(space.decisions)}
        for number in range(0, 4096, 37)
    ]
    trials = [
        Trial(i, one, measured) for i, (one, measured) in enumerate(zip(drawn, space.evaluate(drawn), strict=True))
    ]
    ranking = Ranking.of(space)
    feasible = [trial for trial in trials if ranking.violation(trial.measurement) == 0.0]
    for three in itertools.permutations(feasible, 3):
        hurdles = []
        for known in (three[:1], three[:2]):
            front = Front(ranking)
            front.update(known)
            hurdles.append(Hurdle.of(ranking.rank(three[0].measurement), front))
        whole = [trial.measurement for trial in three]
        if not space.censors(whole[1], hurdles[0]) and space.censors(whole[2], hurdles[1]) > space.censors(
            whole[2], hurdles[0]
        ):
            return [trial.assignment for trial in three]
    raise AssertionError("no such three")


def test_an_interrupted_round_goes_on_with_the_hurdle_that_it_began_with() -> None:
    """Not with that of all trials that are known by then: its second candidate may already be among them."""
    space = problem(RacingProblem, 0)
    candidates = first_then_rivals(space)

    def study(*budgets: int) -> Study:
        made = Study(space, factory=lambda _space, _seed: SteppedStrategy(TwoRounds(space, candidates)))
        for trials in budgets:
            made.run(InProcessExecutor(space), Budget(trials=trials))
        return made

    assert facts(study(1, 1, 1)) == facts(study(3))
    assert not any(trial.measurement.censored for trial in study(1, 1, 1).trials())


@pytest.mark.parametrize("strategy", ["random", "tpe", "exhaustive"])
def test_strategies_that_learn_from_bad_trials_too_see_all_of_them_measured(strategy: str) -> None:
    study = run(problem(RacingProblem, 1), 60, 0, strategy)
    assert not any(trial.measurement.censored for trial in study.trials())


def test_a_censored_trial_is_never_the_best_and_shows_no_metrics() -> None:
    measurement = Measurement({"loss": -9.0, "cost": -9.0, "weight": 1.0}, "Stopped.", True)
    front = Front(Ranking(OBJECTIVES, CONSTRAINTS))
    front.add(Trial(0, {}, Measurement({"loss": 1.0, "cost": 1.0, "weight": 99.0})))
    assert not front.add(Trial(1, {}, measurement))
    assert front.best is not None
    assert front.best.number == 0
    assert front.trials == ()
    assert Trial(1, {}, measurement).metrics == {}


def test_the_store_keeps_both_trials_of_a_candidate(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "studies.db"))
    space = problem(RacingProblem, 0)
    study = Study.create(store, "both", space, "local", 0)
    study.run(InProcessExecutor(space), Budget(trials=900))
    again = Study.resume(store, "both", replace(space))
    assert facts(again) == facts(study)
    encode = encoding_of(space).key
    hurdle = Hurdle(Ranking.of(space), (-math.inf,), ((-99.0, -99.0),))
    for trial in again.trials():
        if trial.measurement.censored:
            assert again.book.answer(encode(trial.assignment), hurdle) == trial.number
