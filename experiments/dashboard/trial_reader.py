"""Trials of a study that is still growing, each read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from kilotune.search import stored_cells
from kilotune.search.number_set import NumberSet
from kilotune.search.schema import TRIALS
from kilotune.search.space import Measurement, Trial
from kilotune.search.store import Store
from kilotune.search.stored_rows import MetricsReader
from kilotune.search.trial_statements import trials_query


class Numbered(Protocol):
    """A row of a trial."""

    @property
    def number(self) -> int:
        """Within the study."""


RowT = TypeVar("RowT", bound=Numbered)


class TrialReader:
    """Knows which trials have been read. Several processes may share a study, so a low number can come late."""

    def __init__(self, read: NumberSet | None = None, following: int = 0) -> None:
        """`read`: the numbers of those that have been read elsewhere, all below `following`."""
        self._read = NumberSet() if read is None else read
        self._next = following  # above all that were read
        self._unbroken = 0  # all below were read

    def __len__(self) -> int:
        return len(self._read)

    def new(self, stored: int, rows_from: Callable[[int], Iterable[RowT]]) -> Iterator[RowT]:
        """Rows that have not been read, one at a time, given that the store held `stored` of them a moment ago. `rows_from`: all with
        that number or a higher one. A row counts as read once the next one is asked for."""
        if stored == len(self._read):
            return
        yield from self._unread(rows_from(self._next))
        if len(self._read) < stored:
            while self._unbroken in self._read:
                self._unbroken += 1
            yield from self._unread(rows_from(self._unbroken))

    def _unread(self, rows: Iterable[RowT]) -> Iterator[RowT]:
        for row in rows:
            if row.number not in self._read:
                yield row
                self._read.add(row.number)
                self._next = max(self._next, row.number + 1)


def measured(store: Store, study: str, first: int) -> Iterator[Trial]:
    """Trials from number `first` on without their candidates, which are most of what a study stores; one at a time, as a search of
    hours has tens of millions."""
    columns = (TRIALS.c.number, TRIALS.c.metrics, TRIALS.c.failure, TRIALS.c.elapsed_s, TRIALS.c.censored)
    reader = MetricsReader()
    with store.transaction() as connection:
        for row in connection.execute(trials_query(columns, study, first)):
            with store.damage(f"study {study!r}, trial {row.number}"):
                number = stored_cells.count_of(row.number, "number")
                elapsed_s = stored_cells.number_of(row.elapsed_s, "elapsed_s")
                measurement = Measurement(reader.metrics(row), row.failure, bool(row.censored))
                trial = Trial(number, {}, measurement, elapsed_s)
            yield trial
