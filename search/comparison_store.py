"""Comparisons in a store: their plans, and what was measured besides their runs. The runs are ordinary studies."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kilotune.search import stored_cells
from kilotune.search.anytime import Curve, Improvement
from kilotune.search.schema import COMPARISONS, CURVES, STUDIES
from kilotune.search.store import Store, StoreError, find_study
from kilotune.search.suggestion import did_you_mean


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
    found = []
    for row in rows:
        with store.damage(f"comparison {row.name!r}"):
            found.append(_comparison_row(row))
    return found


def comparison(store: Store, name: str) -> ComparisonRow:
    """StoreError when there is none of that name; the message lists those that there are."""
    for row in comparisons(store, name):
        return row
    known = [row.name for row in comparisons(store)]
    hint = did_you_mean(name, known)
    raise StoreError(
        f"{store.place} holds no comparison {name!r}{hint}. Its comparisons: {', '.join(known) or 'none yet'}."
    )


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
    curves = {row.name: _curve(row.curve) for row in rows}
    return {name: curve for name, curve in curves.items() if curve is not None}


def _comparison_row(row: Any) -> ComparisonRow:
    """CellError."""
    return ComparisonRow(
        stored_cells.text_of(row.name, "name"),
        stored_cells.object_of(row.plan, "plan"),
        stored_cells.object_of(row.findings, "findings"),
        stored_cells.number_of(row.created, "created"),
    )


def _curve(cell: Any) -> Curve | None:
    """None for one that is damaged: it is made again from the trials."""
    try:
        stored = stored_cells.object_of(cell, "curve")
        steps = tuple(Improvement(int(count), float(seconds), float(loss)) for count, seconds, loss in stored["steps"])
        return Curve(steps, int(stored["evaluations"]), float(stored["seconds"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
