"""Databases of studies: their bytes, and their cells."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.comparison.plan import ComparisonPlan
from kilotune.experiments.comparison.suite import case_of
from kilotune.experiments.fuzz.byte_mutations import mutate_bytes
from kilotune.experiments.fuzz.case import FuzzCase
from kilotune.experiments.fuzz.json_mutations import mutate_value
from kilotune.experiments.fuzz.kind import Kind, on_files
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.joining import join
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.comparison_store import save_comparison
from kilotune.search.store import Store, StoreError
from kilotune.search.study import Study

DATABASE = "s.db"
STUDY, COMPARISON = "kept", "compared"
PAGE_BYTES = 512
"""SQLite's smallest: a database of a few rows is a few kilobytes."""

CELLS: Sequence[Any] = (
    *(
        None,
        0,
        1,
        -1,
        7,
        (1 << 63) - 1,
        0.5,
        1e308,
        float("inf"),
        "",
        "x",
        "nan",
        b"",
        b"\xff\x00",
        "a\nb",
        "\ud7ff" * 5,
    ),
    *(
        "{}",
        "[]",
        "null",
        "1",
        '"x"',
        "{",
        "[[]]",
        "[0, 0]",
        "[-1]",
        "[99999999999999999999]",
        '{"a": "b"}',
        '{"a": NaN}',
    ),
    *("1e999", "[" * 5000, "finished", "proved", "9" * 5000),
)
COMMANDS = (
    ("list", "studies"),
    ("list", "comparisons"),
    ("resume", STUDY, "--budget", "2trials,2s", "--no-cache", "--quiet", "--json", "result.json", "--output", "made"),
    ("report", STUDY, "--output", "page.html"),
    ("export", STUDY, "--output", "made"),
    ("export", STUDY, "--to", "optuna", "--output", "all.log"),
    ("report", COMPARISON, "--output", "page.html"),
)


@cache
def database() -> bytes:
    """A study of four trials and a comparison of two runs, the same bytes at every call."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / DATABASE
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            connection.execute("VACUUM")
        store = Store(str(path))
        request = request_from("reverse-split", input="roberts", strategy="local")
        budget = Budget.parse("4trials")
        problem = build_problem(request)
        study = join(store, STUDY, problem, budget)
        study.run(InProcessExecutor(problem.space), budget, handle_interrupts=False)
        plan = ComparisonPlan((case_of(request, ("greedy", "random"), "case"),), 1, "2trials")
        save_comparison(store, COMPARISON, plan.as_json())
        for run in plan.runs():
            asked = plan.cases[run.case].request(run.strategy, run.seed)
            space = build_problem(asked).space  # every strategy may have one of its own
            extra = {**asked.as_json(), "comparison": COMPARISON}
            name = plan.study_name(COMPARISON, run)
            made = Study.create(store, name, space, run.strategy, run.seed, budget=plan.limits, request=extra)
            made.run(InProcessExecutor(space), plan.limits, handle_interrupts=False)
        store.close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE studies SET created = id, elapsed_s = 1.0")
            connection.execute("UPDATE trials SET elapsed_s = 0.1 * (number + 1)")
            connection.execute("UPDATE comparisons SET created = 1.0")
            connection.commit()
            connection.execute("PRAGMA journal_mode=DELETE")
            connection.execute("VACUUM")
        return path.read_bytes()


def rows(content: bytes) -> dict[str, list[Any]] | None:
    """Every row of every table; None for bytes that are no database that can be read to its end."""
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            _deserialise(connection, content)
            return {table: connection.execute(f'SELECT * FROM "{table}"').fetchall() for table in _tables(connection)}
    except (sqlite3.Error, UnicodeError, OverflowError):
        return None


def rows_of_today(content: bytes) -> dict[str, list[Any]] | None:
    """Every row as it is after the database was opened once: one of an earlier version is brought up to date by that, which is no
    change of what is in it."""
    if rows(content) is None:
        return None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "copy.db"
        path.write_bytes(content)
        with suppress(StoreError):
            Store(str(path)).close()
        return rows(path.read_bytes())


def change_cell(content: bytes, random: Random, tables: Sequence[str] = (), columns: Sequence[str] = ()) -> bytes:
    """One cell of the database with another value: of another type, or JSON that is something else."""
    with suppress(sqlite3.Error, UnicodeError), closing(sqlite3.connect(":memory:")) as connection:
        _deserialise(connection, content)
        cells = [
            (table, column[1], row, value)
            for table in _tables(connection)
            if not tables or table in tables
            for column in connection.execute(f'PRAGMA table_info("{table}")').fetchall()
            if not columns or column[1] in columns
            for row, value in connection.execute(f'SELECT rowid, "{column[1]}" FROM "{table}" ORDER BY rowid')
        ]
        if not cells:
            return content
        table, column, row, value = random.choice(cells)
        changed = _mutated(value, random)
        connection.execute("PRAGMA ignore_check_constraints=1")
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (changed, row))
        connection.commit()
        return connection.serialize()
    return content


def _mutated(value: Any, random: Random) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "[") and random.random() < 0.7:
        with suppress(ValueError, RecursionError):
            return json.dumps(mutate_value(json.loads(value), random))
    if isinstance(value, str) and random.random() < 0.2:
        return mutate_bytes(value.encode(), random).decode(errors="replace")
    return random.choice(CELLS)


def _structure(content: bytes, random: Random) -> bytes:
    """Rows gone or there twice, a table or a column gone, another version."""
    with suppress(sqlite3.Error, UnicodeError), closing(sqlite3.connect(":memory:")) as connection:
        _deserialise(connection, content)
        tables = _tables(connection)
        if not tables:
            return content
        table = random.choice(tables)
        columns = [column[1] for column in connection.execute(f'PRAGMA table_info("{table}")')]
        version = random.choice((0, 1, 2, 4, 5, -1, "'x'", "NULL", 1e300))
        change = random.choice(
            (
                f'DELETE FROM "{table}"',
                f'DELETE FROM "{table}" WHERE rowid % 2',
                f'DROP TABLE "{table}"',
                f'ALTER TABLE "{table}" DROP COLUMN "{random.choice(columns)}"',
                f'ALTER TABLE "{table}" RENAME COLUMN "{random.choice(columns)}" TO "other"',
                f"UPDATE kilotune_meta SET schema_version = {version}",
                f"INSERT INTO kilotune_meta VALUES ({version})",
                "UPDATE trials SET number = number + 4000000000, study_id = study_id + 1",
            )
        )
        connection.execute(change)
        connection.commit()
        return connection.serialize()
    return content


def _tables(connection: sqlite3.Connection) -> list[str]:
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in listed]


def _deserialise(connection: sqlite3.Connection, content: bytes) -> None:
    """Raises sqlite3.Error. A database that says that it has a write-ahead log cannot be opened in memory: the two bytes that
    say so are set back."""
    if content[18:20] == b"\x02\x02":
        content = content[:18] + b"\x01\x01" + content[20:]
    connection.deserialize(content)


def _corpus() -> tuple[FuzzCase, ...]:
    content = database()
    return tuple(FuzzCase("databases", (*command, "--storage", DATABASE), {DATABASE: content}) for command in COMMANDS)


DATABASES = Kind(
    "databases",
    _corpus,
    (
        on_files(DATABASE, mutate_bytes),
        on_files(DATABASE, _structure),
        on_files(DATABASE, change_cell),
        on_files(DATABASE, change_cell),
        on_files(DATABASE, change_cell),
    ),
    writes=(DATABASE, f"{DATABASE}-*"),
    contents=rows_of_today,
    named=(STUDY, COMPARISON),
)
