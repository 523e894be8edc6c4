"""Which studies a living process works on. Each process beats in the store; whether it still does is seen on our clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import sqlalchemy as sa

from kilotune.search.liveness import is_gone
from kilotune.search.schema import STUDIES, TUNERS
from kilotune.search.store import Store
from kilotune.search.work_sharing import DEAD_AFTER_S


class Heartbeats:
    """Ask it again and again: a process that died on another machine is found out by its silence."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._seen: dict[tuple[str, str], tuple[int, float]] = {}  # (study, owner): beat, and when we first saw it
        self._lock = threading.Lock()

    def running(self) -> dict[str, int]:
        """Names of the studies that processes work on right now, and how many do."""
        query = sa.select(STUDIES.c.name, TUNERS.c.owner, TUNERS.c.beat).join(
            STUDIES, TUNERS.c.study_id == STUDIES.c.id
        )
        with self._store.transaction() as connection:
            beats = {(row.name, row.owner): row.beat for row in connection.execute(query)}
        now = self._clock()
        with self._lock:
            self._seen = {
                key: self._seen[key] if key in self._seen and self._seen[key][0] == beat else (beat, now)
                for key, beat in beats.items()
            }
            alive = [key for key, (_, since) in self._seen.items() if now - since <= DEAD_AFTER_S]
        counts: dict[str, int] = {}
        for name, owner in alive:
            if not is_gone(owner):
                counts[name] = counts.get(name, 0) + 1
        return counts
