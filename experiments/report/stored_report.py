"""The page of a stored study or comparison, whatever became of its input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kilotune.experiments.artefacts.inputs import files_read
from kilotune.experiments.comparison.outcome import CaseOutcome
from kilotune.experiments.comparison.plan import ComparisonPlan
from kilotune.experiments.comparison.records import RecordReader
from kilotune.experiments.presentation.section import Section
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.report.comparison_sections import comparison_sections, comparison_title
from kilotune.experiments.report.page import render_page
from kilotune.experiments.report.study_sections import study_sections, study_title
from kilotune.experiments.report.unavailable_space import NO_REQUEST, LastTrials, sections_of_rows, trouble_of
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies import joining
from kilotune.search.comparison_store import comparisons
from kilotune.search.space import Trial
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study
from kilotune.search.suggestion import did_you_mean


@dataclass(frozen=True)
class ReportPage:
    """A whole file, and the sections that it shows. `trouble`: why it shows trials only, a sentence."""

    text: str
    sections: tuple[Section, ...]
    trouble: str = ""


def report_page(store: Store, name: str) -> ReportPage:
    """The page of the study of that name, else of the comparison. StoreError, which lists what there is, when there is neither."""
    if not store.studies(name) and comparisons(store, name):
        outcome = RecordReader(store).load(name)

        def study_of(case: CaseOutcome) -> tuple[Problem, Study]:
            run = case.best_run()
            problem, study, _ = joining.resume(store, case.studies[run.strategy, run.seed])
            return problem, study

        sections = comparison_sections(outcome, study_of)
        return ReportPage(render_page(comparison_title(outcome), sections), sections)
    row = _row(store, name)
    try:
        if "space" not in row.request:
            raise ValueError(NO_REQUEST)
        problem, study, row = joining.resume(store, name)
    except (ValueError, OSError, StoreError) as error:
        trouble = trouble_of(error)
        trials = LastTrials()
        trials.take(Trial(t.number, {}, t.measurement, t.elapsed_s) for t in store.trials(name))
        sections = sections_of_rows(row, trials, trouble)
        return ReportPage(render_page(f"Study {name}", sections), sections, trouble)
    sections = study_sections(problem, study, row)
    return ReportPage(render_page(study_title(problem), sections, f"Study {name}"), sections)


def _row(store: Store, name: str) -> StudyRow:
    """StoreError: there is no study of that name; the message lists those that are no run of a comparison, and the
    comparisons."""
    if not store.studies(name):
        readable = store.studies(damaged=lambda error: None)
        studies = [row.name for row in readable if "comparison" not in row.request]
        compared = [row.name for row in comparisons(store)]
        raise StoreError(
            f"{store.place} holds no study or comparison {name!r}{did_you_mean(name, studies + compared)}. "
            f"Its studies: {', '.join(studies) or 'none yet'}. Its comparisons: {', '.join(compared) or 'none yet'}."
        )
    return store.study(name)


def files_behind(store: Store, name: str) -> tuple[Path, ...]:
    """What the studies behind a report read; empty where that is not known."""
    requests = [TuneRequest.from_json(row.request) for row in store.studies(name) if "space" in row.request]
    for row in comparisons(store, name):
        requests += [case.request() for case in ComparisonPlan.from_json(row.plan).cases]
    return tuple(file for request in requests for file in files_read(request))
