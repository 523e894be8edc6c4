"""What the page of a study shows: the best trial's metrics, the space's own figures, the course of the search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kilotune.experiments.problem import Problem
from kilotune.experiments.report.course import course_section, pareto_sections
from kilotune.experiments.report.reported import Reported
from kilotune.experiments.report.section import Paragraph, Section, Table
from kilotune.experiments.report.study_sections import drawn_sections
from kilotune.experiments.report.text import metric_label
from kilotune.experiments.tuning import TuneOutcome
from kilotune.search.space import Constraint, Trial
from kilotune.search.store import StudyRow
from kilotune.search.study import Study

MOST_ROWS = 500


def sections_of(problem: Problem, study: Study, row: StudyRow) -> tuple[Section, ...]:
    """Of a study that may still run: what `tune report` says without what it measures for it."""
    trials = study.trials()
    if not trials:
        return (Section("Best trial", (Paragraph("No trial is finished yet."),)),)
    outcome = TuneOutcome(problem, study.result(), None, None, {})
    reported = Reported(problem, study, row, trials, outcome)
    return (
        Section("Best trial", (_metrics(study),)),
        course_section(reported),
        *drawn_sections(problem, study),
        *pareto_sections(reported),
    )


def sections_of_rows(row: StudyRow, trials: Sequence[Trial], trouble: str) -> tuple[Section, ...]:
    """Of a study whose space cannot be built: its trials as they are stored."""
    wrong = Paragraph(f"The space of this study cannot be built: {trouble}")
    kept = Paragraph("Its trials are all there. Which of them is best is not known without the space.")
    return (Section("What is wrong", (wrong, kept)), Section("Trials", (_trial_table(row, trials),)))


def _metrics(study: Study) -> Table:
    """The best trial, or the one nearest to what is allowed."""
    result = study.result()
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


def _trial_table(row: StudyRow, trials: Sequence[Trial]) -> Table:
    shown = trials[-MOST_ROWS:]
    names = list(dict.fromkeys(name for trial in shown for name in trial.measurement.metrics))
    failed = any(trial.measurement.failure for trial in shown)
    rows = [
        (
            trial.number,
            round(trial.elapsed_s, 3),
            *(_finite(trial.measurement.metrics.get(name)) for name in names),
            *((trial.measurement.failure or "",) if failed else ()),
        )
        for trial in shown
    ]
    columns = ("trial", "seconds", *(metric_label(name) for name in names), *(("failure",) if failed else ()))
    which = "All" if len(shown) == len(trials) else f"The last {len(shown)} of"
    return Table(
        columns, rows, f"{which} {len(trials)} trials of {row.space}, strategy {row.strategy}, seed {row.seed}."
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
