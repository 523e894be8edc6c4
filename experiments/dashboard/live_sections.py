"""What the page of a study shows: the best trial's metrics, the space's own figures, the course of the search."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kilotune.experiments.presentation.section import Paragraph, Section, Table
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.report.convergence import convergence_section
from kilotune.experiments.report.pareto_front import pareto_sections
from kilotune.experiments.report.report_data import ReportData, shown_trials
from kilotune.experiments.report.study_sections import drawn_sections
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.experiments.studies.procedure_outcome import ProcedureOutcome, ProcedureState
from kilotune.experiments.studies.tuning import TuneOutcome
from kilotune.search.result import Result
from kilotune.search.space import Constraint
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study


def sections_of(problem: Problem, study: Study, row: StudyRow) -> tuple[Section, ...]:
    """The sections of a study that may still run: those of `tune report` without what it measures for them."""
    if not len(study.book):
        return (Section("Best trial", (Paragraph("No trial is finished yet."),)),)
    result = kept_finalist(problem, study, study.result())
    outcome = TuneOutcome(problem, result, ProcedureOutcome(ProcedureState.NOT_ENDED), None, {})
    trials, places = shown_trials(study, (outcome.result.best,))
    reported = ReportData(problem, study, row, trials, outcome, places)
    return (
        Section("Best trial", (_metrics(study, result),)),
        convergence_section(reported),
        *drawn_sections(problem, study),
        *pareto_sections(reported),
    )


def _metrics(study: Study, result: Result) -> Table:
    """The best trial, that which was chosen after the search where one was, or the one nearest to what is allowed."""
    assert result.best is not None
    metrics = result.best.measurement.metrics
    goals = {o.metric: f"objective, {o.direction.value}" for o in study.space.objectives}
    limits = {c.metric: _limit_words(c, metrics) for c in study.space.constraints}
    named = dict.fromkeys((*goals, *limits, *metrics))
    rows = [(metric_label(m), _finite(metrics.get(m)), goals.get(m, ""), limits.get(m, "")) for m in named]
    which = "Best" if result.feasible else "Nearest to the limits"
    failure = f"; it failed: {result.best.measurement.failure}" if result.best.measurement.failure else ""
    return Table(("metric", "value", "role", "limit"), rows, f"{which}: trial {result.best.number}{failure}.")


def _limit_words(limit: Constraint, metrics: Mapping[str, float]) -> str:
    kept = limit.violation(metrics) == 0.0
    return f"{'at least' if limit.at_least else 'at most'} {limit.limit:.6g}: {'kept' if kept else 'broken'}"


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
