"""A comparison as its page watches it while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kilotune.experiments.comparison.outcome import CaseOutcome
from kilotune.experiments.comparison.records import RecordReader
from kilotune.experiments.dashboard.section_cache import RenderedSections, SectionCache
from kilotune.experiments.presentation.section import Paragraph, Section
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.report.comparison_sections import comparison_sections
from kilotune.experiments.report.page import render_sections
from kilotune.experiments.studies import joining
from kilotune.search.comparison_store import ComparisonRow
from kilotune.search.store import Store
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study


class WatchedComparison:
    """Runs are read again when they have changed; the whole is drawn again after a rest."""

    def __init__(self, store: Store, row: ComparisonRow, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self.created, self.name = row.created, row.name
        self._reader = RecordReader(store)
        self._drawing = SectionCache(clock)

    def drawn(self, row: ComparisonRow, runs: Sequence[StudyRow]) -> tuple[RenderedSections, bool]:
        """The sections, and whether they are of the runs as they are."""
        return self._drawing.of(version_of(row, runs), lambda: render_sections(self._sections()))

    def _sections(self) -> tuple[Section, ...]:
        try:
            return comparison_sections(self._reader.load(self.name), self._study_of)
        except Exception as error:  # an input that is gone, proofs that contradict each other
            return (Section("What is wrong", (Paragraph(f"It cannot be evaluated: {error}"),)),)

    def _study_of(self, case: CaseOutcome) -> tuple[Problem, Study]:
        best = case.best_run()
        problem, study, _ = joining.resume(self._store, case.studies[best.strategy, best.seed])
        return problem, study


def version_of(row: ComparisonRow, runs: Sequence[StudyRow]) -> str:
    """Changes when a run has something new."""
    trials = sum(run.trials for run in runs)
    ended = sum(run.status != "running" for run in runs)
    return f"{row.created:.6f} {len(runs)} {trials} {ended} {len(row.findings)}"
