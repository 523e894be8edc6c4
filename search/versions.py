"""Which version of its tables a store has, and how it is brought to today's (by Alembic, `search/migrations`).

Releases before revisions look at `kilotune_meta.schema_version` only; it goes on counting, so that they refuse a newer
store in a sentence. Version N is the revision `schema_N`.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from kilotune.search.schema import META, REVISION_TABLE, SCHEMA_VERSION, TABLES

MIGRATIONS = Path(__file__).parent / "migrations"


def has_tables(connection: sa.Connection) -> bool:
    """Whether the database is a store, or is about to become one."""
    return sa.inspect(connection).has_table(META.name)


def version_of(connection: sa.Connection) -> int | None:
    """The version of a store's tables; None where another process is making them."""
    version: int | None = connection.execute(sa.select(META.c.schema_version)).scalars().first()
    return version


def make_tables(connection: sa.Connection) -> None:
    """All tables of an empty store, in today's version."""
    TABLES.create_all(connection)
    connection.execute(META.insert().values(schema_version=SCHEMA_VERSION))


def bring_up_to_date(connection: sa.Connection) -> None:
    """Alter the tables of an older store, in the connection's transaction: other processes wait, and one that is killed
    leaves the store as it was."""
    _shut_out_others(connection)
    version = version_of(connection)
    if version is None or version >= SCHEMA_VERSION:  # another process was faster
        return
    # Alembic takes a sixth of a second to import, and hardly any store is old.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    if not sa.inspect(connection).has_table(REVISION_TABLE):
        command.stamp(config, f"schema_{version}")
    command.upgrade(config, "head")
    connection.execute(META.update().values(schema_version=SCHEMA_VERSION))


def _shut_out_others(connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        # Python's driver begins a transaction before rows are written, not before tables are altered.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"LOCK TABLE {META.name} IN ACCESS EXCLUSIVE MODE")
