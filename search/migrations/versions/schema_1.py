"""The first stores: studies and trials. They were made whole, so there is nothing to do."""

from __future__ import annotations

revision = "schema_1"
down_revision = None


def upgrade() -> None:
    """Nothing: a store of this version exists already."""
