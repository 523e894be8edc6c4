"""Studies on disk: SQLAlchemy Core on SQLite (write-ahead log) by default, on any database by its URL.

A finished trial is written once and never changed; `kill -9` of the writer loses none that `append` returned for.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url

from kilotune.search.schema import (
    CLAIMS,
    CURVES,
    META,
    SCHEMA_VERSION,
    STUDIES,
    TABLES,
    TRIALS,
    TUNERS,
    candidate_hash,
    upgrade_from_1,
    upgrade_from_2,
)

ATTEMPTS_TO_PREPARE = 20


class StoreError(Exception):
    """The store cannot be used; the message says what to do about it."""


@dataclass(frozen=True)
class StudyRow:
    """What is stored about a study besides its trials. `decisions` is None for a space that is not flat."""

    name: str
    space: str
    fingerprint: str
    strategy: str
    seed: int
    budget: str = "unlimited"
    decisions: Sequence[Sequence[Any]] | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    status: str = "running"
    outcome: str | None = None
    bound: float | None = None  # loss of the first objective
    elapsed_s: float = 0.0
    created: float = field(default_factory=time.time)
    trials: int = 0


@dataclass(frozen=True)
class TrialRow:
    """A stored trial; `candidate` is the text of the space's encoding."""

    number: int
    candidate: str
    metrics: Mapping[str, float]
    failure: str | None
    elapsed_s: float


class Store:
    """All studies of one database."""

    def __init__(self, url: str) -> None:
        """`url` is a database URL or the path of a SQLite file, created when missing. StoreError when it cannot be."""
        self.url = url if "://" in url else f"sqlite:///{url}"
        try:
            parsed = make_url(self.url)
        except sa.exc.ArgumentError:
            raise StoreError(f"{url!r} is not a database URL; sqlite:///studies.db would be one.") from None
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.place = parsed.database or "memory" if parsed.drivername == "sqlite" else parsed.render_as_string()
        try:
            if parsed.drivername.startswith("sqlite") and _is_path(parsed.database):
                Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
            self._engine = sa.create_engine(parsed, json_serializer=None)
        except OSError as error:
            raise StoreError(f"The folder for the studies of {self.place} cannot be made: {error.strerror}.") from None
        except (sa.exc.NoSuchModuleError, ImportError) as error:
            raise StoreError(
                f"No driver for the database {parsed.render_as_string()} is installed ({error}); "
                f"for PostgreSQL: pip install 'kilotune[postgresql]'."
            ) from None
        if parsed.drivername.startswith("sqlite"):
            event.listen(self._engine, "connect", _set_pragmas)
        with self._errors():
            self._prepare()

    def close(self) -> None:
        self._engine.dispose()

    def create(self, study: StudyRow) -> None:
        """StoreError when the name is taken."""
        values = {
            "decisions": None if study.decisions is None else json.dumps(study.decisions),
            "request": json.dumps(dict(study.request)),
            **{name: getattr(study, name) for name in _PLAIN_COLUMNS},
        }
        with self._errors():
            try:
                with self._engine.begin() as connection:
                    connection.execute(STUDIES.insert().values(values))
            except sa.exc.IntegrityError:
                raise StoreError(
                    f"{self.place} already holds a study {study.name!r}: resume it, or choose another name."
                ) from None

    def study(self, name: str) -> StudyRow:
        """StoreError when there is no such study; the message lists those that there are."""
        for study in self.studies(name):
            return study
        known = ", ".join(study.name for study in self.studies()) or "none yet"
        raise StoreError(f"{self.place} holds no study {name!r}. Its studies: {known}.")

    def studies(self, name: str | None = None) -> list[StudyRow]:
        """All studies, oldest first (or only the one of that name)."""
        count = sa.select(sa.func.count()).where(TRIALS.c.study_id == STUDIES.c.id).scalar_subquery()
        query = sa.select(STUDIES, count.label("trials")).order_by(STUDIES.c.id)
        if name is not None:
            query = query.where(STUDIES.c.name == name)
        with self._errors(), self._engine.connect() as connection:
            return [_study_row(row) for row in connection.execute(query).mappings()]

    def append(self, name: str, trials: Sequence[TrialRow], **changes: Any) -> None:
        """Write finished trials and the study's changed columns (status, outcome, bound, elapsed_s, budget) in one
        transaction: when this returns, they survive the death of this process. A trial whose number or candidate is
        there already (another process took it over) changes nothing."""
        with self.transaction() as connection:
            study_id = find_study(connection, name)
            if trials:
                rows = [_trial_values(study_id, trial) for trial in trials]
                connection.execute(self.insert_new(TRIALS), rows)
            if changes:
                connection.execute(STUDIES.update().where(STUDIES.c.id == study_id).values(changes))

    def trials(self, name: str, first: int = 0, last: int | None = None) -> Iterator[TrialRow]:
        """The trials of a study with numbers from `first` to `last` (None: all from there), by number."""
        query = sa.select(TRIALS).join(STUDIES).where(STUDIES.c.name == name, TRIALS.c.number >= first)
        if last is not None:
            query = query.where(TRIALS.c.number <= last)
        with self._errors(), self._engine.connect() as connection:
            for row in connection.execute(query.order_by(TRIALS.c.number)):
                yield TrialRow(row.number, row.candidate, json.loads(row.metrics), row.failure, row.elapsed_s)

    def delete(self, name: str) -> None:
        """Remove a study and its trials. StoreError when there is no such study."""
        self.study(name)
        with self.transaction() as connection:
            study_id = find_study(connection, name)
            for table in (TRIALS, CLAIMS, TUNERS, CURVES):
                connection.execute(table.delete().where(table.c.study_id == study_id))
            connection.execute(STUDIES.delete().where(STUDIES.c.id == study_id))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """A connection whose changes become visible, all at once, when the block ends. StoreError."""
        with self._errors(), self._engine.begin() as connection:
            yield connection

    def insert_new(self, table: sa.Table) -> sa.Insert:
        """An insert that leaves out rows whose keys are taken, where the database has one."""
        if self._engine.dialect.name == "sqlite":
            return sqlite.insert(table).on_conflict_do_nothing()
        if self._engine.dialect.name == "postgresql":
            return postgresql.insert(table).on_conflict_do_nothing()
        return table.insert()

    def _prepare(self) -> None:
        """Make the tables, or see that they are of this version. Another process may be making them right now."""
        version = None
        for attempt in range(ATTEMPTS_TO_PREPARE):
            try:
                version = self._version_or_create()
            except sa.exc.OperationalError as error:
                if "already exists" not in str(error.orig) or attempt + 1 == ATTEMPTS_TO_PREPARE:
                    raise
            if version is not None:
                break
            time.sleep(0.1)
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.place} holds studies of schema version {version}, and this kilotune reads version "
                f"{SCHEMA_VERSION}: use another --storage, or the kilotune that wrote them."
            )

    def _version_or_create(self) -> int | None:
        """The schema's version; None where the tables are there, and the version is not yet."""
        with self._engine.begin() as connection:
            if not sa.inspect(connection).has_table(META.name):
                TABLES.create_all(connection)
                connection.execute(META.insert().values(schema_version=SCHEMA_VERSION))
                return SCHEMA_VERSION
            version: int | None = connection.execute(sa.select(META.c.schema_version)).scalars().first()
            if version == 1:
                upgrade_from_1(connection)
            if version in (1, 2):
                upgrade_from_2(connection)
                return SCHEMA_VERSION
            return version

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise StoreError(_sentence(self.place, str(error.orig))) from error


def find_study(connection: sa.Connection, name: str) -> int:
    """The key of a study that exists."""
    key: int = connection.execute(sa.select(STUDIES.c.id).where(STUDIES.c.name == name)).scalar_one()
    return key


def _trial_values(study_id: int, trial: TrialRow) -> dict[str, Any]:
    return {
        "study_id": study_id,
        "number": trial.number,
        "candidate_hash": candidate_hash(trial.candidate),
        "candidate": trial.candidate,
        "metrics": json.dumps(dict(trial.metrics), default=_plain_number),
        "failure": trial.failure,
        "elapsed_s": trial.elapsed_s,
    }


_PLAIN_COLUMNS = (
    *("name", "space", "fingerprint", "strategy", "seed", "budget"),
    *("status", "outcome", "bound", "elapsed_s", "created"),
)


def _study_row(row: Mapping[Any, Any]) -> StudyRow:
    return StudyRow(
        decisions=None if row["decisions"] is None else json.loads(row["decisions"]),
        request=json.loads(row["request"]),
        trials=row["trials"],
        **{name: row[name] for name in _PLAIN_COLUMNS},
    )


def _set_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=10000")
    # Readers do not block the writer, and with NORMAL a commit needs no fsync, yet outlives its process.
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _is_path(database: str | None) -> bool:
    """Whether SQLite will open a file of that name: not memory, and not a URI."""
    return bool(database) and database != ":memory:" and not str(database).startswith("file:")


def _plain_number(value: Any) -> Any:
    if hasattr(value, "item"):  # a NumPy scalar
        return value.item()
    raise TypeError(f"a metric must be a number, not {value!r}")


def _sentence(place: str, reason: str) -> str:
    """What the user can do about the database's own words."""
    reason = " ".join(reason.split()).rstrip(".")
    lower = reason.lower()
    if "not a database" in lower or "malformed" in lower:
        return f"{place} is not a study database, or it is damaged ({reason}): move it away, or use another --storage."
    if "unable to open" in lower:
        return f"{place} cannot be opened or created ({reason}): does its folder exist, and may you write there?"
    if "readonly" in lower or "read-only" in lower:
        return f"{place} may not be written ({reason}): change its permissions, or use another --storage."
    if "connection" in lower:
        return f"The database server of {place} does not answer ({reason}): start it, then resume the study."
    if "locked" in lower:
        return f"{place} is locked by another process ({reason}): wait for it, or use another --storage."
    if "full" in lower:
        return f"There is no room left for {place} ({reason}): free some, then resume the study."
    return f"The study database {place} failed: {reason}."
