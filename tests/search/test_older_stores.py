"""Older stores are brought up to date though some of it is damaged, and only while nobody works in them."""

from __future__ import annotations

import contextlib
import sqlite3
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
