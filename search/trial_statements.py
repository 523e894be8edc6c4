"""Statements about stored trials, and the names of their metrics, which stand once for all trials that have them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from kilotune.search.schema import METRIC_NAMES, STUDIES, TRIALS

READ_AT_ONCE = 1000
"""Rows; a server would send those of a whole study, gigabytes maybe, before the first is read."""


def trials_query(columns: Iterable[sa.Column[Any]], study: str, first: int = 0) -> sa.Select[Any]:
    """Columns of the trials of a study with numbers from `first` on, by number, and the names of their metrics as `names`: what
    `stored_rows.MetricsReader` reads. Of names that are lost, NULL."""
    query = sa.select(*columns, METRIC_NAMES.c.names).join_from(TRIALS, STUDIES).outerjoin(METRIC_NAMES)
    query = query.where(STUDIES.c.name == study, TRIALS.c.number >= first).order_by(TRIALS.c.number)
    return query.execution_options(yield_per=READ_AT_ONCE)


def names_ids(connection: sa.Connection, wanted: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """The keys under which lists of names of metrics are stored; a new list is written. Two processes may write the same one, which
    does no harm: each trial says which it means."""
    found: dict[str, int] = {row.names: row.id for row in connection.execute(sa.select(METRIC_NAMES))}
    ids = {}
    for names in sorted(wanted):
        text = json.dumps(names)
        if text not in found:
            new = METRIC_NAMES.insert().values(names=text).returning(METRIC_NAMES.c.id)
            found[text] = connection.execute(new).scalar_one()
        ids[names] = found[text]
    return ids
