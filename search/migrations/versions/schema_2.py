"""Hashes of candidates, and processes that share a study."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from kilotune.search.schema import candidate_hash, repeated_hash

revision = "schema_2"
down_revision = "schema_1"

_TRIALS = sa.table(
    "trials", sa.column("study_id"), sa.column("number"), sa.column("candidate"), sa.column("candidate_hash")
)


def upgrade() -> None:
    """Add the tables of processes and claims, and hash every stored candidate; of equal ones, as the database is damaged, the first."""
    op.create_table(
        "tuners",
        sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("owner", sa.String(32), primary_key=True),
        sa.Column("beat", sa.Integer, nullable=False),
    )
    op.create_table(
        "claims",
        sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
    )
    op.add_column("trials", sa.Column("candidate_hash", sa.String(32), nullable=False, server_default=""))
    connection = op.get_bind()
    query = sa.select(_TRIALS.c.study_id, _TRIALS.c.number, _TRIALS.c.candidate)
    rows, known = list[dict[str, Any]](), set[tuple[int, bytes]]()
    for study, number, text in connection.execute(query):
        hashed = candidate_hash(str(text))
        if (study, hashed) in known:
            hashed = repeated_hash(number)
        known.add((study, hashed))
        rows.append({"of_study": study, "of_number": number, "hash": hashed.hex()})
    if rows:
        here = (_TRIALS.c.study_id == sa.bindparam("of_study")) & (_TRIALS.c.number == sa.bindparam("of_number"))
        connection.execute(sa.update(_TRIALS).where(here).values(candidate_hash=sa.bindparam("hash")), rows)
    op.create_index("trials_candidate", "trials", ["study_id", "candidate_hash"], unique=True)
