"""Comparisons in a store: their plans, and what was measured besides their runs. The runs are ordinary studies."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kilotune.search.schema import COMPARISONS
from kilotune.search.store import Store, StoreError


@dataclass(frozen=True)
class ComparisonRow:
    """`plan` and `findings` are JSON objects of the caller's; `created` is Unix time."""

    name: str
    plan: Mapping[str, Any]
    findings: Mapping[str, Any]
    created: float


def comparisons(store: Store, name: str | None = None) -> list[ComparisonRow]:
    """All of a store, oldest first (or only the one of that name). StoreError."""
    query = sa.select(COMPARISONS).order_by(COMPARISONS.c.created)
    if name is not None:
        query = query.where(COMPARISONS.c.name == name)
    with store.transaction() as connection:
        rows = connection.execute(query).all()
    return [ComparisonRow(row.name, json.loads(row.plan), json.loads(row.findings), row.created) for row in rows]


def comparison(store: Store, name: str) -> ComparisonRow:
    """StoreError when there is none of that name; the message lists those that there are."""
    for row in comparisons(store, name):
        return row
    known = ", ".join(row.name for row in comparisons(store)) or "none yet"
    raise StoreError(f"{store.place} holds no comparison {name!r}. Its comparisons: {known}.")


def save_comparison(store: Store, name: str, plan: Mapping[str, Any]) -> None:
    """A new one, or another plan for the one of that name."""
    values = {"name": name, "plan": json.dumps(dict(plan)), "findings": "{}", "created": time.time()}
    with store.transaction() as connection:
        connection.execute(store.insert_new(COMPARISONS), [values])
        connection.execute(COMPARISONS.update().where(COMPARISONS.c.name == name).values(plan=values["plan"]))


def save_findings(store: Store, name: str, findings: Mapping[str, Any]) -> None:
    """In place of those before."""
    with store.transaction() as connection:
        values = {"findings": json.dumps(dict(findings))}
        connection.execute(COMPARISONS.update().where(COMPARISONS.c.name == name).values(values))
