"""How the search went: best-so-far curves, and the Pareto front of the first two objectives."""

from __future__ import annotations

import plotly.graph_objects as go

from kilotune.experiments.report.palette import BLUE, GREEN, NEUTRAL, ORANGE, VERMILLION
from kilotune.experiments.report.reported import Reported, thinned
from kilotune.experiments.report.section import Figure, Paragraph, Section
from kilotune.experiments.report.text import metric_label, plotly_text
from kilotune.search.anytime import Curve, best_so_far
from kilotune.search.result import as_metric
from kilotune.search.space import Trial

MOST_DOTS = 1500
LOGARITHMIC_FROM = 1000
"""With more evaluations than that, the axis is logarithmic: the early improvements are what is to be seen."""


def course_section(reported: Reported) -> Section:
    """Best-so-far over evaluations and over time."""
    measured = ((trial.elapsed_s, trial.measurement) for trial in reported.trials)
    curve = best_so_far(measured, reported.ranking, reported.seconds)
    if not curve.steps:
        return Section("How the search went", (Paragraph("No candidate that meets the constraints was found."),))
    if curve.evaluations == 1:
        return Section(
            "How the search went", (Paragraph("One candidate was measured, so there is no course to draw."),)
        )
    label = metric_label(reported.problem.space.objectives[0].metric)
    return Section(
        "How the search went",
        (
            Paragraph(_when(reported, curve, label)),
            Figure(
                _best_so_far(reported, curve, by_time=False),
                f"Best {label} so far, by evaluations. Dots are single candidates that meet the constraints.",
            ),
            Figure(_best_so_far(reported, curve, by_time=True), "The same, by seconds since the study began."),
        ),
    )


def _when(reported: Reported, curve: Curve, label: str) -> str:
    """When the best candidate was found; the curve knows of the first objective only, and others may have gone on."""
    best, last = reported.outcome.result.best, curve.steps[-1]
    assert best is not None
    place = next(n for n, trial in enumerate(reported.trials, start=1) if trial.number == best.number)
    earlier = "" if place == last.evaluations else f" Its {label} had been reached with evaluation {last.evaluations}."
    return (
        f"The best candidate was found with evaluation {place} of {curve.evaluations}, after {best.elapsed_s:.3g} s; "
        f"the first feasible one with evaluation {curve.steps[0].evaluations}.{earlier}"
    )


def _best_so_far(reported: Reported, curve: Curve, by_time: bool) -> go.Figure:
    objective = reported.problem.space.objectives[0]
    label = plotly_text(metric_label(objective.metric))
    steps = [
        (step.seconds if by_time else step.evaluations, as_metric(step.loss, objective), step) for step in curve.steps
    ]
    end = max(curve.seconds, steps[-1][0]) if by_time else curve.evaluations
    xs, ys = [x for x, _, _ in steps] + [end], [y for _, y, _ in steps] + [steps[-1][1]]
    figure = go.Figure()
    places = dict(zip((trial.number for trial in reported.trials), range(1, len(reported.trials) + 1), strict=True))
    dots = [
        (trial.elapsed_s if by_time else places[trial.number], metric, trial.number)
        for trial in reported.trials
        if (metric := reported.feasible_metric(trial)) is not None
    ]
    shown = thinned(dots, MOST_DOTS)
    figure.add_scatter(
        x=[x for x, _, _ in shown],
        y=[y for _, y, _ in shown],
        customdata=[n for _, _, n in shown],
        mode="markers",
        name="candidate",
        marker={"color": NEUTRAL, "size": 5, "opacity": 0.6},
        hovertemplate=f"trial %{{customdata}}<br>{label} %{{y}}<extra></extra>",
    )
    figure.add_scatter(
        x=xs,
        y=ys,
        customdata=[[s.evaluations, s.seconds] for _, _, s in steps] + [[curve.evaluations, curve.seconds]],
        mode="lines+markers",
        name="best so far",
        line={"color": BLUE, "shape": "hv", "width": 2.5},
        marker={"size": 6, "symbol": "circle"},
        hovertemplate=f"{label} %{{y}}<br>evaluation %{{customdata[0]}}, %{{customdata[1]:.3g}} s<extra>best so far</extra>",
    )
    logarithmic = curve.evaluations > LOGARITHMIC_FROM or (by_time and 0 < 100 * xs[0] < end)
    start = min([x for x, _, _ in shown] + xs) if logarithmic else 0
    result = reported.outcome.result
    for value, name, colour, dash in (
        (reported.paper_metric, "paper's procedure", ORANGE, "dash"),
        (None if result.bound == ys[-1] else result.bound, "bound", GREEN, "dot"),
    ):
        if value is not None:
            figure.add_scatter(
                x=[start or xs[0] * 0.9, end],
                y=[value, value],
                mode="lines",
                name=name,
                line={"color": colour, "dash": dash, "width": 2},
                hovertemplate=f"{name}: {label} %{{y}}<extra></extra>",
            )
    figure.update_layout(
        xaxis={"title": {"text": "seconds" if by_time else "evaluations"}},
        yaxis={"title": {"text": label}},
    )
    if logarithmic:
        figure.update_xaxes(type="log", exponentformat="power", dtick=1 if end > 100 * start else "D2")
    _focus(figure, [y for y in ys if y is not None], [y for _, y, _ in dots])
    return figure


def _focus(figure: go.Figure, best: list[float], dots: list[float]) -> None:
    """Where single candidates are far worse than the best ones, the curve decides what is seen."""
    levels = sorted(dots)
    low, high = levels[len(levels) // 20], levels[-1 - len(levels) // 20]
    values = [*best, low, high, *(y for trace in figure.data[2:] for y in trace.y)]
    margin = 0.06 * (max(values) - min(values)) or abs(max(values)) * 0.05 or 1.0
    figure.update_yaxes(range=[min(values) - margin, max(values) + margin])


def pareto_sections(reported: Reported) -> tuple[Section, ...]:
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
        x=[t.measurement.metrics[first.metric] for t in staircase],
        y=[t.measurement.metrics[second.metric] for t in staircase],
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
    best, procedure = reported.outcome.result.best, reported.outcome.procedure
    allowed = procedure is None or reported.feasible_metric(procedure) is not None
    for trial, name, colour, symbol in (
        (procedure, "paper's procedure" if allowed else "paper's procedure, not permitted", ORANGE, "square-open"),
        (best, "best found", VERMILLION, "star"),
    ):
        metrics = {} if trial is None else trial.measurement.metrics
        if first.metric in metrics and second.metric in metrics:
            figure.add_scatter(
                x=[metrics[first.metric]],
                y=[metrics[second.metric]],
                mode="markers",
                name=name,
                marker={
                    "color": colour,
                    "symbol": symbol,
                    "size": 15 if symbol == "star" else 20,
                    "line": {"width": 0 if symbol == "star" else 3},
                },
                hovertemplate=f"{name}<br>{first_label} %{{x}}<br>{second_label} %{{y}}<extra></extra>",
            )
    figure.update_layout(xaxis={"title": {"text": first_label}}, yaxis={"title": {"text": second_label}})
    description = (
        f"{metric_label(first.metric)} ({first.direction.value}) against {metric_label(second.metric)} "
        f"({second.direction.value}): {_count(len(staircase))} that none beats in both, of {len(points)} that meet the "
        f"constraints."
    )
    return (Section("Pareto front", (Figure(figure, description),)),)


def _staircase(reported: Reported) -> list[Trial]:
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


def _count(candidates: int) -> str:
    return f"{candidates} candidate{'' if candidates == 1 else 's'}"
