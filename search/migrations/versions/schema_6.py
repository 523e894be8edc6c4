"""Trials in two fifths of the room: the names of metrics stand once for all trials that have them, hashes are bytes, and lists of option
indices have no blanks."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from kilotune.search.schema import candidate_hash, repeated_hash

revision = "schema_6"
down_revision = "schema_5"

_AT_ONCE = 10_000
_WORTH_A_WORD = 100_000  # trials; some four seconds

_SAME = ("study_id", "number", "candidate", "metrics", "failure", "elapsed_s", "censored")
_OLD = sa.table("trials", *map(sa.column, _SAME))
_NEW = sa.table("trials_6", *map(sa.column, (*_SAME, "candidate_hash", "names_id")))
"""Without types: what a damaged cell holds goes over as it is."""


def upgrade() -> None:
    """Write every trial anew. A list of metrics' names that cannot be read, as the database is damaged, stays with its trial."""
    names = op.create_table(
        "metric_names",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("names", sa.Text, nullable=False),
    )
    op.create_table(
        "trials_6",
        sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("candidate_hash", sa.LargeBinary(16), nullable=False),
        sa.Column("candidate", sa.Text, nullable=False),
        sa.Column("names_id", sa.Integer, sa.ForeignKey("metric_names.id"), nullable=False),
        sa.Column("metrics", sa.Text, nullable=False),
        sa.Column("failure", sa.Text),
        sa.Column("elapsed_s", sa.Float, nullable=False),
        sa.Column("censored", sa.Integer, nullable=False, server_default="0"),
        sa.UniqueConstraint("study_id", "candidate_hash"),
    )
    connection, ids = op.get_bind(), dict[str, int]()
    for rows in _batches(connection):
        values = []
        for row in rows:
            text, metrics = _split(row["metrics"])
            if text not in ids:
                ids[text] = connection.execute(names.insert().values(names=text).returning(names.c.id)).scalar_one()
            candidate = row["candidate"]
            if isinstance(candidate, str) and candidate.startswith("["):
                candidate = candidate.replace(" ", "")
            hashed = candidate_hash(str(candidate), bool(row["censored"]))
            changed = {"candidate": candidate, "candidate_hash": hashed, "names_id": ids[text], "metrics": metrics}
            values.append({**row, **changed})
        _insert(connection, values)
    op.drop_table("trials")
    op.rename_table("trials_6", "trials")


def _insert(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Where a damaged candidate became that of another trial, the later one of the two has no hash of a candidate."""
    with contextlib.suppress(sa.exc.IntegrityError), connection.begin_nested():
        connection.execute(_NEW.insert(), rows)
        return
    for row in rows:
        with contextlib.suppress(sa.exc.IntegrityError), connection.begin_nested():
            connection.execute(_NEW.insert(), row)
            continue
        connection.execute(_NEW.insert(), {**row, "candidate_hash": repeated_hash(row["number"])})


def _batches(connection: sa.Connection) -> Iterator[Sequence[dict[str, Any]]]:
    """All trials by study and number, some thousands at once."""
    count = connection.execute(sa.select(sa.func.count()).select_from(_OLD)).scalar_one()
    if count > _WORTH_A_WORD:
        logging.getLogger(__name__).warning("The store's %d trials are written anew, in less room. Please wait.", count)
    after = sa.tuple_(_OLD.c.study_id, _OLD.c.number)
    query = sa.select(_OLD).order_by(_OLD.c.study_id, _OLD.c.number).limit(_AT_ONCE)
    rows = connection.execute(query).mappings().all()
    while rows:
        yield [dict(row) for row in rows]
        last = (rows[-1]["study_id"], rows[-1]["number"])
        rows = connection.execute(query.where(after > last)).mappings().all()


def _split(cell: Any) -> tuple[str, Any]:
    """The names of metrics, and their numbers, each as JSON. A damaged cell is left to whoever reads the trial."""
    try:
        metrics = json.loads(cell)
    except (TypeError, ValueError, RecursionError):
        return "[]", cell
    if not isinstance(metrics, dict):
        return "[]", cell
    return json.dumps(list(metrics)), json.dumps(list(metrics.values()), separators=(",", ":"))
