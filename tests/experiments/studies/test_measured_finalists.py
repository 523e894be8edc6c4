"""Which of the finalists is taken where a device tells them apart in another order than predictions do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.notebook.tuned_study import TunedStudy
from kilotune.experiments.studies.command_time import CommandTime, never
from kilotune.experiments.studies.measured_finalists import (
    LEAST_DISTANCE,
    MOST_BUILT,
    MOST_CYCLES,
    MOST_FINALISTS,
    MeasuredFinalists,
    kept_finalist,
    measured_finalists,
)
from kilotune.experiments.studies.placing_finalists import exported_trial
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.workplace import Workplace
from kilotune.search.budget import Budget
from kilotune.search.result import Result
from kilotune.search.space import Assignment, Measurement, Objective, Option, Trial
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

SIDE = 4


@dataclass(frozen=True)
class Timed(FlatProblem):
    """Three decisions of SIDE options, 10 and on; predicted cycles are their sum, in thousands."""

    unit: float = 1000.0
    objectives: tuple[Objective, ...] = (Objective("cycles"),)

    def evaluate(self, batch: Any) -> list[Measurement]:
        sums = (self.unit * sum(int(option) for option in one.values()) for one in batch)
        return [Measurement({"cycles": cycles, "loss": cycles}) for cycles in sums]


@dataclass
class OnADevice:
    """A problem whose device takes what `cycles` says by candidate, else ten times the prediction."""

    space: Timed
    cycles: Mapping[tuple[Option, ...], float]
    too_large: tuple[tuple[Option, ...], ...] = ()
    device: object = "board"
    ran: list[Assignment] = field(default_factory=list)

    def check_on_device(self, trial: Trial, levels: tuple[str, ...] = ()) -> Any:
        self.ran.append(trial.assignment)
        options = tuple(trial.assignment.values())
        cycles = self.cycles.get(options, 10.0 * trial.metrics["cycles"])
        return SimpleNamespace(measured=SimpleNamespace(cycles=cycles, fits=options not in self.too_large))

    def float_on_device(self) -> None:
        return None


@dataclass
class BuiltInWays(OnADevice):
    """Also one that leaves open how programs are built: where several ways are tried they take what `built_cycles` says, else as much."""

    chooses_build: bool = True
    built_cycles: Mapping[tuple[Option, ...], float] = field(default_factory=dict)

    def check_on_device(self, trial: Trial, levels: tuple[str, ...] = ()) -> Any:
        found = super().check_on_device(trial, levels)
        if levels:
            found.measured.cycles = self.built_cycles.get(options_of(trial.assignment), found.measured.cycles)
        return found

    def built(self, level: str, shape: str) -> BuiltInWays:
        raise AssertionError("finalists are compared, and none is exported")


def searched(problem: OnADevice, folder: Path | None) -> tuple[Study, Result, MeasuredFinalists]:
    """Fifty candidates at random, and the finalists; the paper's answer is the last by prediction. Without a folder nothing is stored."""
    if folder is None:
        study = Study(problem.space, "random", 0)
    else:
        store = open_store(f"sqlite:///{folder / 'studies.db'}")
        study = Study.create(store, "timed", problem.space, "random", 0, request={})
    result = study.run(InProcessExecutor(problem.space), Budget(trials=50))
    assert result.best is not None
    assert not result.proved
    answer = sorted(study.trials(), key=lambda trial: trial.metrics["cycles"])[-1]
    return study, result, measured_finalists(problem, study, result, answer, never)  # type: ignore[arg-type]


def options_of(assignment: Assignment) -> tuple[Option, ...]:
    return tuple(assignment.values())


def cycles_of(finalists: MeasuredFinalists) -> float | None:
    """What the chosen one took on the device, where it was run."""
    run = finalists.check
    return None if run is None or run.measured is None else run.measured.cycles


def test_finalists_are_the_best_the_papers_answer_and_fast_ones_that_differ(tmp_path: Path) -> None:
    problem = OnADevice(Timed(3, SIDE, 0), {})
    study, result, finalists = searched(problem, tmp_path)
    assert result.best is not None
    assert problem.ran[0] == result.best.assignment
    slowest = max(study.trials(), key=lambda trial: (trial.metrics["cycles"], trial.number))
    assert problem.space.evaluate([problem.ran[1]])[0].metrics["cycles"] == slowest.metrics["cycles"]
    others = [problem.ran[0], *problem.ran[2:]]
    for number, one in enumerate(others):
        assert all(sum(one[name] != other[name] for name in one) >= LEAST_DISTANCE for other in others[:number])
    assert len(problem.ran) == MOST_FINALISTS
    assert (finalists.result, finalists.said) == (result, None)  # predictions had their order right
    assert cycles_of(finalists) == 10.0 * result.best.metrics["cycles"]


@pytest.mark.parametrize("stored", [True, False])
def test_what_is_fastest_on_the_device_is_kept_and_found_again(tmp_path: Path, stored: bool) -> None:
    first = OnADevice(Timed(3, SIDE, 0), {})
    searched(first, tmp_path / "first")
    best, paper, third, fourth = (options_of(one) for one in first.ran[:4])
    problem = OnADevice(Timed(3, SIDE, 0), {best: 50.0, paper: 40.0, third: 30.0, fourth: 7.0}, too_large=(fourth,))
    study, result, finalists = searched(problem, tmp_path / "second" if stored else None)
    chosen = finalists.result.best
    assert chosen is not None
    assert options_of(chosen.assignment) == third
    assert finalists.said is not None
    assert f"trial {chosen.number} is the fastest, with 30 cycles" in finalists.said
    assert finalists.said.endswith("takes 50.")
    assert cycles_of(finalists) == 30.0  # told where no time is left for a run at other levels
    assert kept_finalist(problem, study, study.result()).best == chosen  # type: ignore[arg-type]
    assert exported_trial(problem, study, None) == chosen  # type: ignore[arg-type]
    row = StudyRow("timed", "timed", "", "random", 0, "50trials")
    assert TunedStudy(problem, study, Workplace(jobs=1), row).best == chosen  # type: ignore[arg-type]
    assert study.result().best == result.best


def test_of_the_fastest_finalists_that_one_is_taken_which_is_fastest_in_its_best_build(tmp_path: Path) -> None:
    first = OnADevice(Timed(3, SIDE, 0), {})
    searched(first, tmp_path / "first")
    one, two, three, four = (options_of(one) for one in first.ran[:4])
    measured = {one: 10.0, two: 11.0, three: 12.0, four: 13.0}
    problem = BuiltInWays(Timed(3, SIDE, 0), measured, built_cycles={one: 9.0, three: 8.0, four: 1.0})
    _, _, finalists = searched(problem, tmp_path / "second")
    assert finalists.result.best is not None
    assert options_of(finalists.result.best.assignment) == three
    assert cycles_of(finalists) == 8.0
    assert [options_of(ran) for ran in problem.ran[-MOST_BUILT:]] == [
        one,
        two,
        three,
    ]  # the fourth is too slow to be tried
    problem = BuiltInWays(Timed(3, SIDE, 0), measured, built_cycles={three: 8.0}, chooses_build=False)
    assert cycles_of(searched(problem, tmp_path / "third")[2]) == 10.0


def test_a_finalist_is_forgotten_when_the_search_goes_on_to_something_better(tmp_path: Path) -> None:
    first = OnADevice(Timed(3, SIDE, 0), {})
    searched(first, tmp_path / "first")
    best, paper, third = (options_of(one) for one in first.ran[:3])
    problem = OnADevice(Timed(3, SIDE, 0), {best: 50.0, paper: 40.0, third: 30.0})
    study, result, finalists = searched(problem, tmp_path / "second")
    assert finalists.result.best is not None
    cut = measured_finalists(problem, study, result, None, lambda: True)  # type: ignore[arg-type]
    assert cut.result.best == finalists.result.best, "the time is up, and nothing has changed since"
    better = replace(finalists.result.best, number=1000)
    gone_on = replace(result, best=better)
    assert kept_finalist(problem, study, gone_on).best == better  # type: ignore[arg-type]
    cut = measured_finalists(problem, study, gone_on, None, lambda: True)  # type: ignore[arg-type]
    assert cut.result.best == better, "it is what export writes, too"
    proved = replace(result, proved=True)
    assert kept_finalist(problem, study, proved) == proved  # type: ignore[arg-type]


def test_finalists_end_early_enough_for_the_test_data() -> None:
    time = CommandTime(Budget(seconds=15.0), begun_s=monotonic() - 14.0)
    assert time.finalists_over(replay_s=0.0)
    assert not time.finalists_over(replay_s=2.0)
    assert not CommandTime(Budget(trials=50), begun_s=monotonic() - 14.0).finalists_over(replay_s=0.0)


def test_few_or_no_finalists_are_run_where_simulating_takes_long(tmp_path: Path) -> None:
    long = OnADevice(Timed(3, SIDE, 0, unit=MOST_CYCLES / 80), {})
    searched(long, tmp_path / "long")
    assert 0 < len(long.ran) < MOST_FINALISTS
    endless = OnADevice(Timed(3, SIDE, 0, unit=MOST_CYCLES), {})
    _, result, finalists = searched(endless, tmp_path / "endless")
    assert endless.ran == []
    assert finalists == MeasuredFinalists(result)


def test_without_a_device_or_time_as_the_objective_nothing_is_run(tmp_path: Path) -> None:
    for number, problem in enumerate(
        (
            OnADevice(Timed(3, SIDE, 0), {}, device=None),
            OnADevice(Timed(3, SIDE, 0, objectives=(Objective("loss"),)), {}),
        )
    ):
        _, result, finalists = searched(problem, tmp_path / str(number))
        assert problem.ran == []
        assert finalists == MeasuredFinalists(result)
