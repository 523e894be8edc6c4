"""Run by Alembic: brings the store behind `config.attributes["connection"]` to a revision, in the caller's transaction."""

from __future__ import annotations

from alembic import context

from kilotune.search.schema import REVISION_TABLE, TABLES

context.configure(
    connection=context.config.attributes["connection"], target_metadata=TABLES, version_table=REVISION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
