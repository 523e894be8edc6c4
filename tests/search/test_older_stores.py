"""Older stores are brought up to date though some of it is damaged, and only while nobody works in them."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections import Counter
from pathlib import Path

import pytest

from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow, TrialRow
from tests.search.older_stores import make_older

ROWS = [TrialRow(n, f"[{n},0]", {"loss": n / 3}, None, n / 7) for n in range(5)]


def older_store(path: Path, version: int, *studies: str) -> None:
    """One with `ROWS` in each of the studies."""
    store = Store(str(path))
    for name in studies:
        store.create(StudyRow(name, "flat", "f", "local", 1))
        store.append(name, ROWS)
    store.close()
    make_older(f"sqlite:///{path}", version)


@pytest.mark.parametrize("version", [1, 5])
@pytest.mark.parametrize("cell", [b"x", "[0, 0]", "[0,0]"])
def test_candidates_that_damage_made_equal(tmp_path: Path, version: int, cell: str | bytes) -> None:
    """Hashes are those of a store's trials, so that a trial is found again; a hash stands once in a study."""
    path = tmp_path / "studies.db"
    older_store(path, version, "damaged", "sound")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE trials SET candidate = ? WHERE study_id = 1 AND number IN (1, 3)", (cell,))
    store = Store(str(path))
    assert list(store.trials("sound")) == ROWS
    store.append("sound", [TrialRow(9, "[4,0]", {"loss": 7.0}, None, 0.0)])
    assert list(store.trials("sound")) == ROWS
    if isinstance(cell, bytes):
        with pytest.raises(StoreError, match="is damaged: study 'damaged', trial 1, column candidate: expected"):
            list(store.trials("damaged"))
    else:
        assert [row.candidate for row in store.trials("damaged")] == ["[0,0]", "[0,0]", "[2,0]", "[0,0]", "[4,0]"]
        assert [row.metrics for row in store.trials("damaged")] == [row.metrics for row in ROWS]


@pytest.mark.parametrize(
    "change", ["INSERT INTO tuners VALUES (1, 'elsewhere', 0)", "UPDATE tuners SET beat = beat + 1"]
)
def test_a_search_that_begins_before_the_others_are_shut_out_keeps_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """It was not there, or did not beat, when it was looked for."""
    path = tmp_path / "studies.db"
    older_store(path, 5, "long")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO tuners VALUES (1, 'another', 3)")

    def nobody_yet(*_: object) -> Counter[str]:
        with contextlib.closing(sqlite3.connect(path)) as older, older:
            older.execute(change)
        return Counter()

    with monkeypatch.context() as patched:
        patched.setattr("kilotune.search.store.living", nobody_yet)
        with pytest.raises(StoreError, match="an older kilotune, which still works on 'long' in it: wait"):
            Store(str(path))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("SELECT schema_version FROM kilotune_meta").fetchall() == [(5,)]
        connection.execute("DELETE FROM tuners")
    assert list(Store(str(path)).trials("long")) == ROWS


@pytest.mark.parametrize("writes", [True, False])
def test_whoever_comes_second_waits_for_as_long_as_the_first_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, writes: bool
) -> None:
    path = tmp_path / "studies.db"
    older_store(path, 5, "long")
    monkeypatch.setattr("kilotune.search.store.BUSY_MS", 100)
    began, end = threading.Event(), threading.Event()

    def first() -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA cache_size=1")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE new (cell BLOB)")
            began.set()
            while not end.wait(0.02):
                if writes:
                    connection.execute("INSERT INTO new VALUES (zeroblob(100000))")
            connection.execute("ROLLBACK")

    thread = threading.Thread(target=first)
    thread.start()
    began.wait()
    try:
        if writes:
            threading.Timer(1.5, end.set).start()
            assert list(Store(str(path)).trials("long")) == ROWS
            assert [r.message for r in caplog.records if "Please wait" in r.message] == [
                "Another process brings the store up to date. Please wait."
            ]
        else:
            with pytest.raises(StoreError, match="is locked by another process"):
                Store(str(path))
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize("version", [5, 6])
def test_only_a_file_whose_trials_were_written_anew_is_made_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """That takes as long as to write all of it, and a file of gigabytes of trials gets two columns of its studies."""
    path, made_smaller = tmp_path / "studies.db", list[object]()
    older_store(path, version, "long")
    monkeypatch.setattr("kilotune.search.store.give_back_room", made_smaller.append)
    assert list(Store(str(path)).trials("long")) == ROWS
    assert len(made_smaller) == (version < 6)
