"""One study as its page watches it: read as it grows, drawn again when there is something new, never more often than the
processor that searches can spare."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kilotune.experiments.dashboard.live_sections import sections_of
from kilotune.experiments.dashboard.section_cache import RenderedSections, SectionCache
from kilotune.experiments.dashboard.trial_reader import TrialReader, measured
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.report.page import render_sections
from kilotune.experiments.report.unavailable_space import NO_REQUEST, LastTrials, sections_of_rows, trouble_of
from kilotune.experiments.studies import joining
from kilotune.experiments.studies.measured_finalists import FINALIST
from kilotune.search.store import Store
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study


class WatchedStudy:
    """Built once: the input is read, the space made. A study whose space cannot be built shows its trials all the same."""

    def __init__(self, store: Store, row: StudyRow, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self.created, self.name = row.created, row.name
        self._reading = TrialReader()
        self._drawing = SectionCache(clock)
        self._trials = LastTrials()  # of a study without a space
        self.problem: Problem | None = None
        self.study: Study | None = None
        self.trouble = ""

    @property
    def read(self) -> tuple[Problem, Study] | None:
        """Both, once they have been read; None where the space cannot be built."""
        return None if self.problem is None or self.study is None else (self.problem, self.study)

    def drawn(self, row: StudyRow) -> tuple[RenderedSections, bool]:
        """The sections, and whether they are of `row` as it is. Whoever comes while they are drawn gets the ones before."""
        return self._drawing.of(version_of(row), lambda: self._draw(row))

    def catch_up(self, row: StudyRow) -> Study | None:
        """The study with all its trials, as the store has it; None where the space cannot be built. For one thread at a time."""
        if self.study is None and not self.trouble:
            self._open(row)
        if self.study is not None:
            rows = self._reading.new(row.trials, lambda first: self._store.trials(row.name, first))
            self.study.take_in(row, rows)
        else:
            self._trials.take(self._reading.new(row.trials, lambda first: measured(self._store, row.name, first)))
        return self.study

    def exclusively(self, row: StudyRow, use: Callable[[Study], Any]) -> Any:
        """What `use` makes of the study as it is. ValueError, a sentence, for one whose space cannot be built."""
        with self._drawing.lock:
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
            self.problem, self.study, _ = joining.resume(self._store, row.name)
        except Exception as error:
            self.trouble = trouble_of(error)
        if self.study is not None:
            self._reading = TrialReader(self.study.book.numbers(), self.study.book.next_number)


def version_of(row: StudyRow) -> str:
    """Changes when the study has something new to show, which candidate was chosen after the search among it."""
    return f"{row.created:.6f} {row.trials} {row.status} {row.outcome} {row.bound} {row.request.get(FINALIST)}"
