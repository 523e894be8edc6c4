"""Measurements kept between studies: the same candidate of the same space is measured once.

The key is the hash of the space's fingerprint (its program, data and options), kilotune's version and sources, and the
candidate. What is measured faster than the cache could answer is not kept. Beside them stands what else takes seconds to make (artefacts).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kilotune.evaluators.compiled_library import cache_folder
from kilotune.search.abandoning import uninterrupted
from kilotune.search.encoding import encoding_of
from kilotune.search.executor import Executor, Finished
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Measurement, Space

WORTH_KEEPING_S = 0.001
"""A candidate that takes less is measured again sooner than looked up and written."""

ENOUGH_QUICK = 256
"""So many of them one after another, and nothing is looked up any more: their like was not kept either."""

KEYS_PER_QUERY = 500

SOURCES = (".py", ".c", ".h", ".json")


class EvaluationCache:
    """A SQLite file. A file that cannot be used is no error: then nothing is found and nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "evaluations.db"
        self._connection: sqlite3.Connection | None = None
        with contextlib.suppress(sqlite3.Error, OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=5.0, isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")  # a lost measurement is measured again
            connection.execute("CREATE TABLE IF NOT EXISTS measurements (key TEXT PRIMARY KEY, metrics TEXT)")
            connection.execute("CREATE TABLE IF NOT EXISTS artefacts (key TEXT PRIMARY KEY, content BLOB)")
            self._connection = connection

    def __len__(self) -> int:
        with contextlib.suppress(sqlite3.Error):
            if self._connection is not None:
                return int(self._connection.execute("SELECT COUNT(*) FROM measurements").fetchone()[0])
        return 0

    def find(self, keys: Sequence[str]) -> dict[str, Measurement]:
        """What is known of these keys."""
        found: dict[str, Measurement] = {}
        if self._connection is None:
            return found
        with contextlib.suppress(sqlite3.Error, ValueError):
            for start in range(0, len(keys), KEYS_PER_QUERY):
                part = keys[start : start + KEYS_PER_QUERY]
                query = f"SELECT key, metrics FROM measurements WHERE key IN ({','.join('?' * len(part))})"
                found |= {key: Measurement(json.loads(text)) for key, text in self._connection.execute(query, part)}
        return found

    def keep(self, measurements: Mapping[str, Measurement]) -> None:
        """Those that succeeded; a failure may have been the machine's."""
        if self._connection is None:
            return
        rows = [(key, json.dumps(dict(m.metrics))) for key, m in measurements.items() if m.failure is None]
        with contextlib.suppress(sqlite3.Error, TypeError), uninterrupted():
            self._connection.execute("BEGIN")
            self._connection.executemany("INSERT OR IGNORE INTO measurements VALUES (?, ?)", rows)
            self._connection.execute("COMMIT")

    def artefact(self, key: str) -> bytes | None:
        """What was kept under that name; None: nothing."""
        with contextlib.suppress(sqlite3.Error):
            if self._connection is not None:
                found = self._connection.execute("SELECT content FROM artefacts WHERE key = ?", [key]).fetchone()
                return found[0] if found is not None and isinstance(found[0], bytes) else None
        return None

    def keep_artefact(self, key: str, content: bytes) -> None:
        """What takes long to make and is not a measurement, such as the codes of a candidate's weights. The last one counts."""
        if self._connection is None:
            return
        with contextlib.suppress(sqlite3.Error), uninterrupted():
            self._connection.execute("INSERT OR REPLACE INTO artefacts VALUES (?, ?)", [key, content])

    def clear(self) -> None:
        """Forget everything. ValueError, a sentence, for a file that is no such cache: it stays."""
        ours = self._connection is not None
        self.close()
        if not ours:
            if self.path.is_file():  # it may be somebody else's
                raise ValueError(
                    f"{self.path} is no cache of measurements, or damaged: it is left alone; remove it yourself."
                )
            return
        for path in (self.path, *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm"))):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Safe to call twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def hash_of_sources(folders: Sequence[Path]) -> str:
    """A hash of the Python, C and JSON files in folders (or of single files): a measurement of other code than today's is none,
    though the version be the same."""
    digest = hashlib.blake2b(digest_size=16)
    for folder in folders:
        paths = [folder] if folder.is_file() else folder.rglob("*")
        for path in sorted(p for p in paths if p.suffix in SOURCES):
            digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def has_sources(space: Space) -> bool:
    """Whether the code of a space can be told from what it was yesterday; not where it was typed into a notebook."""
    return _home_of(space) is not None


def _home_of(space: Space) -> Path | None:
    """The folder of the package that the space is from; for somebody else's module that is in none, its file."""
    module = type(space).__module__
    parts = module.split(".")
    package = ".".join(parts[:2]) if parts[0] == "kilotune" else ".".join(parts[:-1])
    for name in (package, module):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and Path(file).is_file():
            return Path(file).parent if Path(file).name == "__init__.py" else Path(file)
    return None


def _packages_of(space: Space) -> list[Path]:
    """What a measurement runs: our ground floors, and the package that the space is from."""
    names = ("kilotune.codegen", "kilotune.evaluators")
    home = _home_of(space)
    return [
        *(Path(str(importlib.import_module(name).__file__)).parent for name in names),
        *([] if home is None else [home]),
    ]


def code_version(space: Space) -> str:
    """Kilotune's version, and a hash of the sources that a measurement runs: what is kept for the space is of no other code."""
    return f"{importlib.metadata.version('kilotune')}\n{hash_of_sources(_packages_of(space))}"


class CachingExecutor:
    """Another executor, whose measurements are kept and recalled."""

    def __init__(self, executor: Executor, space: Space, cache: EvaluationCache) -> None:
        self.workers = executor.workers
        self._executor, self._cache = executor, cache
        self._encoding = encoding_of(space)
        self._prefix = f"{code_version(space)}\n{space.name}\n{space.fingerprint}\n"
        self._chunks: dict[int, Sequence[Assignment]] = {}
        self._quick = 0  # so many one after another

    def recall(self, candidates: Sequence[Assignment]) -> dict[int, Measurement]:
        if self._quick >= ENOUGH_QUICK:
            return {}
        keys = [self._key(candidate) for candidate in candidates]
        known = self._cache.find(keys)
        return {position: known[key] for position, key in enumerate(keys) if key in known}

    def submit(self, ticket: int, chunk: Sequence[Assignment], hurdle: Hurdle | None = None) -> None:
        self._chunks[ticket] = chunk
        self._executor.submit(ticket, chunk, hurdle)

    def results(self, timeout_s: float) -> list[Finished]:
        finished = self._executor.results(timeout_s)
        for one in finished:
            chunk = self._chunks.pop(one.ticket)
            if one.work_s < WORTH_KEEPING_S * len(chunk):
                self._quick += len(chunk)
            else:
                self._quick = 0
                self._cache.keep({self._key(c): m for c, m in zip(chunk, one.measurements, strict=True)})
        return finished

    def cancel(self) -> None:
        self._chunks.clear()
        self._executor.cancel()

    def close(self) -> None:
        self._executor.close()
        self._cache.close()

    def _key(self, candidate: Assignment) -> str:
        text = self._encoding.text(self._encoding.key(candidate))
        return hashlib.blake2b((self._prefix + text).encode(), digest_size=20).hexdigest()
