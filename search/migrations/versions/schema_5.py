"""Trials may be censored. Those from before are not."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "schema_5"
down_revision = "schema_4"


def upgrade() -> None:
    """A column that says so."""
    op.add_column("trials", sa.Column("censored", sa.Integer, nullable=False, server_default="0"))
