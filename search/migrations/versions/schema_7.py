"""Studies know how many trials they have, and which is the best."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "schema_7"
down_revision = "schema_6"

_STUDIES = sa.table("studies", *map(sa.column, ("id", "trials")))
_TRIALS = sa.table("trials", sa.column("study_id"))


def upgrade() -> None:
    """Count the trials of every study. Which is the best is not known before the study is searched again: that takes its space."""
    op.add_column("studies", sa.Column("trials", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("studies", sa.Column("best", sa.Text))
    connection = op.get_bind()
    query = sa.select(_TRIALS.c.study_id, sa.func.count()).group_by(_TRIALS.c.study_id)
    for study, count in connection.execute(query).all():
        connection.execute(_STUDIES.update().where(_STUDIES.c.id == study).values(trials=count))
