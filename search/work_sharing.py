"""How several processes that run the same study divide its trials among themselves.

All of them replay the same strategy from the same seed, so they propose the same candidates under the same numbers.
Before measuring, a process claims numbers in the store; what another one has claimed it waits for. A process that dies
stops beating, and after a while the others take its claims over: at once where they share its machine and see that it
is gone. Whether it beats is seen by each on its own monotonic clock, so no machine's wall clock matters.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import sqlalchemy as sa

from kilotune.search.liveness import BEAT_S, WATCH_S, is_gone, living, own_machine
from kilotune.search.schema import CLAIMS, STUDIES, TRIALS, TUNERS
from kilotune.search.store import Store, StoreError, find_study
from kilotune.search.stored_rows import TrialRow

DEAD_AFTER_S = 15.0
OWN_RUNS_KEPT = 64
"""So many claims of our own may stay in the store though their trials are there: to ask for these takes longer than a claim."""


class WorkSharing(Protocol):
    """What a run asks before and while it measures."""

    def claim(self, numbers: Sequence[int], most: int) -> list[int]:
        """At most `most` of the ascending numbers, in order and perhaps none, that this process is to measure."""

    def arrivals(self, numbers: Sequence[int]) -> list[TrialRow]:
        """What others have measured of ascending numbers."""

    @property
    def others(self) -> int:
        """How many other processes work on the study."""

    def leave(self) -> None:
        """Give back what was claimed."""


class SoleWorker:
    """Nobody else can be there: the study is not in a store."""

    others = 0

    def claim(self, numbers: Sequence[int], most: int) -> list[int]:
        return list(numbers[:most])

    def arrivals(self, numbers: Sequence[int]) -> list[TrialRow]:
        return []

    def leave(self) -> None:
        return None


class SharedStudy:
    """A stored study. A thread of its own beats, however long a proposal or an evaluation takes."""

    def __init__(self, store: Store, study: str) -> None:
        self._store, self._name, self._owner = store, study, f"{own_machine()}-{os.getpid()}-{uuid.uuid4().hex[:10]}"
        self._seen: dict[str, tuple[int, float]] = {}  # of the others: beat, and when we first saw it (monotonic)
        self._left = threading.Event()
        with store.transaction() as connection:
            self._study = find_study(connection, study)
            self._register(connection)
        self._heartbeat = threading.Thread(target=self._beat, daemon=True, name="kilotune-pulse")
        self._heartbeat.start()

    def claim(self, numbers: Sequence[int], most: int) -> list[int]:
        if not numbers or most <= 0:
            return []
        with self._store.transaction() as connection:
            # An update first: from here on no other process can claim until this transaction ends.
            connection.execute(STUDIES.update().where(STUDIES.c.id == self._study).values(name=self._name))
            self._release_dead_workers(connection)
            taken = self._taken(connection, numbers)
            mine = list(_first_run((n for n in numbers if n not in taken), most))
            if mine:
                run = {"study_id": self._study, "first": mine[0], "last": mine[-1], "owner": self._owner}
                connection.execute(CLAIMS.insert().values(run))
        return mine

    def arrivals(self, numbers: Sequence[int]) -> list[TrialRow]:
        wanted = set(numbers)
        rows = self._store.trials(self._name, numbers[0], numbers[-1]) if numbers else ()
        return [row for row in rows if row.number in wanted]

    @property
    def others(self) -> int:
        return len(self._seen)

    def leave(self) -> None:
        self._left.set()
        self._heartbeat.join()
        with contextlib.suppress(StoreError), self._store.transaction() as connection:
            self._forget(connection, self._owner)

    def _taken(self, connection: sa.Connection, numbers: Sequence[int]) -> set[int]:
        """Finished numbers, and those that living processes measure. Our own runs leave the table once there are some and all
        their trials are in the store, or it would grow with the study; so do those of processes that nobody knows."""
        rows = connection.execute(sa.select(CLAIMS).where(CLAIMS.c.study_id == self._study)).all()
        own = [row for row in rows if row.owner == self._owner]
        asked = own if len(own) >= OWN_RUNS_KEPT else []
        first = min([numbers[0], *(row.first for row in asked)])
        last = max([numbers[-1], *(row.last for row in asked)])
        number = TRIALS.c.number
        query = sa.select(number).where(TRIALS.c.study_id == self._study, number.between(first, last))
        finished = set(connection.execute(query).scalars())
        open_ones = [row for row in own if not (asked and finished.issuperset(range(row.first, row.last + 1)))]
        open_ones += [row for row in rows if row.owner in self._seen]
        kept = {row.first for row in open_ones}
        void = [row.first for row in rows if row.first not in kept]
        if void:
            connection.execute(CLAIMS.delete().where(CLAIMS.c.study_id == self._study, CLAIMS.c.first.in_(void)))
        return finished.union(*(range(row.first, row.last + 1) for row in open_ones))

    def _release_dead_workers(self, connection: sa.Connection) -> None:
        now = time.monotonic()
        query = sa.select(TUNERS.c.owner, TUNERS.c.beat).where(TUNERS.c.study_id == self._study)
        beats = {row.owner: row.beat for row in connection.execute(query)}
        if beats.pop(self._owner, None) is None:  # we were asleep so long that others took us for dead
            self._register(connection)
        self._seen = {
            owner: self._seen[owner] if owner in self._seen and self._seen[owner][0] == beat else (beat, now)
            for owner, beat in beats.items()
        }
        for owner, (_, since) in list(self._seen.items()):
            if now - since > DEAD_AFTER_S or is_gone(owner):
                self._forget(connection, owner)
                del self._seen[owner]

    def _forget(self, connection: sa.Connection, owner: str) -> None:
        for table in (CLAIMS, TUNERS):
            connection.execute(table.delete().where(table.c.study_id == self._study, table.c.owner == owner))

    def _beat(self) -> None:
        while not self._left.wait(BEAT_S):
            mine = (TUNERS.c.study_id == self._study) & (TUNERS.c.owner == self._owner)
            with contextlib.suppress(StoreError), self._store.transaction() as connection:
                beaten = connection.execute(TUNERS.update().where(mine).values(beat=TUNERS.c.beat + 1))
                if not beaten.rowcount:
                    self._register(connection)

    def _register(self, connection: sa.Connection) -> None:
        """The pulse and a claim may do it at the same time."""
        mine = {"study_id": self._study, "owner": self._owner, "beat": 0}
        connection.execute(self._store.insert_new(TUNERS).values(mine))


def at_work(store: Store, study: str, watch_s: float = WATCH_S) -> bool:
    """Whether another process works on the study: watched for that long where the store names one that may be dead."""
    return study in working(store, [study], watch_s)


def working(store: Store, studies: Sequence[str] | None = None, watch_s: float = WATCH_S) -> Counter[str]:
    """See `liveness.living`. StoreError."""
    return living(store.transaction, studies, watch_s)


def _first_run(numbers: Iterable[int], most: int) -> Iterator[int]:
    """Consecutive numbers from the first on."""
    expected = None
    for number in itertools.islice(numbers, most):
        if expected not in (None, number):
            return
        yield number
        expected = number + 1
