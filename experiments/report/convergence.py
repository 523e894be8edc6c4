"""How the search went: best-so-far curves of the objectives that improved."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from kilotune.experiments.presentation.axes import focused_range, near, ticks_of
from kilotune.experiments.presentation.palette import BLUE, GREEN, NEUTRAL, ORANGE
from kilotune.experiments.presentation.section import Block, Figure, Paragraph, Row, Section
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.problem_entry import procedure_name
from kilotune.experiments.report.report_data import ReportData, thinned
from kilotune.search.anytime import Curve, best_so_far
from kilotune.search.result import as_metric
from kilotune.search.space import Objective

MOST_DOTS = 1500
LOGARITHMIC_FROM = 1000
"""With more evaluations than that, the axis is logarithmic: the early improvements are what is to be seen."""


MOST_CURVES = 2
"""Objectives whose course is drawn."""


@dataclass(frozen=True)
class _ImprovedObjective:
    """An objective and the best-so-far curve of its metric. `place`: among the objectives, from 0."""

    place: int
    objective: Objective
    curve: Curve

    @property
    def label(self) -> str:
        return metric_label(self.objective.metric)


def convergence_section(reported: ReportData) -> Section:
    """Best-so-far over evaluations and over time, of the objectives that improved: where the first one is as good with the
    first candidate as it can be, the search is about the next."""
    title = "How the search went"
    curves = [_improved(reported, place) for place in range(len(reported.ranking.objectives))]
    first = curves[0].curve
    if not first.steps:
        return Section(title, (Paragraph("No candidate that meets the constraints was found."),))
    if first.evaluations == 1:
        return Section(title, (Paragraph("One candidate was measured, so there is no course to draw."),))
    drawn = [improved for improved in curves if len(improved.curve.steps) > 1][:MOST_CURVES] or curves[:1]
    still = [improved.label for improved in curves[: drawn[0].place]]
    blocks: list[Block] = [Paragraph(_when(reported, drawn[0], still))]
    for improved in drawn:
        dots = MOST_DOTS // len(drawn)
        of_best = "" if improved.place == 0 else f" of the best candidate in {_listed(curves[: improved.place])} so far"
        description = f"Best {improved.label} so far{of_best}, by evaluations. Dots are single candidates that meet the constraints."
        by_evaluations = Figure(
            _best_so_far(reported, improved, False, dots), description, f"Best {improved.label} so far, by evaluations"
        )
        by_time = Figure(
            _best_so_far(reported, improved, True, dots),
            "The same, by seconds since the study began.",
            f"Best {improved.label} so far, by seconds",
        )
        blocks.append(Row((by_evaluations, by_time)))
    return Section(title, tuple(blocks))


def _improved(reported: ReportData, place: int) -> _ImprovedObjective:
    curve = best_so_far(reported.study.book.each_measurement(), reported.ranking, reported.seconds, place)
    return _ImprovedObjective(place, reported.ranking.objectives[place], curve)


def _listed(improved: list[_ImprovedObjective]) -> str:
    return " and then ".join(one.label for one in improved)


def _when(reported: ReportData, improved: _ImprovedObjective, still: list[str]) -> str:
    """When the best candidate was found; a curve knows of the objectives up to its own only, and others may have gone on.
    `still`: objectives before it in which the first candidate was already as good as the best."""
    best, curve, last = reported.outcome.result.best, improved.curve, improved.curve.steps[-1]
    assert best is not None
    place = next(place for place, trial in reported.placed if trial.number == best.number)
    sentences = [
        f"The best candidate was found with evaluation {place} of {curve.evaluations}, after {best.elapsed_s:.3g} s; "
        f"the first feasible one with evaluation {curve.steps[0].evaluations}."
    ]
    if still and len(curve.steps) > 1:
        sentences.append(
            f"In {' and '.join(still)} no candidate is better than the first; what improved is {improved.label}."
        )
    if place != last.evaluations:
        sentences.append(f"Its {improved.label} had been reached with evaluation {last.evaluations}.")
    return " ".join(sentences)


def _best_so_far(reported: ReportData, improved: _ImprovedObjective, by_time: bool, most_dots: int) -> go.Figure:
    objective, curve, label = improved.objective, improved.curve, plotly_text(improved.label)
    steps = [
        (step.seconds if by_time else step.evaluations, as_metric(step.loss, objective), step) for step in curve.steps
    ]
    end = max(curve.seconds, steps[-1][0]) if by_time else curve.evaluations
    xs, ys = [x for x, _, _ in steps] + [end], [y for _, y, _ in steps] + [steps[-1][1]]
    figure = go.Figure()
    dots = [
        (trial.elapsed_s if by_time else place, trial.measurement.metrics[objective.metric], trial.number)
        for place, trial in reported.placed
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
    levels = [
        (value, name, colour, dash) for value, name, colour, dash in _levels(reported, improved) if value != ys[-1]
    ]
    for level in levels:
        _add_level(figure, (start or xs[0] * 0.9, end), level, label, near(level[0], reached))
    percent = objective.metric.endswith("_percent")
    low, high = focused_range(reached, [y for _, y, _ in dots], [value for value, *_ in levels], percent)
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


def _levels(reported: ReportData, improved: _ImprovedObjective) -> list[tuple[float, str, str, str]]:
    """What the curve is compared with: value, name, colour, dash."""
    result, procedure = reported.outcome.result, reported.outcome.procedure
    paper = None
    if procedure is not None and reported.feasible_metric(procedure) is not None:
        paper = procedure.measurement.metrics.get(improved.objective.metric)
    bound = result.bound if improved.place == 0 else None
    named = ((paper, procedure_name(reported.problem), ORANGE, "dash"), (bound, "bound", GREEN, "dot"))
    return [(value, name, colour, dash) for value, name, colour, dash in named if value is not None]
