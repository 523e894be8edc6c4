"""A study from before fingerprints were of content goes on where its trials measure what they measured, and nowhere else."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.schema import UNKNOWN_FINGERPRINT
from kilotune.search.space import Decision
from kilotune.search.store import Store, StoreError
from kilotune.search.study import Study
from tests.search.problems import FlatProblem
from tests.search.test_flat_view import LETTERS, Tree

SPACE = FlatProblem(6, 3, 1, pairs=3)


def old_study(path: Path, space: FlatProblem = SPACE, trials: int = 40) -> Store:
    store = Store(str(path))
    Study.create(store, "old", space, "local", 3).run(InProcessExecutor(space), Budget(trials=trials))
    with store.transaction() as connection:
        connection.exec_driver_sql("UPDATE studies SET fingerprint = ''")
    assert store.study("old").fingerprint == UNKNOWN_FINGERPRINT
    return store


def test_the_study_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    store = old_study(tmp_path / "studies.db")
    study = Study.resume(store, "old", SPACE)
    assert store.study("old").fingerprint == SPACE.fingerprint
    study.run(InProcessExecutor(SPACE), Budget(trials=20))
    whole = Study(SPACE, "local", 3)
    whole.run(InProcessExecutor(SPACE), Budget(trials=60))
    assert Study.resume(store, "old", SPACE).trials() == whole.trials()


def test_a_study_without_trials_is_taken_as_it_is(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "studies.db"))
    Study.create(store, "old", SPACE, "local")
    with store.transaction() as connection:
        connection.exec_driver_sql("UPDATE studies SET fingerprint = ''")
    assert Study.resume(store, "old", SPACE).trials() == []


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(SPACE, seed=2),  # the same decisions, other measurements
        dataclasses.replace(SPACE, count=5),  # other decisions
        dataclasses.replace(SPACE, options=2),
    ],
)
def test_another_space_is_refused_and_the_study_stays_as_it_was(tmp_path: Path, other: FlatProblem) -> None:
    store = old_study(tmp_path / "studies.db")
    with pytest.raises(
        StoreError, match=r"'old' is of an older kilotune, and it(s trial 0 measured| was made with other decisions)"
    ):
        Study.resume(store, "old", other)
    assert store.study("old").fingerprint == UNKNOWN_FINGERPRINT
    assert len(Study.resume(store, "old", SPACE).trials()) == 40


def test_the_last_trial_counts_as_well(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    store = old_study(path)
    with sqlite3.connect(path) as connection:
        connection.execute("""INSERT INTO metric_names VALUES (77, '["loss"]')""")
        connection.execute("UPDATE trials SET metrics = '[-1.0]', names_id = 77 WHERE number = 39")
    with pytest.raises(StoreError, match="trial 39 measured loss -1, and measures loss"):
        Study.resume(store, "old", SPACE)


def test_metrics_that_came_later_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    store = old_study(path)
    with sqlite3.connect(path) as connection:
        (names,) = connection.execute("SELECT names FROM metric_names").fetchone()
        place = json.loads(names).index("loss")
        rows = connection.execute("SELECT number, metrics FROM trials").fetchall()
        for number, text in rows:
            loss = json.dumps([json.loads(text)[place]])
            connection.execute("UPDATE trials SET metrics = ? WHERE number = ?", (loss, number))
        connection.execute("UPDATE metric_names SET names = ?", ('["loss"]',))
    assert len(Study.resume(store, "old", SPACE).trials()) == 40


class Letters(Tree):
    """The flat view as it was once: a space of its own, whose candidates were stored as indices."""

    decisions: tuple[Decision, ...] = LETTERS

    def start(self):  # type: ignore[no-untyped-def]
        return self.flat_view().start()


def test_candidates_of_a_flat_view_that_was_a_space_of_its_own_become_candidates_of_the_tree(tmp_path: Path) -> None:
    store, letters, tree = Store(str(tmp_path / "studies.db")), Letters(True), Tree(True)
    Study.create(store, "old", letters, "local", 3).run(InProcessExecutor(letters), Budget(trials=4))
    store.append("old", [], status="finished", outcome="exhausted", bound=10.0)
    measured = [(trial.assignment, trial.metrics) for trial in Study.resume(store, "old", letters).trials()]
    with store.transaction() as connection:
        connection.exec_driver_sql("UPDATE studies SET fingerprint = ''")
    study = Study.resume(store, "old", tree)
    assert not study.is_proved()
    assert [(trial.assignment, trial.metrics) for trial in study.trials()] == measured
    study.run(InProcessExecutor(tree), Budget(trials=3))
    whole = Study(tree, "local", 3)
    whole.run(InProcessExecutor(tree), Budget(trials=7))
    assert Study.resume(store, "old", tree).trials() == whole.trials()


def test_trials_without_a_metric_that_ranks_them_now_are_not_mixed_with_those_that_have_it(tmp_path: Path) -> None:
    """One such trial in the middle is enough, though it is none of those that are measured again."""
    path = tmp_path / "studies.db"
    store = old_study(path)
    with sqlite3.connect(path) as connection:
        connection.execute("""INSERT INTO metric_names VALUES (77, '["cost"]')""")
        connection.execute("UPDATE trials SET metrics = '[1.0]', names_id = 77 WHERE number = 14")
    with pytest.raises(StoreError, match="trial 14 has no loss, by which candidates are ranked now"):
        Study.resume(store, "old", SPACE)
    assert store.study("old").fingerprint == UNKNOWN_FINGERPRINT
