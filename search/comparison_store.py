"""Comparisons in a store: their plans, and what was measured besides their runs. The runs are ordinary studies."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kilotune.search.anytime import Curve, Step
from kilotune.search.schema import COMPARISONS, CURVES, STUDIES
from kilotune.search.store import Store, StoreError, find_study


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


def save_curve(store: Store, study: str, curve: Curve) -> None:
    """The best-so-far curve of a study as it stands."""
    steps = [[step.evaluations, step.seconds, step.loss] for step in curve.steps]
    text = json.dumps({"evaluations": curve.evaluations, "seconds": curve.seconds, "steps": steps})
    with store.transaction() as connection:
        key = find_study(connection, study)
        connection.execute(CURVES.delete().where(CURVES.c.study_id == key))
        connection.execute(CURVES.insert().values(study_id=key, curve=text))


def saved_curves(store: Store) -> dict[str, Curve]:
    """All that were saved, by study. One is out of date where its evaluations or seconds are no longer the study's."""
    query = sa.select(STUDIES.c.name, CURVES.c.curve).join(CURVES, CURVES.c.study_id == STUDIES.c.id)
    with store.transaction() as connection:
        rows = connection.execute(query).all()
    return {row.name: _curve(json.loads(row.curve)) for row in rows}


def _curve(stored: Mapping[str, Any]) -> Curve:
    return Curve(tuple(Step(*step) for step in stored["steps"]), stored["evaluations"], stored["seconds"])
