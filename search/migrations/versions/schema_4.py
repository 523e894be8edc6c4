"""Fingerprints of content.

Before, a fingerprint hung on paths and on the names of classes, so it cannot be made again. A study without one is taken
for what its trials say when it goes on: see `kilotune.search.adoption`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from kilotune.search.schema import UNKNOWN_FINGERPRINT

revision = "schema_4"
down_revision = "schema_3"

_STUDIES = sa.table("studies", sa.column("fingerprint"))


def upgrade() -> None:
    """Forget the old fingerprints."""
    op.execute(_STUDIES.update().values(fingerprint=UNKNOWN_FINGERPRINT))
