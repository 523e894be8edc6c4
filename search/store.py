"""Studies on disk: SQLAlchemy Core on SQLite (write-ahead log) by default, on any database by its URL.

A finished trial is written once and never changed; `kill -9` of the writer loses none that `append` returned for.
"""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url

from kilotune.search.liveness import beats_in, living
from kilotune.search.schema import (
    CLAIMS,
    CURVES,
    SCHEMA_VERSION,
    STUDIES,
    TRIALS,
    TUNERS,
    candidate_hash,
)
from kilotune.search.stored_cells import CellError
from kilotune.search.stored_rows import (
    PLAIN_COLUMNS,
    BestTrial,
    MetricsReader,
    StudyRow,
    TrialRow,
    study_row,
    trial_values,
)
from kilotune.search.suggestion import did_you_mean
from kilotune.search.trial_statements import names_ids, trials_query
from kilotune.search.versions import (
    bring_up_to_date,
    give_back_room,
    has_tables,
    make_tables,
    other_programs_tables,
    other_programs_tables_in,
    version_of,
)

ATTEMPTS_TO_PREPARE = 20
MOST_SHOWN = 5
BUSY_MS = 10_000
"""How long a SQLite store is waited for that another process writes to."""


class StoreError(Exception):
    """The store cannot be used; the message says what to do about it."""


class NameTakenError(StoreError):
    """A new study has the name of another one."""


class Store:
    """All studies of one database."""

    def __init__(self, url: str) -> None:
        """`url` is a database URL or the path of a SQLite file, created when missing. StoreError when it cannot be."""
        self.url = url if "://" in url else f"sqlite:///{url}"
        with _url_errors(url):
            parsed = make_url(self.url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.place = parsed.database or "memory" if parsed.drivername == "sqlite" else parsed.render_as_string()
        try:
            with _url_errors(url):
                if parsed.drivername.startswith("sqlite") and _is_path(parsed.database):
                    Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
                self._engine = _engine(url, parsed)
        except OSError as error:
            raise StoreError(f"The folder for the studies of {self.place} cannot be made: {error.strerror}.") from None
        except sa.exc.NoSuchModuleError:
            kind = parsed.drivername
            raise StoreError(
                f"The storage {url!r} is of a kind {kind!r} that is not known: expected sqlite or postgresql."
            ) from None
        except ImportError as error:
            raise StoreError(
                f"No driver for the database {parsed.render_as_string()} is installed ({error}); "
                f"for PostgreSQL: pip install 'kilotune[postgresql]'."
            ) from None
        if parsed.drivername.startswith("sqlite"):
            if _is_path(parsed.database):
                self._refuse_other_programs(other_programs_tables_in(Path(str(parsed.database))))
            event.listen(self._engine, "connect", _set_pragmas)
        try:
            with self._errors(), _url_errors(url):
                self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._engine.dispose()

    def create(self, study: StudyRow) -> None:
        """NameTakenError, a StoreError, when the name is taken."""
        values = {
            "decisions": None if study.decisions is None else json.dumps(study.decisions),
            "request": json.dumps(dict(study.request)),
            **{name: getattr(study, name) for name in PLAIN_COLUMNS},
        }
        with self._errors():
            try:
                with self._engine.begin() as connection:
                    connection.execute(STUDIES.insert().values(values))
            except sa.exc.IntegrityError:
                raise NameTakenError(
                    f"{self.place} already holds a study {study.name!r}: resume it, or choose another name."
                ) from None

    def study(self, name: str) -> StudyRow:
        """StoreError when there is no such study; the message lists those that there are."""
        for study in self.studies(name):
            return study
        known = self.study_names()
        hint = did_you_mean(name, known)
        raise StoreError(f"{self.place} holds no study {name!r}{hint}. Its studies: {', '.join(known) or 'none yet'}.")

    def study_names(self) -> list[str]:
        """The names of all studies, oldest first."""
        with self._errors(), self._engine.connect() as connection:
            names = connection.execute(sa.select(STUDIES.c.name).order_by(STUDIES.c.id)).scalars().all()
        return [name for name in names if isinstance(name, str)]

    def studies(self, name: str | None = None, damaged: Callable[[StoreError], object] | None = None) -> list[StudyRow]:
        """All studies, oldest first (or only the one of that name). A study with a damaged cell of its own is told to
        `damaged` and left out; without that it is a StoreError."""
        query = sa.select(STUDIES).order_by(STUDIES.c.id)
        if name is not None:
            query = query.where(STUDIES.c.name == name)
        with self._errors(), self._engine.connect() as connection:
            rows = list(connection.execute(query).mappings())
        found = []
        for row in rows:
            try:
                found.append(self._study_row(row))
            except StoreError as error:
                if damaged is None:
                    raise
                damaged(error)
        return found

    def append(
        self, name: str, trials: Sequence[TrialRow], best: BestTrial | None = None, known: int = 0, **changes: Any
    ) -> None:
        """Write finished trials and the study's changed columns (status, outcome, bound, elapsed_s, budget) in one
        transaction: when this returns, they survive the death of this process. A trial whose number or candidate is
        there already (another process took it over) changes nothing.

        `best`: of `known` trials, which are these and others of the study. Without it nobody knows from now on which is the best."""
        with self.transaction() as connection:
            study_id = find_study(connection, name)
            if trials:
                names_id = names_ids(connection, {tuple(trial.metrics) for trial in trials})
                rows = [trial_values(study_id, trial, names_id[tuple(trial.metrics)]) for trial in trials]
                written = self._insert_trials(connection, rows)
                known = known if written == len(trials) else 0
                changes |= _counted(connection, study_id, written, best, known)
            if changes:
                connection.execute(STUDIES.update().where(STUDIES.c.id == study_id).values(changes))

    def _insert_trials(self, connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """How many were not there yet. By the driver itself: there may be hundreds of thousands, and SQLAlchemy looks at every value of
        every row."""
        statement = self.insert_new(TRIALS).compile(dialect=self._engine.dialect, column_keys=list(rows[0]))
        values: list[Any] = list(rows)
        if statement.positiontup is not None:
            values = [tuple([row[name] for name in statement.positiontup]) for row in rows]
        return connection.exec_driver_sql(str(statement), values).rowcount

    def change_request(self, name: str, request: Mapping[str, Any]) -> None:
        """Keep another JSON object of the caller's with a study. StoreError when there is no such study."""
        self.study(name)
        with self.transaction() as connection:
            changed = STUDIES.update().where(STUDIES.c.name == name).values(request=json.dumps(dict(request)))
            connection.execute(changed)

    def trials(self, name: str, first: int = 0, last: int | None = None) -> Iterator[TrialRow]:
        """The trials of a study with numbers from `first` to `last` (None: all from there), by number."""
        query = trials_query(TRIALS.c, name, first)
        if last is not None:
            query = query.where(TRIALS.c.number <= last)
        reader = MetricsReader()
        with self._errors(), self._engine.connect() as connection:
            for row in connection.execute(query):
                with self.damage(f"study {name!r}, trial {row.number}"):
                    trial = reader.trial(row)
                yield trial

    def rewrite(self, name: str, candidates: Mapping[int, str], **changes: Any) -> None:
        """Replace the stored texts of candidates, by trial number, and change the study's columns, in one transaction."""
        with self.transaction() as connection:
            study_id = find_study(connection, name)
            for number, text in candidates.items():
                here = (TRIALS.c.study_id == study_id) & (TRIALS.c.number == number)
                values = {"candidate": text, "candidate_hash": candidate_hash(text)}
                connection.execute(TRIALS.update().where(here).values(values))
            connection.execute(STUDIES.update().where(STUDIES.c.id == study_id).values(changes))

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

    @contextlib.contextmanager
    def damage(self, owner: str) -> Iterator[None]:
        """StoreError where a cell of that owner ("study 'x', trial 3") holds something else than its column is for."""
        try:
            yield
        except CellError as error:
            raise StoreError(
                f"{self.place} is damaged: {owner}, {error}; restore the file, or use another --storage."
            ) from None

    def _study_row(self, row: Mapping[Any, Any]) -> StudyRow:
        with self.damage(f"study {row['name']!r}"):
            return study_row(row)

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
            if not has_tables(connection):
                self._refuse_other_programs(other_programs_tables(connection))
                make_tables(connection)
                return SCHEMA_VERSION
            version = version_of(connection)
        if version is not None and 1 <= version < SCHEMA_VERSION:
            check = self._refuse_while_searched()
            if bring_up_to_date(self._engine, check):
                give_back_room(self._engine)
            return SCHEMA_VERSION
        return version

    def _refuse_while_searched(self) -> Callable[[sa.Connection], None]:
        """StoreError while an older kilotune works on a study of an older store: into tables of today it could not write. What is returned
        says so of one that has begun, or beaten, since."""
        with self._engine.connect() as connection:
            if not sa.inspect(connection).has_table(TUNERS.name):  # schema version 1, when nobody could say so
                return lambda connection: None
            before = beats_in(connection)
        self._refuse_searched(living(self._engine.begin))

        def check(connection: sa.Connection) -> None:
            self._refuse_searched(name for (name, _), _ in beats_in(connection).items() - before.items())

        return check

    def _refuse_searched(self, studies: Iterable[str]) -> None:
        searched = sorted(set(studies))
        if searched:
            shown = ", ".join(map(repr, searched[:MOST_SHOWN])) + (", ..." if len(searched) > MOST_SHOWN else "")
            raise StoreError(
                f"{self.place} was made by an older kilotune, which still works on {shown} in it: wait until that ends, or stop "
                f"it (its trials are kept), and the studies are brought up to date; or use another --storage."
            )

    def _refuse_other_programs(self, tables: Sequence[str]) -> None:
        """StoreError where there are any."""
        if tables:
            shown = ", ".join(tables[:MOST_SHOWN]) + (", ..." if len(tables) > MOST_SHOWN else "")
            raise StoreError(
                f"{self.place} is a database of another program (its tables: {shown}): use another --storage; nothing in it "
                f"was changed."
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise StoreError(_sentence(self.place, str(error.orig))) from error


@contextlib.contextmanager
def _url_errors(url: str) -> Iterator[None]:
    """StoreError for a URL whose parts nobody can use; its parameters are read as late as at the first connection."""
    try:
        yield
    except (sa.exc.ArgumentError, ValueError, TypeError, UnicodeError, OverflowError) as error:
        if isinstance(error, sa.exc.NoSuchModuleError):
            raise
        raise StoreError(f"The storage {url!r} is not a database URL; sqlite:///studies.db would be one.") from None


def _engine(url: str, parsed: sa.URL) -> sa.Engine:
    """StoreError for parameters of a URL that its driver does not know, of which SQLAlchemy only warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", sa.exc.SAWarning)
        try:
            return sa.create_engine(parsed, json_serializer=None)
        except sa.exc.SAWarning:
            found = ", ".join(map(repr, parsed.query))
            raise StoreError(
                f"The storage {url!r} is not a database URL that {parsed.drivername} reads: expected parameters that it "
                f"knows, found {found}."
            ) from None


def _counted(
    connection: sa.Connection, study_id: int, written: int, best: BestTrial | None, known: int
) -> dict[str, Any]:
    """Columns of a study that has so many trials more, behind their insertion, so that nobody else writes meanwhile: the better one of two
    processes' best is that of all trials, if the one before was, or if who says so knows all of them."""
    query = sa.select(STUDIES.c.trials, STUDIES.c.best).where(STUDIES.c.id == study_id)
    # PostgreSQL: every process that has inserted trials shares the study's key.
    row = connection.execute(query.with_for_update(key_share=True)).one()
    count = row.trials + written
    before = BestTrial.from_cell(row.best)
    if best is None or (before is None and known < count):
        return {"trials": count, "best": None}
    return {"trials": count, "best": (best if before is None else min(before, best)).text}


def find_study(connection: sa.Connection, name: str) -> int:
    """The key of a study that exists."""
    key: int = connection.execute(sa.select(STUDIES.c.id).where(STUDIES.c.name == name)).scalar_one()
    return key


def _set_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    # Readers do not block the writer, and with NORMAL a commit needs no fsync, yet outlives its process.
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _is_path(database: str | None) -> bool:
    """Whether SQLite will open a file of that name: not memory, and not a URI."""
    return bool(database) and database != ":memory:" and not str(database).startswith("file:")


def _sentence(place: str, reason: str) -> str:
    """What the user can do about the database's own words."""
    reason = " ".join(reason.split()).rstrip(".")
    lower = reason.lower()
    if any(words in lower for words in ("not a database", "malformed", "could not decode")):
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
