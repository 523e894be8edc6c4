"""What the page of a study shows: best so far, the best trial's metrics, the space's own figures."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence

import plotly.graph_objects as go

from kilotune.experiments.families.registry import find_offer
from kilotune.experiments.problem import Problem
from kilotune.experiments.report.palette import LINE_COLOURS, NEUTRAL
from kilotune.experiments.report.section import Block, Figure, Paragraph, Section, Table
from kilotune.experiments.report.text import plotly_text
from kilotune.experiments.summary import label
from kilotune.search.anytime import best_so_far
from kilotune.search.front import Ranking
from kilotune.search.result import as_metric
from kilotune.search.space import Constraint, Trial
from kilotune.search.store import StudyRow
from kilotune.search.study import Study

MOST_ROWS = 500
MOST_STEPS = 1500


def sections_of(problem: Problem, study: Study) -> tuple[Section, ...]:
    """Of a study that may still run. What the space draws itself may fail without taking the rest with it."""
    if study.front.best is None:
        return (Section("Best so far", (Paragraph("No trial is finished yet."),)),)
    return (
        Section("Best so far", (_best_so_far(study), _metrics(study))),
        *_drawn_by_the_space(problem, study),
    )


def sections_of_rows(row: StudyRow, trials: Sequence[Trial], trouble: str) -> tuple[Section, ...]:
    """Of a study whose space cannot be built: its trials as they are stored."""
    blocks: list[Block] = [
        Paragraph(f"The space of this study cannot be built: {trouble}"),
        Paragraph("Its trials are all there. Which of them is best is not known without the space."),
    ]
    return (Section("What is wrong", tuple(blocks)), Section("Trials", (_trial_table(row, trials),)))


def _best_so_far(study: Study) -> Figure:
    space, result = study.space, study.result()
    objective = space.objectives[0]
    measured = ((trial.elapsed_s, trial.measurement) for trial in study.trials())
    curve = best_so_far(measured, Ranking.of(space), result.elapsed_s)
    steps = curve.steps[-MOST_STEPS:]
    name = label(objective.metric)
    values = [as_metric(step.loss, objective) for step in steps]
    hover = [
        f"{plotly_text(name)} %{{y}}<br>after {step.evaluations} trials, %{{x:.1f}} s<extra></extra>" for step in steps
    ]
    ends = ([steps[-1].seconds, curve.seconds], [values[-1], values[-1]]) if steps else ([], [])
    figure = go.Figure()
    colour = LINE_COLOURS[0]
    figure.add_scatter(
        x=[step.seconds for step in steps],
        y=values,
        mode="lines+markers",
        name="best so far",
        hovertemplate=hover,
        line={"shape": "hv", "color": colour},
        marker={"color": colour, "size": 7},
    )
    figure.add_scatter(
        x=ends[0], y=ends[1], mode="lines", line={"color": colour}, showlegend=False, hoverinfo="skip", name="until now"
    )
    if result.bound is not None:
        figure.add_scatter(
            x=[0.0, max(curve.seconds, 1e-3)],
            y=[result.bound, result.bound],
            mode="lines",
            name="proved: none better" if result.proved else "bound: none better",
            line={"dash": "dash", "color": NEUTRAL},
            hovertemplate="bound %{y}<extra></extra>",
        )
    figure.update_layout(
        xaxis={"title": "seconds of search", "rangemode": "tozero"}, yaxis={"title": plotly_text(name)}, height=340
    )
    if not steps:
        figure.add_annotation(
            text="no candidate keeps all limits yet", x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False
        )
    return Figure(figure, f"{name.capitalize()} of the best candidate that keeps all limits, over the study's time.")


def _metrics(study: Study) -> Table:
    """The best trial, or the one nearest to what is allowed."""
    result = study.result()
    assert result.best is not None
    metrics = result.best.measurement.metrics
    directions = {o.metric: f"objective, {o.direction.value}" for o in study.space.objectives}
    limits = {c.metric: c for c in study.space.constraints}
    named = [*directions, *(m for m in limits if m not in directions)]
    rest = [m for m in metrics if m not in named]
    rows = [
        (
            label(m),
            metrics.get(m),
            directions.get(m, ""),
            _limit_words(limits[m], metrics.get(m)) if m in limits else "",
        )
        for m in (*named, *rest)
    ]
    which = "Best" if result.feasible else "Nearest to the limits"
    failure = f"; it failed: {result.best.measurement.failure}" if result.best.measurement.failure else ""
    return Table(("metric", "value", "role", "limit"), rows, f"{which}: trial {result.best.number}{failure}.")


def _limit_words(limit: Constraint, value: float | None) -> str:
    kept = limit.violation({} if value is None else {limit.metric: value}) == 0.0
    return f"{'at least' if limit.at_least else 'at most'} {limit.limit:.6g}: {'kept' if kept else 'broken'}"


def _drawn_by_the_space(problem: Problem, study: Study) -> tuple[Section, ...]:
    try:
        _, offer = find_offer(problem.request.space)
        if offer.drawing is None:
            return ()
        drawn: tuple[Section, ...] = importlib.import_module(offer.drawing).draw(problem, study)
    except Exception as error:
        return (
            Section("The space's own figure", (Paragraph(f"It cannot be drawn: {type(error).__name__}: {error}"),)),
        )
    return drawn


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
    columns = ("trial", "seconds", *(label(name) for name in names), *(("failure",) if failed else ()))
    which = "All" if len(shown) == len(trials) else f"The last {len(shown)} of"
    return Table(
        columns, rows, f"{which} {len(trials)} trials of {row.space}, strategy {row.strategy}, seed {row.seed}."
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value
