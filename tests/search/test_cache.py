"""A measurement that an earlier study made is used again, and never a wrong one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kilotune.evaluators.executors.cache import WORTH_KEEPING_S, CachingExecutor, EvaluationCache
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.executor import Finished
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Measurement
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

SLOW = FlatProblem(10, 4, 1, pairs=6, sleep_s=0.002)


class Counting(InProcessExecutor):
    """Counts what is really measured. `work_s`, if given: what it says that a candidate took."""

    def __init__(self, space: FlatProblem, work_s: float | None) -> None:
        super().__init__(space)
        self.measured, self.work_s = 0, work_s

    def submit(self, ticket: int, chunk: Sequence[Assignment], hurdle: Hurdle | None = None) -> None:
        self.measured += len(chunk)
        super().submit(ticket, chunk)

    def results(self, timeout_s: float) -> list[Finished]:
        finished = super().results(timeout_s)
        if self.work_s is None:
            return finished
        return [replace(one, work_s=self.work_s * len(one.measurements)) for one in finished]


def search(
    space: FlatProblem, cache: Path, strategy: str = "local", trials: int = 150, work_s: float | None = None
) -> tuple[Study, int]:
    """The study, and how many candidates were measured for it."""
    inner = Counting(space, work_s)
    executor = CachingExecutor(inner, space, EvaluationCache(cache))
    study = Study(space, strategy, 2)
    study.run(executor, Budget(trials=trials))
    executor.close()
    return study, inner.measured


def test_a_second_study_measures_only_what_is_new(tmp_path: Path) -> None:
    cache = tmp_path / "evaluations.db"
    first, measured = search(SLOW, cache)
    assert measured == 150
    again, measured_again = search(SLOW, cache)
    assert measured_again == 0
    assert again.trials() == first.trials()
    longer, measured_more = search(SLOW, cache, trials=180)
    assert measured_more == 30
    assert longer.trials()[:150] == first.trials()


@pytest.mark.parametrize("trials", [3, 40, 57])
def test_a_budget_in_trials_ends_at_the_same_ones_whatever_is_known(tmp_path: Path, trials: int) -> None:
    """Of the round in which it ends an earlier study knows the last candidates, and none of the others."""
    cold, _ = search(SLOW, tmp_path / "empty.db", "random", trials)
    assert [trial.number for trial in cold.trials()] == list(range(trials))
    longer, _ = search(SLOW, tmp_path / "longer.db", "random", 400)
    cache = EvaluationCache(tmp_path / "late.db")
    executor = CachingExecutor(Counting(SLOW, None), SLOW, cache)
    executor.submit(0, [trial.assignment for trial in longer.trials()[trials - 2 :]])
    executor.results(1.0)
    executor.close()
    warm, measured = search(SLOW, tmp_path / "late.db", "random", trials)
    assert measured == trials - 2
    assert warm.trials() == cold.trials()


def test_another_problem_shares_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "evaluations.db"
    search(SLOW, cache)
    other = FlatProblem(10, 4, 2, pairs=6, sleep_s=0.002)
    study, measured = search(other, cache)
    assert measured == 150
    plain = Study(other, "local", 2)
    plain.run(InProcessExecutor(other), Budget(trials=150))
    assert study.trials() == plain.trials()


def test_what_is_measured_at_once_is_not_kept(tmp_path: Path) -> None:
    cache = tmp_path / "evaluations.db"
    fast = FlatProblem(10, 4, 1, pairs=6)
    search(fast, cache, "random", 200, work_s=0.9 * WORTH_KEEPING_S)
    assert len(EvaluationCache(cache)) == 0
    search(fast, cache, "random", 200, work_s=1.1 * WORTH_KEEPING_S)
    assert len(EvaluationCache(cache)) == 200


@dataclass(frozen=True)
class Unlucky(FlatProblem):
    """Fails wherever d0 is 11."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        time.sleep(0.002 * len(batch))
        measured = super().evaluate(batch)
        return [
            Measurement(failure="It broke.") if candidate["d0"] == 11 else m
            for candidate, m in zip(batch, measured, strict=True)
        ]


def test_failures_are_tried_again(tmp_path: Path) -> None:
    cache = tmp_path / "evaluations.db"
    space = Unlucky(2, 3, 1)
    first, _ = search(space, cache, "random", 9)
    again, measured = search(space, cache, "random", 9)
    assert measured == 3
    assert again.trials() == first.trials()


@pytest.mark.parametrize("damage", ["text", "folder"])
def test_a_cache_that_cannot_be_used_costs_nothing_but_time(tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "evaluations.db"
    if damage == "text":
        cache.write_text("this is no database, and it is long enough to be read as a header of one" * 20)
    else:
        cache.mkdir()
    study, measured = search(SLOW, cache, trials=40)
    assert measured == 40
    assert len(study.trials()) == 40


def test_clearing_forgets(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.db"
    search(SLOW, path, trials=20)
    cache = EvaluationCache(path)
    assert len(cache) == 20
    cache.clear()
    assert len(EvaluationCache(path)) == 0


def test_other_sources_share_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version stays the same while somebody works on the code."""
    from kilotune.evaluators.executors import cache as module

    folder = tmp_path / "package" / "inner"
    folder.mkdir(parents=True)
    (folder / "evaluate.c").write_text("int ticks(void) { return 1; }\n")
    monkeypatch.setattr(module, "_packages_of", lambda space: [tmp_path / "package"])
    assert search(SLOW, tmp_path / "evaluations.db", trials=5)[1] == 5
    assert search(SLOW, tmp_path / "evaluations.db", trials=5)[1] == 0
    (folder / "evaluate.c").write_text("int ticks(void) { return 2; }\n")
    assert search(SLOW, tmp_path / "evaluations.db", trials=5)[1] == 5


def test_clearing_leaves_a_file_alone_that_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "evaluations.db").write_text(
        "notes of years, and they are long enough to be read as a header of one" * 20
    )
    with pytest.raises(ValueError, match="is no cache of measurements"):
        EvaluationCache(tmp_path / "evaluations.db").clear()
    assert (tmp_path / "evaluations.db").read_text().startswith("notes of years")


def test_clearing_where_there_can_be_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    EvaluationCache(tmp_path / "file" / "evaluations.db").clear()
