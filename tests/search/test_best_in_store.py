"""The store knows how many trials a study has and which is the best, so that a list of studies reads none of them."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.store import Store
from kilotune.search.stored_rows import BestTrial, StudyRow, TrialRow
from kilotune.search.study import Study
from tests.search.older_stores import make_older
from tests.search.problems import FlatProblem

SPACE = FlatProblem(6, 3, 1, pairs=3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(str(tmp_path / "studies.db"))
    found.create(StudyRow("s", "flat", "f", "local", 1))
    return found


def rows(*numbers: int) -> list[TrialRow]:
    return [TrialRow(n, f"[{n}]", {"loss": float(n)}, None, 0.5) for n in numbers]


def test_a_search_leaves_its_best(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "studies.db"))
    study = Study.create(store, "found", SPACE, "local", 3)
    for _ in range(2):
        study.run(InProcessExecutor(SPACE), Budget(trials=40))
        best = study.front.best
        assert best is not None
        row = store.study("found")
        assert (row.trials, row.best) == (len(study.book), BestTrial(study.front.best_rank, best.number))
        study = Study.resume(store, "found", SPACE)


def test_of_two_processes_that_one_is_kept_which_has_the_better_one(store: Store) -> None:
    """Each knows its own trials, and the other's only where it has read them."""
    store.append("s", rows(0, 1), BestTrial((0.0, 5.0), 1), 2)
    store.append("s", rows(2, 3), BestTrial((0.0, 7.0), 2), 2)
    assert (store.study("s").trials, store.study("s").best) == (4, BestTrial((0.0, 5.0), 1))
    store.append("s", rows(5), BestTrial((0.0, 5.0), 0), 3)  # an equal one with a smaller number
    store.append("s", [], status="interrupted")
    assert (store.study("s").trials, store.study("s").best) == (5, BestTrial((0.0, 5.0), 0))


def test_trials_that_are_there_already_do_not_count(store: Store) -> None:
    store.append("s", rows(0, 1, 2), BestTrial((0.0, 1.0), 0), 3)
    store.append("s", rows(1, 2, 3), BestTrial((0.0, 1.0), 0), 4)
    assert store.study("s").trials == len(list(store.trials("s"))) == 4


def test_the_best_is_unknown_until_somebody_knows_all_trials(store: Store) -> None:
    store.append("s", rows(0, 1))
    assert store.study("s").best is None
    store.append("s", rows(2), BestTrial((0.0, 1.0), 2), 1)
    assert store.study("s").best is None
    store.append(
        "s", rows(2, 3), BestTrial((0.0, 1.0), 2), 4
    )  # another process wrote a number first: which of its trials?
    assert store.study("s").best is None
    store.append("s", rows(4), BestTrial((0.0, math.inf), 2), 5)
    assert store.study("s").best == BestTrial((0.0, math.inf), 2)
    store.append("s", rows(6))
    assert (store.study("s").trials, store.study("s").best) == (6, None)


@pytest.mark.parametrize("cell", [b"x", "[", "[3]", "[-1,0.0]", '["3",0.0]', "{}"])
def test_a_damaged_cell_is_as_none(tmp_path: Path, store: Store, cell: str | bytes) -> None:
    store.append("s", rows(0, 1), BestTrial((0.0, 5.0), 1), 2)
    with contextlib.closing(sqlite3.connect(tmp_path / "studies.db")) as connection, connection:
        connection.execute("UPDATE studies SET best = ?", (cell,))
    assert store.study("s").best is None
    store.append("s", rows(2), BestTrial((0.0, 5.0), 1), 3)
    assert store.study("s").best == BestTrial((0.0, 5.0), 1)


@pytest.mark.parametrize("version", [1, 2, 4, 5, 6])
def test_trials_of_older_stores_are_counted_and_their_best_is_found_when_they_go_on(
    tmp_path: Path, version: int
) -> None:
    store = Store(str(tmp_path / "studies.db"))
    Study.create(store, "old", SPACE, "local", 3).run(InProcessExecutor(SPACE), Budget(trials=40))
    Study.create(store, "empty", SPACE, "local", 3)
    store.close()
    make_older(f"sqlite:///{tmp_path}/studies.db", version)
    store = Store(str(tmp_path / "studies.db"))
    assert [(row.trials, row.best) for row in store.studies()] == [(40, None), (0, None)]
    resumed = Study.resume(store, "old", SPACE)
    resumed.run(InProcessExecutor(SPACE), Budget(trials=5))
    assert resumed.front.best is not None
    assert store.study("old").best == BestTrial(resumed.front.best_rank, resumed.front.best.number)
