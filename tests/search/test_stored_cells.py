"""A mistyped cell of a database is one sentence that says whose it is and which column: SQLite keeps a text in any column."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kilotune.search.comparison_store import comparisons, save_comparison, saved_curves
from kilotune.search.space import Assignment, Measurement, Option
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow, TrialRow
from kilotune.search.trial_book import TrialBook
from tests.search.problems import TreeProblem

STUDY_CELLS: list[tuple[str, Any]] = [
    ("space", b"7"),
    ("fingerprint", b"\xff"),
    ("strategy", b""),
    ("seed", "x"),
    ("seed", -1),
    ("budget", b"0"),
    ("decisions", "{}"),
    ("request", "[]"),
    ("request", "{"),
    ("request", "[" * 9000),
    ("status", "resting"),
    ("outcome", "1e999"),
    ("bound", "low"),
    ("elapsed_s", "soon"),
    ("elapsed_s", float("inf")),
    ("created", "yesterday"),
    ("trials", "many"),
    ("trials", -1),
]
TRIAL_CELLS: list[tuple[str, Any]] = [
    ("candidate", b"5"),
    ("metrics", "[1, 2]"),  # more than names
    ("metrics", '["many"]'),
    ("metrics", "[null]"),
    ("metrics", "[true]"),
    ("metrics", "[1" + "0" * 400 + "]"),
    ("metrics", "["),
    ("metrics", "[]"),
    ("metrics", '{"bytes": 1}'),
    ("failure", b"3"),
    ("elapsed_s", "late"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with one study of two trials, and a comparison."""
    store = Store(str(tmp_path / "s.db"))
    store.create(StudyRow("kept", "toy", "f", "random", 0))
    store.append("kept", [TrialRow(n, f"[{n}]", {"bytes": n}, None, 0.5) for n in (3, 4)])
    save_comparison(store, "compared", {})
    store.close()
    return tmp_path / "s.db"


def change(path: Path, statement: str, value: Any) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, (value,))
        connection.commit()


@pytest.mark.parametrize(("column", "value"), STUDY_CELLS)
def test_cells_of_a_study(column: str, value: Any, path: Path) -> None:
    change(path, f"UPDATE studies SET {column} = ?", value)
    with pytest.raises(StoreError, match=rf"s\.db is damaged: study 'kept', column {column}: expected .*, found "):
        Store(str(path)).studies()


@pytest.mark.parametrize(("column", "value"), TRIAL_CELLS)
def test_cells_of_a_trial(column: str, value: Any, path: Path) -> None:
    change(path, f"UPDATE trials SET {column} = ? WHERE number = 4", value)
    rows = Store(str(path)).trials("kept")
    assert next(rows).number == 3
    with pytest.raises(StoreError, match=rf"study 'kept', trial 4, column {column}: expected .*, found "):
        next(rows)


@pytest.mark.parametrize("cell", ["{}", "[1]", "[", b"x", None, '["a", "b"]', '["a", "a"]', "[]"])
def test_damaged_names_of_metrics(cell: Any, path: Path) -> None:
    """`None`: the row is gone."""
    change(
        path, "UPDATE metric_names SET names = ?" if cell is not None else "DELETE FROM metric_names WHERE 1 OR ?", cell
    )
    with pytest.raises(StoreError, match=r"study 'kept', trial 3, column (names|metrics): expected .*, found "):
        list(Store(str(path)).trials("kept"))


def test_a_trial_that_did_not_fail_has_lost_its_metrics_where_it_has_none(path: Path) -> None:
    change(path, "UPDATE metric_names SET names = ?", "[]")
    change(path, "UPDATE trials SET metrics = ?", "[]")
    with pytest.raises(
        StoreError, match="trial 3, column metrics: expected at least one number, as the trial did not fail"
    ):
        list(Store(str(path)).trials("kept"))


def test_a_failed_trial_has_no_metrics(path: Path) -> None:
    store = Store(str(path))
    store.append("kept", [TrialRow(5, "[5]", {}, "it does not link", 0.5)])
    assert [row.failure for row in store.trials("kept")] == [None, None, "it does not link"]


@pytest.mark.parametrize(("column", "value"), [("plan", "[]"), ("findings", "x"), ("created", "x")])
def test_cells_of_a_comparison(column: str, value: Any, path: Path) -> None:
    change(path, f"UPDATE comparisons SET {column} = ?", value)
    with pytest.raises(StoreError, match=rf"comparison 'compared', column {column}: expected "):
        comparisons(Store(str(path)))


@pytest.mark.parametrize("cell", ["", "[]", "{}", '{"steps": [1], "evaluations": 1, "seconds": 1}', '{"steps": 3}'])
def test_a_damaged_curve_is_made_again(cell: str, path: Path) -> None:
    """It only says again what the trials say."""
    change(path, "INSERT INTO curves VALUES (1, ?)", cell)
    assert saved_curves(Store(str(path))) == {}


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://-0/x.db",
        "sqlite:///x.db?check_same_thread=maybe",
        "sqlite:///a\0b",
        "//:x://",
    ],
)
def test_urls_that_nobody_can_use(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError) as error:
        Store(url)
    assert repr(url) in str(error.value)
    assert "\n" not in str(error.value)


def test_an_answer_that_is_missing_in_a_tree_is_damage(path: Path) -> None:
    """A KeyError of the space came out."""

    class Ordered(TreeProblem):
        def in_order(self, answers: Assignment) -> dict[str, Option]:
            return {name: answers[name] for name in ("first", "second")}

    book = TrialBook(Ordered(2, 2, 0))
    with pytest.raises(ValueError, match="trial 3, column candidate: it has no answer 'second'"):
        book.load([TrialRow(3, '{"first":1}', {}, None, 0.0)])


def test_a_trial_of_which_nothing_was_measured_is_stored_as_a_failure() -> None:
    """It would look like one that lost its metrics."""
    space = TreeProblem(2, 2, 0)
    book, candidate = TrialBook(space), {"first": 0, "second": 0}
    key = book.encoding.key(candidate)
    rows = [book.row(key, n, m, 0.0) for n, m in enumerate((Measurement(), Measurement({"cost": 1.0})))]
    assert [row.failure for row in rows] == ["the evaluator returned no metrics", None]
