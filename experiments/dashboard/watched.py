"""One study as its page watches it: read as it grows, drawn again when there is something new, never more often than the
processor that searches can spare."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kilotune.experiments import tuning
from kilotune.experiments.dashboard.live_sections import sections_of
from kilotune.experiments.dashboard.reading import Reading, measured
from kilotune.experiments.problem import Problem
from kilotune.experiments.report.page import render_sections
from kilotune.experiments.report.unbuilt import NO_REQUEST, sections_of_rows, trouble_of
from kilotune.search.store import Store, StudyRow
from kilotune.search.study import Study

REST = 8
"""A drawing is followed by a rest of so many times its CPU time: a page costs the machine a ninth of a core at most."""


class Rest:
    """Says when to draw again. The first drawing counts little: imports and inputs are paid once."""

    def __init__(self, clock: Callable[[], float], cost: Callable[[], float] = time.thread_time) -> None:
        self._clock, self._cost = clock, cost
        self._until_s = -math.inf
        self._first = True

    @property
    def over(self) -> bool:
        """Whether it is time."""
        return self._clock() >= self._until_s

    @contextlib.contextmanager
    def after(self) -> Iterator[None]:
        """Around a drawing."""
        began_s = self._cost()
        yield
        spent_s = 0.1 if self._first else self._cost() - began_s
        self._first = False
        self._until_s = self._clock() + REST * spent_s


@dataclass(frozen=True)
class Drawn:
    """The sections as HTML. `version` says what was known when they were drawn."""

    version: str
    html: str


class WatchedStudy:
    """Built once: the input is read, the space made. A study whose space cannot be built shows its trials all the same."""

    def __init__(self, store: Store, row: StudyRow, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self.created, self.name = row.created, row.name
        self._lock = threading.Lock()
        self._reading = Reading()
        self._drawn: Drawn | None = None
        self._rest = Rest(clock)
        self._trials: list[Any] = []  # of a study without a space
        self.problem: Problem | None = None
        self.study: Study | None = None
        self.trouble = ""

    def drawn(self, row: StudyRow) -> tuple[Drawn, bool]:
        """The sections, and whether they are of `row` as it is. Whoever comes while they are drawn gets the ones before."""
        version = version_of(row)
        earlier = self._drawn
        if earlier is not None and (earlier.version == version or not self._rest.over):
            return earlier, earlier.version == version
        if not self._lock.acquire(blocking=earlier is None):
            assert earlier is not None
            return earlier, False
        try:
            if self._drawn is None or self._drawn.version != version:
                with self._rest.after():
                    self._drawn = Drawn(version, self._draw(row))
            return self._drawn, True
        finally:
            self._lock.release()

    def catch_up(self, row: StudyRow) -> Study | None:
        """The study with all its trials, as the store has it; None where the space cannot be built. For one thread at a time."""
        if self.study is None and not self.trouble:
            self._open(row)
        if self.study is not None:
            rows = self._reading.new(row.trials, lambda first: self._store.trials(row.name, first))
            self.study.take_in(row, rows)
        else:
            self._trials += self._reading.new(row.trials, lambda first: measured(self._store, row.name, first))
        return self.study

    def exclusively(self, row: StudyRow, use: Callable[[Study], Any]) -> Any:
        """What `use` makes of the study as it is. ValueError, a sentence, for one whose space cannot be built."""
        with self._lock:
            study = self.catch_up(row)
            if study is None:
                raise ValueError(f"The space of study {row.name!r} cannot be built: {self.trouble}")
            return use(study)

    def _draw(self, row: StudyRow) -> str:
        study = self.catch_up(row)
        if study is None or self.problem is None:
            return render_sections(sections_of_rows(row, self._trials, self.trouble))
        return render_sections(sections_of(self.problem, study, row))

    def _open(self, row: StudyRow) -> None:
        if "space" not in row.request:
            self.trouble = NO_REQUEST
            return
        try:
            self.problem, self.study, _ = tuning.resume(self._store, row.name)
        except Exception as error:
            self.trouble = trouble_of(error)
        if self.study is not None:
            self._reading.mark(trial.number for trial in self.study.trials())


def version_of(row: StudyRow) -> str:
    """Changes when the study has something new to show."""
    return f"{row.created:.6f} {row.trials} {row.status} {row.outcome} {row.bound}"
