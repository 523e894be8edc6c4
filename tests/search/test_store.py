"""What the store keeps, and what it says when it cannot."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import alembic.command
import numpy as np
import pytest
import sqlalchemy as sa
from alembic.config import Config

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.comparison_store import comparison, save_comparison
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow, TrialRow
from kilotune.search.study import Study
from kilotune.search.versions import give_back_room
from kilotune.search.work_sharing import SharedStudy
from tests.search.older_stores import make_older
from tests.search.problems import FlatProblem


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "studies.db"))


def test_trials_come_back_as_they_were_written(store: Store) -> None:
    store.create(StudyRow("s", "flat", "f", "local", 1, request={"budget": "2h", "device": "uno"}))
    rows = [
        TrialRow(0, "[1, 2]", {"loss": 0.1, "flash": 3, "nothing": float("inf")}, None, 0.5),
        TrialRow(1, '{"ä":"b"}', {}, "It broke.", 0.75),
    ]
    store.append("s", rows, status="interrupted", elapsed_s=1.5, bound=-2.0)
    assert list(store.trials("s")) == rows
    study = store.study("s")
    assert (study.request, study.status, study.elapsed_s, study.bound, study.trials) == (
        {"budget": "2h", "device": "uno"},
        "interrupted",
        1.5,
        -2.0,
        2,
    )


def test_numpy_numbers_become_plain_ones_of_the_same_value(store: Store) -> None:
    store.create(StudyRow("s", "flat", "f", "local", 1))
    store.append("s", [TrialRow(0, "[]", {"a": np.float32(0.1), "b": np.int64(2**53 + 1)}, None, 0.0)])  # type: ignore[dict-item]
    (row,) = store.trials("s")
    assert row.metrics == {"a": float(np.float32(0.1)), "b": 2**53 + 1}


def test_lists_studies_in_the_order_of_their_making_and_deletes_them(store: Store) -> None:
    for name in ("b", "a", "c"):
        store.create(StudyRow(name, "flat", "f", "local", 1))
    store.append("a", [TrialRow(0, "[]", {}, None, 0.0)])
    store.delete("b")
    assert [(s.name, s.trials) for s in store.studies()] == [("a", 1), ("c", 0)]


def test_a_name_that_is_taken_and_one_that_is_unknown(store: Store) -> None:
    space = FlatProblem(2, 2, 1)
    Study.create(store, "mine", space)
    with pytest.raises(StoreError, match="already holds a study 'mine'"):
        Study.create(store, "mine", space)
    with pytest.raises(StoreError, match=r"no study 'yours'\. Its studies: mine"):
        Study.resume(store, "yours", space)


def test_an_unknown_strategy_leaves_no_study_behind(store: Store) -> None:
    with pytest.raises(ValueError, match="no strategy 'magic'"):
        Study.create(store, "mine", FlatProblem(2, 2, 1), "magic")
    assert store.studies() == []


def test_another_space_is_not_resumed(store: Store) -> None:
    Study.create(store, "mine", FlatProblem(2, 2, 1))
    with pytest.raises(StoreError, match="start a new study"):
        Study.resume(store, "mine", FlatProblem(2, 2, 2))


def test_another_schema_version_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    Store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE kilotune_meta SET schema_version = 8")
    with pytest.raises(StoreError, match="schema version 8, and this kilotune reads version 7"):
        Store(str(path))


def test_a_store_of_version_1_is_brought_up_to_date_with_all_its_trials(tmp_path: Path) -> None:
    path, space = tmp_path / "studies.db", FlatProblem(6, 3, 1, pairs=3)
    store = Store(str(path))
    Study.create(store, "old", space, "local", 3).run(InProcessExecutor(space), Budget(trials=40))
    store.close()
    make_older(f"sqlite:///{path}", 1)
    store = Store(str(path))
    resumed = Study.resume(store, "old", space)
    assert len(resumed.trials()) == 40
    resumed.run(InProcessExecutor(space), Budget(trials=20))
    whole = Study(space, "local", 3)
    whole.run(InProcessExecutor(space), Budget(trials=60))
    assert Study.resume(Store(str(path)), "old", space).trials() == whole.trials()


def test_a_store_of_version_2_keeps_its_studies_and_takes_comparisons(tmp_path: Path) -> None:
    path, space = tmp_path / "studies.db", FlatProblem(10, 4, 1)
    store = Store(str(path))
    Study.create(store, "old", space, "local", 3).run(InProcessExecutor(space), Budget(trials=40))
    store.close()
    make_older(f"sqlite:///{path}", 2)
    save_comparison(Store(str(path)), "new", {"repeats": 1})
    again = Store(str(path))
    assert comparison(again, "new").plan == {"repeats": 1}
    assert len(Study.resume(again, "old", space).trials()) == 40


def test_a_store_of_version_5_becomes_what_today_would_have_been_written(tmp_path: Path) -> None:
    """Two studies, one of a tree, with censored and failed trials, and metrics of several names; more than one batch of them."""
    path = tmp_path / "studies.db"
    store = Store(str(path))
    kinds = [{"loss": 0.1, "flash": 3, "odd \u00e4": float("inf")}, {}, {"loss": 2**53 + 1}, {"flash": 1, "loss": -0.0}]
    for name, text in (("flat", "[{},{}]"), ("tree", '{{"a, b":{},"c":{}}}')):
        store.create(StudyRow(name, name, "f", "local", 1))
        rows = [
            TrialRow(n, text.format(n, n % 7), kinds[n % 4], None if kinds[n % 4] else "no", n / 7, n % 5 == 0)
            for n in range(0, 18_000, 3)
        ]
        store.append(name, rows)
    kept = {name: list(store.trials(name)) for name in ("flat", "tree")}
    store.close()
    written = table_contents(path)
    make_older(f"sqlite:///{path}", 5)
    again = Store(str(path))
    assert {name: list(again.trials(name)) for name in kept} == kept
    assert table_contents(path) == written
    known = kept["flat"][5]
    again.append("flat", [TrialRow(20_000, known.candidate, {"loss": 7.0}, None, 0.0, known.censored)])
    again.close()
    assert table_contents(path)[1] == written[1]


@pytest.mark.parametrize("version", [1, 5])
@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("elapsed_s", "x"),
        ("elapsed_s", b"x"),
        ("candidate", b"x"),
        ("metrics", b"\xff"),
        ("metrics", "{"),
        ("failure", b"x"),
    ],
)
def test_a_damaged_cell_of_an_older_store_costs_its_own_study_only(
    tmp_path: Path, version: int, column: str, cell: str | bytes
) -> None:
    path = tmp_path / "studies.db"
    store = Store(str(path))
    rows = [TrialRow(n, f"[{n}]", {"loss": n / 3}, None, n / 7) for n in range(3)]
    for name in ("damaged", "sound"):
        store.create(StudyRow(name, "flat", "f", "local", 1))
        store.append(name, rows)
    store.close()
    make_older(f"sqlite:///{path}", version)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE trials SET {column} = ? WHERE study_id = 1 AND number = 1", (cell,))
    again = Store(str(path))
    assert list(again.trials("sound")) == rows
    with pytest.raises(StoreError, match=f"is damaged: study 'damaged', trial 1, column {column}: expected"):
        list(again.trials("damaged"))


def test_a_text_of_an_older_store_that_is_none_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    store = Store(str(path))
    store.create(StudyRow("s", "flat", "f", "local", 1))
    store.append("s", [TrialRow(0, "[0]", {"loss": 1.0}, None, 0.0)])
    store.close()
    make_older(f"sqlite:///{path}", 5)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE trials SET metrics = CAST(? AS TEXT)", (b'{"\xff": 1}',))
    with pytest.raises(StoreError, match=r"studies\.db is not a study database, or it is damaged"):
        Store(str(path))


def test_an_older_file_shrinks_to_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And takes less than twice the room meanwhile: the log holds what is new, not the old tables overwritten."""
    path = tmp_path / "studies.db"
    logs = list[int]()

    def note_and_shrink(engine: sa.Engine) -> None:
        logs.append(Path(f"{path}-wal").stat().st_size)
        give_back_room(engine)

    monkeypatch.setattr("kilotune.search.store.give_back_room", note_and_shrink)
    store = Store(str(path))
    store.create(StudyRow("s", "flat", "f", "local", 1))
    metrics = {f"a metric of a long name {n}": n / 7 for n in range(12)}
    store.append("s", [TrialRow(n, f"[{n},{n}]", metrics, None, n / 7) for n in range(2000)])
    store.close()
    make_older(f"sqlite:///{path}", 5)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    before = path.stat().st_size
    store = Store(str(path))
    log = Path(f"{path}-wal").stat().st_size
    assert path.stat().st_size + log < 0.6 * before
    assert logs[0] < 0.8 * before
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


def test_an_older_file_that_cannot_shrink_at_the_moment_is_up_to_date_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "studies.db"
    store = Store(str(path))
    store.create(StudyRow("s", "flat", "f", "local", 1))
    store.append("s", [TrialRow(0, "[0]", {"loss": 1.0}, None, 0.5)])
    store.close()
    make_older(f"sqlite:///{path}", 5)
    shrink = give_back_room

    def shrink_beside_a_writer(engine: sa.Engine) -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA busy_timeout=10")
            shrink(engine)

    monkeypatch.setattr("kilotune.search.store.give_back_room", shrink_beside_a_writer)
    assert [row.metrics for row in Store(str(path)).trials("s")] == [{"loss": 1.0}]


def table_contents(path: Path) -> tuple[set[str], list[Any], str]:
    """Lists of metrics' names, trials with their names, and how their table was made."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = {text for (text,) in connection.execute("SELECT names FROM metric_names")}
        query = "SELECT trials.*, names FROM trials JOIN metric_names ON names_id = id ORDER BY study_id, number"
        rows = [(*row[:4], *row[5:]) for row in connection.execute(query)]  # without the names' key
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'trials'").fetchone()
    return names, rows, " ".join(made.replace('"', "").split())


def test_a_store_that_is_killed_while_it_is_brought_up_to_date_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "studies.db"
    Store(str(path)).close()
    make_older(f"sqlite:///{path}", 2)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        before = list(connection.iterdump())
    bring = alembic.command.upgrade

    def bring_and_die(config: Config, revision: str) -> None:
        bring(config, revision)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(alembic.command, "upgrade", bring_and_die)
        with pytest.raises(KeyboardInterrupt):
            Store(str(path))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert list(connection.iterdump()) == before
    assert Store(str(path)).studies() == []


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 5])
def test_a_store_that_an_older_kilotune_works_on_stays_as_it_is(tmp_path: Path, version: int) -> None:
    """It beats on as the older one would: its thread writes into a table that is the same in all versions."""
    path = tmp_path / "studies.db"
    store = Store(str(path))
    store.create(StudyRow("long", "flat", "f", "local", 1))
    store.append("long", [TrialRow(0, "[0]", {"loss": 1.0}, None, 0.0)])
    at_work = SharedStudy(store, "long")
    make_older(f"sqlite:///{path}", version)
    with pytest.raises(StoreError, match=r"an older kilotune, which still works on 'long' in it: wait"):
        Store(str(path))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT metrics FROM trials").fetchall() == [('{"loss": 1.0}',)]
    at_work.leave()
    store.close()
    assert [row.metrics for row in Store(str(path)).trials("long")] == [{"loss": 1.0}]


def test_a_file_that_is_no_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    path.write_text("these are my notes, " * 100)
    with pytest.raises(StoreError, match=r"studies\.db is not a study database, or it is damaged"):
        Store(str(path))
    assert path.read_text().startswith("these are my notes")


def test_a_database_damaged_in_mid_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    store = Store(str(path))
    space = FlatProblem(10, 4, 1)
    Study.create(store, "s", space, "random").run(InProcessExecutor(space), Budget(trials=2000))
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        Study.resume(Store(str(path)), "s", space)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="folder for the studies of"):
        Store(str(tmp_path / "file" / "studies.db"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="may you write there"):
        Store(str(tmp_path / "studies.db"))


def test_a_read_only_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    Store(str(path)).close()
    store = Store(f"sqlite:///file:{path}?mode=ro&uri=true")
    with pytest.raises(StoreError, match="may not be written"):
        store.create(StudyRow("s", "flat", "f", "local", 1))


@pytest.mark.parametrize(
    ("url", "message"), [("nonsense://x", "not known: expected sqlite or postgresql"), ("://", "not a database URL")]
)
def test_a_url_that_is_none_is_refused(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        Store(url)


@pytest.mark.slow
def test_many_processes_may_make_the_same_store(tmp_path: Path) -> None:
    """SQLite creates tables one by one: whoever comes meanwhile waits for the version, or finds the tables made."""
    probe = f"from kilotune.search.store import Store; Store({str(tmp_path / 'new.db')!r}).close()"
    started = [subprocess.Popen([sys.executable, "-c", probe], stderr=subprocess.PIPE, text=True) for _ in range(6)]
    assert [process.communicate(timeout=60)[1] for process in started] == [""] * 6
    assert Store(str(tmp_path / "new.db")).studies() == []
