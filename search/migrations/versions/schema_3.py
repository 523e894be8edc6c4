"""Comparisons, and the curves of their runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "schema_3"
down_revision = "schema_2"


def upgrade() -> None:
    """Add both tables."""
    op.create_table(
        "comparisons",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("findings", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_table(
        "curves",
        sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("curve", sa.Text, nullable=False),
    )
