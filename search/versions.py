"""Which version of its tables a store has, and how it is brought to today's (by Alembic, `search/migrations`).

Releases before revisions look at `kilotune_meta.schema_version` only; it goes on counting, so that they refuse a newer
store in a sentence. Version N is the revision `schema_N`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from kilotune.search.schema import META, REVISION_TABLE, SCHEMA_VERSION, TABLES

REWRITTEN = 6
"""The version that wrote all trials of earlier ones anew."""

MIGRATIONS = Path(__file__).parent / "migrations"


def other_programs_tables(connection: sa.Connection) -> list[str]:
    """The tables that make a database another program's, so that no store may be made in it. In a
    SQLite file any table is, in a server's database one that is named as ours and is none.

    An older kilotune that was killed while it made a store left some of our tables without a version: these are ours.
    """
    inspector = sa.inspect(connection)
    there = inspector.get_table_names()
    if META.name in there:
        return []
    ours = {table.name: set(table.columns.keys()) for table in TABLES.sorted_tables}
    others = [name for name in there if name not in ours] if connection.dialect.name == "sqlite" else []
    alike = [name for name in there if name in ours]
    return others + [name for name in alike if {c["name"] for c in inspector.get_columns(name)} != ours[name]]


def other_programs_tables_in(file: Path) -> list[str]:
    """As `other_programs_tables`, of a SQLite file that is read as it is: opened otherwise, SQLite changes its header and makes files
    beside it. Empty where that cannot be read, or is not there."""
    try:
        if not file.is_file() or not file.stat().st_size:
            return []
    except OSError:  # a name that no file can have: whoever opens it will say so
        return []

    def connected() -> sqlite3.Connection:
        return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro&immutable=1", uri=True)

    engine = sa.create_engine("sqlite://", creator=connected, poolclass=sa.pool.NullPool)
    try:
        with engine.connect() as connection:
            return other_programs_tables(connection)
    except sa.exc.SQLAlchemyError:
        return []


def has_tables(connection: sa.Connection) -> bool:
    """Whether the database is a store, or is about to become one."""
    return sa.inspect(connection).has_table(META.name)


def version_of(connection: sa.Connection) -> int | None:
    """The version of a store's tables; None where another process is making them."""
    version: int | None = connection.execute(sa.select(META.c.schema_version)).scalars().first()
    return version


def make_tables(connection: sa.Connection) -> None:
    """All tables of an empty store, in today's version, in the connection's transaction."""
    TABLES.create_all(connection)
    connection.execute(META.insert().values(schema_version=SCHEMA_VERSION))


def bring_up_to_date(engine: sa.Engine, check: Callable[[sa.Connection], object]) -> bool:
    """Alter the tables of an older store, in one transaction: other processes wait, and one that is killed leaves the store as it was.
    `check` may raise something when the others are shut out, and nothing is altered then. Whether trials were written anew, which leaves
    free places where they stood before.

    Where another process does it, this one waits for as long as that writes.
    """
    told = False
    while True:
        before = _written(engine)
        try:
            with engine.begin() as connection:
                _shut_out_others(connection)
                version = version_of(connection)
                if version is None or version >= SCHEMA_VERSION:  # another process was faster
                    return False
                check(connection)
                _migrate(connection, version)
                return version < REWRITTEN
        except sa.exc.OperationalError as error:
            if "locked" not in str(error.orig) or _written(engine) == before:
                raise
        if not told:
            logging.getLogger(__name__).warning("Another process brings the store up to date. Please wait.")
        told = True


def _written(engine: sa.Engine) -> tuple[int, int]:
    """What changes while another process writes to a SQLite file: the size of its log, and when that was written."""
    try:
        log = os.stat(f"{engine.url.database}-wal")
    except OSError:
        return 0, 0
    return log.st_size, log.st_mtime_ns


def _migrate(connection: sa.Connection, version: int) -> None:
    # Alembic takes a sixth of a second to import, and hardly any store is old.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    if not sa.inspect(connection).has_table(REVISION_TABLE):
        command.stamp(config, f"schema_{version}")
    command.upgrade(config, "head")
    connection.execute(META.update().values(schema_version=SCHEMA_VERSION))


def give_back_room(engine: sa.Engine) -> None:
    """Let the file of a SQLite store shrink to what is in it: tables that were written anew leave what they took before. Where another
    process writes, there is no room for a copy, or a page is damaged, it stays as large, and new trials come to the free places."""
    if engine.dialect.name != "sqlite":
        return
    with (
        contextlib.suppress(sa.exc.DBAPIError),
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        connection.exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def _shut_out_others(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        # Where SQLite is built to overwrite what is deleted (Debian's is), it would first write the old tables once more, as zeros.
        connection.exec_driver_sql("PRAGMA secure_delete=OFF")
        # Python's driver begins a transaction before rows are written, not before tables are altered.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"LOCK TABLE {META.name} IN ACCESS EXCLUSIVE MODE")
