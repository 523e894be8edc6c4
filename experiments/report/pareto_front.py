"""The Pareto front of a study's first two objectives."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from kilotune.experiments.presentation.axes import axis_of
from kilotune.experiments.presentation.palette import BLUE, NEUTRAL, ORANGE, VERMILLION
from kilotune.experiments.presentation.section import Figure, Section
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.problem_entry import procedure_name
from kilotune.experiments.report.report_data import ReportData, thinned
from kilotune.search.space import Trial

MOST_DOTS = 1500


def pareto_sections(reported: ReportData) -> tuple[Section, ...]:
    """The front of the first two objectives; none where there is one objective."""
    objectives = reported.problem.space.objectives
    if len(objectives) < 2 or not reported.study.front.feasible:
        return ()
    first, second = objectives[:2]
    points = [
        (t.measurement.metrics[first.metric], t.measurement.metrics[second.metric], t)
        for t in reported.trials
        if reported.feasible_metric(t) is not None
    ]
    staircase = _staircase(reported)
    first_label, second_label = (plotly_text(metric_label(o.metric)) for o in (first, second))
    hover = f"trial %{{customdata}}<br>{first_label} %{{x}}<br>{second_label} %{{y}}"
    figure = go.Figure()
    _add_candidates(figure, points, staircase, (first.metric, second.metric), hover)
    _add_results(figure, reported, (first.metric, second.metric), hover.partition("<br>")[2])
    for letter, label in (("x", first_label), ("y", second_label)):
        values = [value for trace in figure.data for value in trace[letter]]
        figure.update_layout({f"{letter}axis": {"title": {"text": label}, **axis_of(values)}})
    met = f"{len(points)}" if len(reported.trials) == len(reported.study.book) else f"{len(points)} of those looked at"
    description = (
        f"{metric_label(first.metric)} ({first.direction.value}) against {metric_label(second.metric)} "
        f"({second.direction.value}): {counted(len(staircase), 'candidate')} that none beats in both, of {met} that meet the "
        f"constraints."
    )
    return (Section("Pareto front", (Figure(figure, description),)),)


def _add_candidates(
    figure: go.Figure,
    points: Sequence[tuple[float, float, Trial]],
    staircase: Sequence[Trial],
    metrics_shown: tuple[str, str],
    hover: str,
) -> None:
    """All candidates, and those that none beats in both metrics."""
    first, second = metrics_shown
    shown = thinned(points, MOST_DOTS)
    figure.add_scatter(
        x=[x for x, _, _ in shown],
        y=[y for _, y, _ in shown],
        customdata=[t.number for _, _, t in shown],
        mode="markers",
        name="candidate",
        marker={"color": NEUTRAL, "size": 5, "opacity": 0.6},
        hovertemplate=f"{hover}<extra></extra>",
    )
    figure.add_scatter(
        x=[t.measurement.metrics[first] for t in staircase],
        y=[t.measurement.metrics[second] for t in staircase],
        customdata=[t.number for t in staircase],
        mode="lines+markers",
        name="Pareto front",
        line={
            "color": BLUE,
            "shape": "hv",
            "width": 2,
        },  # from the best in the first: across what it beats, then better
        marker={"symbol": "diamond", "size": 9},
        hovertemplate=f"{hover}<extra>Pareto front</extra>",
    )


def _add_results(figure: go.Figure, reported: ReportData, metrics_shown: tuple[str, str], hover: str) -> None:
    """The paper's answer and the best candidate, in the two metrics."""
    first, second = metrics_shown
    best, procedure = reported.outcome.result.best, reported.outcome.procedure
    called = procedure_name(reported.problem)
    allowed = procedure is None or reported.feasible_metric(procedure) is not None
    for trial, name, colour, symbol in (
        (procedure, called if allowed else f"{called}, not permitted", ORANGE, "square-open"),
        (best, "best found", VERMILLION, "star"),
    ):
        metrics = {} if trial is None else trial.measurement.metrics
        if first in metrics and second in metrics:
            figure.add_scatter(
                x=[metrics[first]],
                y=[metrics[second]],
                mode="markers",
                name=name,
                marker={
                    "color": colour,
                    "symbol": symbol,
                    "size": 15 if symbol == "star" else 20,
                    "line": {"width": 0 if symbol == "star" else 3},
                },
                hovertemplate=f"{name}<br>{hover}<extra></extra>",
            )


def _staircase(reported: ReportData) -> list[Trial]:
    """Trials that none beats in the first two objectives, by the first. Those are among the front of all objectives, but
    for ties, which look the same."""
    first, second = reported.problem.space.objectives[:2]
    front: list[Trial] = []
    lowest = float("inf")
    losses = (
        (first.loss(t.measurement.metrics), second.loss(t.measurement.metrics), t.number, t)
        for t in reported.study.front.trials
    )
    for _, loss, _, trial in sorted(losses, key=lambda entry: entry[:3]):
        if loss < lowest:
            front.append(trial)
            lowest = loss
    return front
