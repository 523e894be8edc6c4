"""The tables in which studies are stored, and their version. Older tables become these in `search/versions.py`."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa

SCHEMA_VERSION = 7
"""The version of `TABLES`; the newest revision in `search/migrations/versions` brings a store there."""

REVISION_TABLE = "kilotune_revision"
"""Where Alembic notes how far it has brought an older store."""

UNKNOWN_FINGERPRINT = ""
"""The fingerprint of a study from before fingerprints were of content."""

TABLES = sa.MetaData()
META = sa.Table("kilotune_meta", TABLES, sa.Column("schema_version", sa.Integer, nullable=False))
STUDIES = sa.Table(
    "studies",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("space", sa.String(255), nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("strategy", sa.String(255), nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("budget", sa.Text, nullable=False),
    sa.Column("decisions", sa.Text),  # JSON [[name, [option, ...]], ...] of a flat space, else NULL
    sa.Column("request", sa.Text, nullable=False),  # JSON object of the caller
    sa.Column("status", sa.String(32), nullable=False),
    sa.Column("outcome", sa.String(32)),
    sa.Column("bound", sa.Float),
    sa.Column("elapsed_s", sa.Float, nullable=False),
    sa.Column("created", sa.Float, nullable=False),  # Unix time
    sa.Column("trials", sa.BigInteger, nullable=False, server_default="0"),  # how many it has
    sa.Column("best", sa.Text),  # JSON [number, rank ...] of the best of all of them; NULL: not known
)
METRIC_NAMES = sa.Table(  # of trials by the million, which have them in common
    "metric_names",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("names", sa.Text, nullable=False),  # JSON [name, ...]
)
TRIALS = sa.Table(
    "trials",
    TABLES,
    sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("candidate_hash", sa.LargeBinary(16), nullable=False),
    sa.Column("candidate", sa.Text, nullable=False),  # `Encoding.text`: option indices, or an object
    sa.Column("names_id", sa.Integer, sa.ForeignKey("metric_names.id"), nullable=False),
    sa.Column("metrics", sa.Text, nullable=False),  # JSON [number, ...], in the order of the names
    sa.Column("failure", sa.Text),
    sa.Column("elapsed_s", sa.Float, nullable=False),
    sa.Column("censored", sa.Integer, nullable=False, server_default="0"),  # 1: metrics are bounds, `search.racing`
    sa.UniqueConstraint("study_id", "candidate_hash"),
)
TUNERS = sa.Table(  # processes that work on a study right now
    "tuners",
    TABLES,
    sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("owner", sa.String(32), primary_key=True),
    sa.Column("beat", sa.Integer, nullable=False),  # grows while the process lives
)
CLAIMS = sa.Table(  # runs of trials that one of them is measuring
    "claims",
    TABLES,
    sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.String(32), nullable=False),
)
COMPARISONS = sa.Table(
    "comparisons",
    TABLES,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("plan", sa.Text, nullable=False),  # JSON object of the caller: what is compared
    sa.Column(
        "findings", sa.Text, nullable=False
    ),  # JSON object of the caller: what was measured once besides the runs
    sa.Column("created", sa.Float, nullable=False),  # Unix time
)
CURVES = sa.Table(  # best-so-far curves of runs that have ended: their trials need not be read again
    "curves",
    TABLES,
    sa.Column("study_id", sa.Integer, sa.ForeignKey("studies.id"), primary_key=True),
    sa.Column("curve", sa.Text, nullable=False),  # JSON
)


def candidate_hash(candidate: str, censored: bool = False) -> bytes:
    """Hash of a candidate's stored text, 16 bytes: what makes two trials of a study the same. A censored one is another than that which
    was measured to the end."""
    return hashlib.blake2b(candidate.encode(), digest_size=16, person=b"censored" if censored else b"").digest()


def repeated_hash(number: int) -> bytes:
    """In the place of the hash, of a trial of an older store whose candidate is that of another trial: one of the two is damaged."""
    return hashlib.blake2b(f"{number}".encode(), digest_size=16, person=b"repeated").digest()
