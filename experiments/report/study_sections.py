"""The sections of a study's report."""

from __future__ import annotations

import dataclasses
import importlib
import logging
from typing import cast

from kilotune.experiments.presentation.section import Paragraph, Section
from kilotune.experiments.problems.drawing import Drawing
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.problem_entry import entry_of
from kilotune.experiments.report.convergence import convergence_section
from kilotune.experiments.report.pareto_front import pareto_sections
from kilotune.experiments.report.placed_candidates import placed_sections
from kilotune.experiments.report.report_data import ReportData, shown_trials
from kilotune.experiments.report.request_section import request_section
from kilotune.experiments.report.result_section import artefact_sections, profile_sections, result_section, unended
from kilotune.experiments.report.trials import best_trials_section, decisions_sections, failures_sections
from kilotune.experiments.studies import tuning
from kilotune.search.result import Status
from kilotune.search.space import Trial
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study


def study_title(problem: Problem) -> str:
    """The title of a study's page."""
    return f"{problem.request.space} on {problem.name}"


def study_sections(problem: Problem, study: Study, row: StudyRow) -> tuple[Section, ...]:
    """What was asked, what was found, the space's own figures, how the search went, what the trials say."""
    asked = request_section(problem, row)
    if not len(study.book):
        ended = unended(study) if study.status is Status.RUNNING else f"`tune resume {study.name}` goes on with it."
        nothing = Paragraph(f"This study holds no trial yet. {ended}")
        return (asked, Section("What was found", (nothing,)))
    outcome = tuning.conclude(problem, study, study.result(), most_checked=0)
    trials, places = shown_trials(study, (outcome.result.best, outcome.exported))
    reported = ReportData(problem, study, row, trials, outcome, places)
    best = reported.outcome.exported
    return (
        asked,
        result_section(reported),
        *placed_sections(reported.outcome.placing),
        *_of_the_search(drawn_sections(problem, study), study.front.best, best),
        *pareto_sections(reported),
        convergence_section(reported),
        *decisions_sections(reported),
        *failures_sections(reported),
        best_trials_section(reported),
        *(() if best is None else (*profile_sections(problem, best), *artefact_sections(problem, best))),
    )


def _of_the_search(drawn: tuple[Section, ...], found: Trial | None, exported: Trial | None) -> tuple[Section, ...]:
    """The space's own figures, which know the study alone: said of them where another candidate was chosen after the search."""
    if not drawn or found is None or exported is None or found.number == exported.number:
        return drawn
    said = f"The best trial is here what the search found best, trial {found.number}; trial {exported.number} was chosen after it."
    return (dataclasses.replace(drawn[0], blocks=(Paragraph(said), *drawn[0].blocks)), *drawn[1:])


def drawn_sections(problem: Problem, study: Study) -> tuple[Section, ...]:
    """The space's own figures. A drawing that fails is said, and costs no more than itself."""
    module = entry_of(problem)[1].drawing
    if module is None:
        return ()
    try:
        return cast(Drawing, importlib.import_module(module).draw)(problem, study)
    except Exception as error:
        logging.getLogger(__name__).debug("drawing of %s", problem.request.space, exc_info=True)
        sentence = (
            f"The figures of the space {problem.request.space} could not be drawn: {type(error).__name__}: {error}"
        )
        return (Section("Not drawn", (Paragraph(sentence),)),)
