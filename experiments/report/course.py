"""How the search went: best-so-far curves of what improved, and the Pareto front of the first two objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from kilotune.experiments.presentation.axes import axis_of, focused_range, near, ticks_of
from kilotune.experiments.presentation.palette import BLUE, GREEN, NEUTRAL, ORANGE, VERMILLION
from kilotune.experiments.presentation.section import Block, Figure, Paragraph, Row, Section
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.report.reported import Reported, thinned
from kilotune.search.anytime import Curve, best_so_far
from kilotune.search.result import as_metric
from kilotune.search.space import Objective, Trial

MOST_DOTS = 1500
LOGARITHMIC_FROM = 1000
"""With more evaluations than that, the axis is logarithmic: the early improvements are what is to be seen."""


MOST_CURVES = 2
"""Objectives whose course is drawn."""


@dataclass(frozen=True)
class _Moved:
    """An objective and the best-so-far curve of its metric. `place`: among the objectives, from 0."""

    place: int
    objective: Objective
    curve: Curve

    @property
    def label(self) -> str:
        return metric_label(self.objective.metric)


def course_section(reported: Reported) -> Section:
    """Best-so-far over evaluations and over time, of the objectives that improved: where the first one is as good with the
    first candidate as it can be, the search is about the next."""
    title = "How the search went"
    curves = [_moved(reported, place) for place in range(len(reported.ranking.objectives))]
    first = curves[0].curve
    if not first.steps:
        return Section(title, (Paragraph("No candidate that meets the constraints was found."),))
    if first.evaluations == 1:
        return Section(title, (Paragraph("One candidate was measured, so there is no course to draw."),))
    drawn = [moved for moved in curves if len(moved.curve.steps) > 1][:MOST_CURVES] or curves[:1]
    still = [moved.label for moved in curves[: drawn[0].place]]
    blocks: list[Block] = [Paragraph(_when(reported, drawn[0], still))]
    for moved in drawn:
        dots = MOST_DOTS // len(drawn)
        of_best = "" if moved.place == 0 else f" of the best candidate in {_listed(curves[: moved.place])} so far"
        description = (
            f"Best {moved.label} so far{of_best}, by evaluations. Dots are single candidates that meet the constraints."
        )
        by_evaluations = Figure(
            _best_so_far(reported, moved, False, dots), description, f"Best {moved.label} so far, by evaluations"
        )
        by_time = Figure(
            _best_so_far(reported, moved, True, dots),
            "The same, by seconds since the study began.",
            f"Best {moved.label} so far, by seconds",
        )
        blocks.append(Row((by_evaluations, by_time)))
    return Section(title, tuple(blocks))


def _moved(reported: Reported, place: int) -> _Moved:
    measured = ((trial.elapsed_s, trial.measurement) for trial in reported.trials)
    curve = best_so_far(measured, reported.ranking, reported.seconds, place)
    return _Moved(place, reported.ranking.objectives[place], curve)


def _listed(moved: list[_Moved]) -> str:
    return " and then ".join(one.label for one in moved)


def _when(reported: Reported, moved: _Moved, still: list[str]) -> str:
    """When the best candidate was found; a curve knows of the objectives up to its own only, and others may have gone on.
    `still`: objectives before it in which the first candidate was already as good as the best."""
    best, curve, last = reported.outcome.result.best, moved.curve, moved.curve.steps[-1]
    assert best is not None
    place = next(n for n, trial in enumerate(reported.trials, start=1) if trial.number == best.number)
    sentences = [
        f"The best candidate was found with evaluation {place} of {curve.evaluations}, after {best.elapsed_s:.3g} s; "
        f"the first feasible one with evaluation {curve.steps[0].evaluations}."
    ]
    if still and len(curve.steps) > 1:
        sentences.append(
            f"In {' and '.join(still)} no candidate is better than the first; what improved is {moved.label}."
        )
    if place != last.evaluations:
        sentences.append(f"Its {moved.label} had been reached with evaluation {last.evaluations}.")
    return " ".join(sentences)


def _best_so_far(reported: Reported, moved: _Moved, by_time: bool, most_dots: int) -> go.Figure:
    objective, curve, label = moved.objective, moved.curve, plotly_text(moved.label)
    steps = [
        (step.seconds if by_time else step.evaluations, as_metric(step.loss, objective), step) for step in curve.steps
    ]
    end = max(curve.seconds, steps[-1][0]) if by_time else curve.evaluations
    xs, ys = [x for x, _, _ in steps] + [end], [y for _, y, _ in steps] + [steps[-1][1]]
    figure = go.Figure()
    dots = [
        (trial.elapsed_s if by_time else place, trial.measurement.metrics[objective.metric], trial.number)
        for place, trial in enumerate(reported.trials, start=1)
        if reported.feasible_metric(trial) is not None
    ]
    shown = thinned(dots, most_dots)
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
    reached = [y for y in ys if y is not None]
    levels = [(value, name, colour, dash) for value, name, colour, dash in _levels(reported, moved) if value != ys[-1]]
    for level in levels:
        _add_level(figure, (start or xs[0] * 0.9, end), level, label, near(level[0], reached))
    low, high = focused_range(reached, [y for _, y, _ in dots], [value for value, *_ in levels])
    figure.update_layout(
        xaxis={"title": {"text": "seconds" if by_time else "evaluations"}},
        yaxis={"title": {"text": label}, "range": [low, high], **ticks_of(reached, low, high)},
    )
    if logarithmic:
        figure.update_xaxes(type="log", exponentformat="power", dtick=1 if end > 100 * start else "D2")
    return figure


def _add_level(
    figure: go.Figure, across: tuple[float, float], level: tuple[float, str, str, str], label: str, is_near: bool
) -> None:
    """A value that is known, as a line; one far off is said in the legend."""
    value, name, colour, dash = level
    far = "" if is_near else f", {value:.6g}"
    figure.add_scatter(
        x=list(across),
        y=[value, value],
        mode="lines",
        name=f"{name}{far}",
        line={"color": colour, "dash": dash, "width": 2},
        hovertemplate=f"{name}: {label} %{{y}}<extra></extra>",
    )


def _levels(reported: Reported, moved: _Moved) -> list[tuple[float, str, str, str]]:
    """What the curve is compared with: value, name, colour, dash."""
    result, procedure = reported.outcome.result, reported.outcome.procedure
    paper = None
    if procedure is not None and reported.feasible_metric(procedure) is not None:
        paper = procedure.measurement.metrics.get(moved.objective.metric)
    bound = result.bound if moved.place == 0 else None
    named = ((paper, "paper's procedure", ORANGE, "dash"), (bound, "bound", GREEN, "dot"))
    return [(value, name, colour, dash) for value, name, colour, dash in named if value is not None]


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
    _add_candidates(figure, points, staircase, (first.metric, second.metric), hover)
    _add_found(figure, reported, (first.metric, second.metric), hover.partition("<br>")[2])
    for letter, label in (("x", first_label), ("y", second_label)):
        values = [value for trace in figure.data for value in trace[letter]]
        figure.update_layout({f"{letter}axis": {"title": {"text": label}, **axis_of(values)}})
    description = (
        f"{metric_label(first.metric)} ({first.direction.value}) against {metric_label(second.metric)} "
        f"({second.direction.value}): {counted(len(staircase), 'candidate')} that none beats in both, of {len(points)} that meet the "
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


def _add_found(figure: go.Figure, reported: Reported, metrics_shown: tuple[str, str], hover: str) -> None:
    """The paper's answer and the best candidate, in the two metrics."""
    first, second = metrics_shown
    best, procedure = reported.outcome.result.best, reported.outcome.procedure
    allowed = procedure is None or reported.feasible_metric(procedure) is not None
    for trial, name, colour, symbol in (
        (procedure, "paper's procedure" if allowed else "paper's procedure, not permitted", ORANGE, "square-open"),
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
