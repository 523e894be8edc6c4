"""Trials of a study that is still growing, each read once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from kilotune.search import stored_cells
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

    def __init__(self) -> None:
        self._read: set[int] = set()
        self._next = 0

    def __len__(self) -> int:
        return len(self._read)

    def new(self, stored: int, rows_from: Callable[[int], Iterable[RowT]]) -> list[RowT]:
        """Rows that have not been read, given that the store held `stored` of them a moment ago. `rows_from`: all with
        that number or a higher one."""
        if stored == len(self._read):
            return []
        rows = list(rows_from(self._next))
        if len(self._read) + len(rows) < stored:
            first_missing = next(n for n in itertools.count() if n not in self._read)
            rows = [row for row in rows_from(first_missing) if row.number not in self._read]
        self.mark(row.number for row in rows)
        return rows

    def mark(self, numbers: Iterable[int]) -> None:
        """They have been read."""
        self._read.update(numbers)
        self._next = max(self._read, default=-1) + 1


def measured(store: Store, study: str, first: int) -> list[Trial]:
    """Trials from number `first` on without their candidates, which are most of what a study stores."""
    columns = (TRIALS.c.number, TRIALS.c.metrics, TRIALS.c.failure, TRIALS.c.elapsed_s, TRIALS.c.censored)
    with store.transaction() as connection:
        rows = connection.execute(trials_query(columns, study, first)).all()
    reader, trials = MetricsReader(), []
    for row in rows:
        with store.damage(f"study {study!r}, trial {row.number}"):
            metrics, elapsed_s = reader.metrics(row), stored_cells.number_of(row.elapsed_s, "elapsed_s")
            trials.append(Trial(row.number, {}, Measurement(metrics, row.failure, bool(row.censored)), elapsed_s))
    return trials
