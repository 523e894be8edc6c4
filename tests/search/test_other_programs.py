"""A database of another program's is refused, and stays as it was."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
import pytest

from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.search.schema import TABLES
from kilotune.search.store import Store, StoreError


def written(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return path.read_bytes()


@pytest.mark.parametrize(
    "table", ["CREATE TABLE photographs (name TEXT)", "CREATE TABLE studies (id INTEGER, painter TEXT)"]
)
@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_it_is_not_changed_by_a_byte(tmp_path: Path, table: str, form: str) -> None:
    path = tmp_path / "theirs #1.db"
    before = written(path, table, table.replace("TABLE ", "TABLE other_"))
    with pytest.raises(StoreError, match="is a database of another program"):
        Store(form.format(path))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_one_of_optuna_s_is_refused_whose_tables_are_called_like_ours(tmp_path: Path) -> None:
    path = tmp_path / "optuna.db"
    optuna.create_study(storage=f"sqlite:///{path}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is a database of another program"):
        Store(str(path))
    assert path.read_bytes() == before


def test_the_command_says_so_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "theirs.db"
    before = written(path, "CREATE TABLE photographs (name TEXT)")
    with pytest.raises(SystemExit) as end:
        main(["--space", "memory", "--budget", "1trials", "--no-output", "--storage", str(path)])
    assert end.value.code == ExitStatus.BAD_INPUT
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "its tables: photographs" in said
    assert path.read_bytes() == before


def test_what_a_killed_kilotune_has_begun_is_a_store(tmp_path: Path) -> None:
    path = tmp_path / "begun.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE comparisons (name VARCHAR(255), plan TEXT, findings TEXT, created FLOAT)")
    Store(str(path)).close()
    with closing(sqlite3.connect(path)) as connection:
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert there >= set(TABLES.tables)


@pytest.mark.parametrize("place", ["[" * 2000, "sqlite:///s.db?cached_statements=" + "9" * 100])
def test_places_that_no_system_opens_are_store_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((StoreError, OSError), match=r"cannot be|is not a database URL"):
        Store(place)
