"""Stores as earlier versions of kilotune made them, from one of today: so that they are brought up to date before a test's eyes."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa

TRIALS_5 = """
    CREATE TABLE old_trials (
        study_id INTEGER NOT NULL, number BIGINT NOT NULL, candidate_hash VARCHAR(32) NOT NULL, candidate TEXT NOT NULL,
        metrics TEXT NOT NULL, failure TEXT, elapsed_s FLOAT NOT NULL, censored INTEGER DEFAULT '0' NOT NULL,
        PRIMARY KEY (study_id, number), UNIQUE (study_id, candidate_hash), FOREIGN KEY(study_id) REFERENCES studies (id)
    )
"""
"""A row had the names of its metrics, blanks between indices, and a hash in hexadecimal digits."""

WITHOUT_COMPARISONS = ("DROP TABLE comparisons", "DROP TABLE curves")
TO_4 = ("ALTER TABLE trials DROP COLUMN censored",)
TO_2 = (*TO_4, *WITHOUT_COMPARISONS)
TO_1 = (
    "CREATE TABLE old AS SELECT study_id, number, candidate, metrics, failure, elapsed_s FROM trials",
    *("DROP TABLE trials", "DROP TABLE tuners", "DROP TABLE claims", *WITHOUT_COMPARISONS),
    """CREATE TABLE trials (study_id INTEGER NOT NULL, number BIGINT NOT NULL, candidate TEXT NOT NULL,
        metrics TEXT NOT NULL, failure TEXT, elapsed_s FLOAT NOT NULL, PRIMARY KEY (study_id, number))""",
    *("INSERT INTO trials SELECT * FROM old", "DROP TABLE old"),
)
FROM_5 = {1: TO_1, 2: TO_2, 4: TO_4, 5: ()}
INSERTED = "INSERT INTO old_trials VALUES (:study, :number, :hash, :text, :metrics, :failure, :elapsed_s, :censored)"


TO_6 = ("ALTER TABLE studies DROP COLUMN trials", "ALTER TABLE studies DROP COLUMN best")


def make_older(url: str, version: int) -> None:
    """Turn a store of today that nobody has open into one of an earlier version, 1, 2, 4, 5 or 6."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        if version < 6:
            _make_5(connection)
        for statement in (*TO_6, *FROM_5.get(version, ()), f"UPDATE kilotune_meta SET schema_version = {version}"):
            connection.execute(sa.text(statement))
    engine.dispose()


def _make_5(connection: sa.Connection) -> None:
    """The trials of version 5."""
    connection.execute(sa.text(TRIALS_5))
    found = connection.execute(sa.text("SELECT trials.*, names FROM trials JOIN metric_names ON names_id = id"))
    for row in found.all():
        text = row.candidate.replace(",", ", ") if row.candidate.startswith("[") else row.candidate
        hashed = hashlib.blake2b(text.encode(), digest_size=16, person=b"censored" if row.censored else b"")
        values = {
            "study": row.study_id,
            "number": row.number,
            "hash": hashed.hexdigest(),
            "text": text,
            "metrics": json.dumps(dict(zip(json.loads(row.names), json.loads(row.metrics), strict=True))),
            "failure": row.failure,
            "elapsed_s": row.elapsed_s,
            "censored": row.censored,
        }
        connection.execute(sa.text(INSERTED), values)
    for statement in ("DROP TABLE trials", "ALTER TABLE old_trials RENAME TO trials", "DROP TABLE metric_names"):
        connection.execute(sa.text(statement))
