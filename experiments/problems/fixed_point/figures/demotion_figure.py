"""Accuracy and bytes as variables are demoted one after another, over one axis, and below them what became of each variable."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kilotune.experiments.presentation.axes import near
from kilotune.experiments.presentation.canvas import empty_figure, hollow_marks, level_line, shortened
from kilotune.experiments.presentation.palette import BLUE, GREEN, NEUTRAL, ORANGE, PINK, VERMILLION
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.presentation.wording import number
from kilotune.experiments.problems.fixed_point.figures.demotion import DemotionOrder
from kilotune.experiments.problems.fixed_point.figures.program_words import cost_lines, limit_words
from kilotune.experiments.problems.fixed_point.figures.quality import QualityMetric, quality_of
from kilotune.search.space import Assignment, Constraint, Trial
from kilotune.spaces.shiftry.formats import DEMOTED_BITS, parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace

MEMORY = (
    ("memory_bytes", "flash + RAM", BLUE, "solid", "circle"),
    ("flash_bytes", "flash", ORANGE, "dash", "square"),
    ("ram_bytes", "RAM", PINK, "dot", "diamond"),
)
"""Metric, words, colour, dash, marker."""

FAR = 1.6
"""A limit so many times the most bytes is not drawn."""

FAR_QUALITY = 5.0
"""A permitted quality so many times the span of all steps away from them is not drawn."""

MOST_NAMES = 45
"""The most variables that all have their name under the axis."""


def demotion_figure(space: ShiftrySpace, order: DemotionOrder, best: Trial | None) -> go.Figure:
    """Point k of the axis is the k-th demoted variable, point 0 the program before any. Marks are filled as far as the
    procedure demotes, and hollow behind."""
    figure = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.05,
        row_heights=[0.42, 0.42, 0.16],
        figure=empty_figure(720),
    )
    quality, count = quality_of(space.evaluator), len(order.names)
    measured = [(k, step) for k, step in enumerate(order.steps) if quality.of(step) is not None]
    hover = {k: _hover(order, k, quality) for k, _ in measured}
    hollow = [k > order.kept for k, _ in measured]
    across = (-0.6, count + 0.6)
    found = [(k, quality.of(step)) for k, step in measured]
    figure.add_scatter(
        x=[k for k, _ in found],
        y=[value for _, value in found],
        text=list(hover.values()),
        mode="lines+markers",
        name="accuracy" if quality.larger_is_better else "precision loss",
        line={"color": VERMILLION, "width": 2},
        marker=hollow_marks("triangle-up", VERMILLION, hollow, 9),
        hovertemplate="%{text}<extra></extra>",
        row=1,
        col=1,
    )
    for metric, name, colour, dash, symbol in MEMORY:
        figure.add_scatter(
            x=[k for k, _ in measured],
            y=[step.metrics[metric] for _, step in measured],
            text=list(hover.values()),
            mode="lines+markers",
            name=name,
            line={"color": colour, "dash": dash, "width": 2},
            marker=hollow_marks(symbol, colour, hollow, 7),
            hovertemplate="%{text}<extra></extra>",
            row=2,
            col=1,
        )
    _levels(figure, space, order, best, across)
    _strip(figure, order, best)
    _add_end(figure, order)
    values = [value for _, value in found if value is not None]
    figure.update_yaxes(row=1, col=1, **quality.axis(values))
    figure.update_yaxes(row=2, col=1, title="bytes", rangemode="tozero", zeroline=False)
    figure.update_yaxes(row=3, col=1, tickvals=[0, 1], ticktext=["best", "paper"], range=[-0.6, 1.6])
    figure.update_yaxes(row=3, col=1, showgrid=False, zeroline=False)
    _name_variables(figure, order)
    return figure


def _name_variables(figure: go.Figure, order: DemotionOrder) -> None:
    """The demoted variables along the axis; every other one, or fewer, where there are many."""
    count = len(order.names)
    step = math.ceil((count + 1) / MOST_NAMES)
    labels = ["none", *(plotly_text(shortened(name)) for name in order.names)]
    shown = list(range(0, count + 1, step))
    figure.update_xaxes(range=[-0.6, count + 0.6], zeroline=False, tickvals=shown, ticktext=[labels[k] for k in shown])
    figure.update_xaxes(row=3, col=1, tickangle=-60, automargin=True)


def _add_end(figure: go.Figure, order: DemotionOrder) -> None:
    """Where the procedure stops demoting."""
    count = len(order.names)
    stop = order.kept + 0.5 if order.kept < count else count + 0.35
    figure.add_vline(x=stop, line={"color": NEUTRAL, "dash": "dash", "width": 1.5})
    figure.add_annotation(
        x=stop,
        y=1.0,
        xref="x",
        yref="y domain",
        text=f"stops after {order.kept}" if order.kept < count else f"all {count} demoted",
        showarrow=False,
        xanchor="right" if order.kept > count / 2 else "left",
        yanchor="bottom",
    )


def _levels(
    figure: go.Figure, space: ShiftrySpace, order: DemotionOrder, best: Trial | None, across: tuple[float, float]
) -> None:
    """What steps are compared with: the float model, what is permitted, the limits that are near, the best trial."""
    quality = quality_of(space.evaluator)

    def add(row: int, name: str, hover: str, level: float, dash: str, colour: str, named: bool = True) -> None:
        line = level_line(name, hover, across, level, dash, colour, legendgroup=name, showlegend=named)
        figure.add_trace(line, row, 1)

    values = [value for value in map(quality.of, order.steps) if value is not None]
    reference = space.evaluator.float_metrics.get(quality.metric)
    if reference is not None:
        add(1, "float model", f"float model: {number(reference)} %", reference, "dot", NEUTRAL)
    for constraint in space.constraints:
        if constraint.metric == quality.metric and near(constraint.limit, values, FAR_QUALITY):
            add(1, "permitted", limit_words(constraint), constraint.limit, "longdash", NEUTRAL)
        for metric, label, colour, _, _ in MEMORY:
            if constraint.metric == metric and not is_far(constraint, order):
                add(2, f"{label} limit", limit_words(constraint), constraint.limit, "longdash", colour)
    value = None if best is None else quality.of(best.measurement)
    if best is not None and value is not None:
        memory = best.measurement.metrics["memory_bytes"]
        hover = f"best trial: {quality.said(value)}, {number(memory)} bytes"
        add(1, "best trial", hover, value, "dashdot", GREEN)
        add(2, "best trial", hover, memory, "dashdot", GREEN, named=False)


def is_far(constraint: Constraint, order: DemotionOrder) -> bool:
    """Whether a limit on bytes is so far above all of them that an axis with it would show them as one line on its ground."""
    most = max((step.metrics.get("memory_bytes", 0.0) for step in order.steps), default=0.0)
    return constraint.metric in {metric for metric, *_ in MEMORY} and constraint.limit > FAR * most


def _strip(figure: go.Figure, order: DemotionOrder, best: Trial | None) -> None:
    """Full squares have 8 bits, hollow ones 16."""
    rows: list[tuple[int, str, Assignment]] = [(1, "paper's result", order.answer.assignment)]
    if best is not None and best.measurement.failure is None:
        rows.append((0, "best trial", best.assignment))
    points = [
        (k, y, who, name, parse_format(str(a[name]))) for y, who, a in rows for k, name in enumerate(order.names, 1)
    ]
    for narrow, name, colour, symbol in ((True, "8 bits", BLUE, "square"), (False, "16 bits", ORANGE, "square-open")):
        own = [p for p in points if (p[4].bits == DEMOTED_BITS) is narrow]
        figure.add_scatter(
            x=[p[0] for p in own],
            y=[p[1] for p in own],
            text=[
                f"{who}: {plotly_text(variable)} has {f.bits} bits at scale {f.scale}" for _, _, who, variable, f in own
            ],
            mode="markers",
            name=name,
            marker={"symbol": symbol, "color": colour, "size": 10, "line": {"width": 2, "color": colour}},
            hovertemplate="%{text}<extra></extra>",
            row=3,
            col=1,
        )


def _hover(order: DemotionOrder, k: int, quality: QualityMetric) -> str:
    step = order.steps[k]
    lines = ["no variable demoted"]
    if k:
        form = parse_format(str(order.formats[k - 1]))
        lines = [f"{k}. {plotly_text(order.names[k - 1])}: {form.bits} bits at scale {form.scale}"]
        if k > order.kept:
            lines.append("not demoted by the procedure")
    value = quality.of(step)
    words: Sequence[str] = [] if value is None else [quality.said(value)]
    if "disagreements" in step.metrics:
        words = [*words, f"{number(step.metrics['disagreements'])} disagreements with the float model"]
    return "<br>".join([*lines, *words, *cost_lines(step)])
