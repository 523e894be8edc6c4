"""Accuracy against memory: every trial of a study, the front, and the two that matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from kilotune.experiments.presentation.axes import axis_of, near, possible_range
from kilotune.experiments.presentation.canvas import (
    MOST_POINTS,
    Marked,
    empty_figure,
    level_line,
    mark,
    thinned,
)
from kilotune.experiments.presentation.palette import BLUE, NEUTRAL, SKY
from kilotune.experiments.presentation.wording import counted, number
from kilotune.experiments.problems.fixed_point.figures.program_words import broken_lines, cost_lines, limit_words
from kilotune.experiments.problems.fixed_point.figures.quality import QualityMetric, quality_of
from kilotune.search.front import Ranking
from kilotune.search.space import Trial
from kilotune.spaces.shiftry.space import ShiftrySpace

ROOM_BELOW, ROOM_ABOVE = 0.6, 0.15
"""A share of the height of what matters in the figure."""

ScatterPoint = tuple[float, float, Trial]
"""Flash + RAM in bytes, quality, the trial."""


def points_of(quality: QualityMetric, trials: Sequence[Trial]) -> list[ScatterPoint]:
    """Trials with a measurement, one for each (bytes, quality): the first."""
    found: dict[tuple[float, float], Trial] = {}
    for trial in trials:
        value, memory = quality.of(trial.measurement), trial.measurement.metrics.get("memory_bytes")
        if value is not None and memory is not None:
            found.setdefault((memory, value), trial)
    return [(memory, value, trial) for (memory, value), trial in found.items()]


def front_of(quality: QualityMetric, points: Sequence[ScatterPoint]) -> list[ScatterPoint]:
    """Those that none beats in both, by memory."""
    front: list[ScatterPoint] = []
    for point in sorted(points, key=lambda p: (p[0], quality.loss(p[1]))):
        if not front or quality.loss(point[1]) < quality.loss(front[-1][1]):
            front.append(point)
    return front


def view_of(
    space: ShiftrySpace, front: Sequence[ScatterPoint], paper: Trial | None, best: Trial | None
) -> tuple[float, float] | None:
    """Accuracies that are shown at first, in percent: what is about the front and what it is compared with. None: all."""
    quality = quality_of(space.evaluator)
    if not quality.larger_is_better or not front:
        return None
    marked = [quality.of(t.measurement) for t in (paper, best) if t is not None]
    values = [p[1] for p in front] + [value for value in marked if value is not None]
    values += [space.evaluator.float_metrics[quality.metric]]
    room = max(max(values) - min(values), 1.0)
    limits = [c.limit for c in space.constraints if c.metric == quality.metric]
    values += [limit for limit in limits if near(limit, [min(values), min(values) + room])]
    room = max(max(values) - min(values), 1.0)
    return possible_range(min(values) - ROOM_BELOW * room, max(values) + ROOM_ABOVE * room, values, percent=True)


def accuracy_scatter(
    space: ShiftrySpace, trials: Sequence[Trial], paper: Trial | None, best: Trial | None
) -> go.Figure:
    """Full dots keep all limits, hollow ones break one; the front is of the former."""
    quality, ranking = quality_of(space.evaluator), Ranking.of(space)
    points = points_of(quality, trials)
    inside = [p for p in points if ranking.violation(p[2].measurement) == 0]
    outside = [p for p in points if ranking.violation(p[2].measurement) > 0]
    figure = empty_figure(480)
    for name, own, symbol, colour in (
        ("trials over a limit", outside, "x-thin", NEUTRAL),
        ("trials", inside, "circle", SKY),
    ):
        if own:
            shown = _outline(own)
            figure.add_scatter(
                x=[p[0] for p in shown],
                y=[p[1] for p in shown],
                text=[_hover(space, quality, p[2]) for p in shown],
                mode="markers",
                name=name,
                marker={"symbol": symbol, "size": 6, "color": colour, "line": {"width": 1, "color": colour}},
                hovertemplate="%{text}<extra></extra>",
            )
    front = front_of(quality, inside)
    if front:
        figure.add_scatter(
            x=[p[0] for p in front],
            y=[p[1] for p in front],
            text=[_hover(space, quality, p[2]) for p in front],
            mode="lines+markers",
            name="front",
            line={"color": BLUE, "shape": "hv", "width": 2},
            marker={"symbol": "circle", "size": 7, "color": BLUE},
            hovertemplate="%{text}<extra></extra>",
        )
    memories = [p[0] for p in points] or [0.0, 1.0]
    _add_levels(figure, space, quality, (min(memories), max(memories)))
    _add_marks(figure, space, quality, paper, best)
    figure.update_xaxes(title="flash + RAM, bytes", zeroline=False, **axis_of(memories))
    view = view_of(space, front, paper, best)
    if view is not None:
        figure.update_yaxes(range=list(view))
    return figure.update_yaxes(**quality.axis([p[1] for p in points]))


def _add_levels(figure: go.Figure, space: ShiftrySpace, quality: QualityMetric, across: tuple[float, float]) -> None:
    """The float model, and what is permitted."""
    reference = space.evaluator.float_metrics.get(quality.metric)
    if reference is not None:
        hover = f"float model: {number(reference)} %"
        figure.add_trace(level_line("float model", hover, across, reference, "dot", NEUTRAL))
    for constraint in space.constraints:
        if constraint.metric == quality.metric:
            figure.add_trace(
                level_line("permitted", limit_words(constraint), across, constraint.limit, "longdash", NEUTRAL)
            )


def _add_marks(
    figure: go.Figure, space: ShiftrySpace, quality: QualityMetric, paper: Trial | None, best: Trial | None
) -> None:
    """The paper's program and the best one."""
    for which, trial in ((Marked.PAPER, paper), (Marked.BEST, best)):
        value = None if trial is None else quality.of(trial.measurement)
        if trial is not None and value is not None:
            hover = f"{which.value}<br>{_hover(space, quality, trial, numbered=which is Marked.BEST)}"
            figure.add_trace(mark(which.value, which, trial.measurement.metrics["memory_bytes"], value, hover))


def _outline(points: Sequence[ScatterPoint], most: int = MOST_POINTS) -> list[ScatterPoint]:
    """At most `most` of many points, with the best and the worst at every stretch of memory."""
    ordered = sorted(points, key=lambda p: (p[0], p[1]))
    return [ordered[i] for i in thinned(np.array([p[1] for p in ordered]), most).tolist()]


def _hover(space: ShiftrySpace, quality: QualityMetric, trial: Trial, numbered: bool = True) -> str:
    lines = [f"trial {trial.number}"] if numbered else []
    lines += [quality.said(trial.measurement.metrics[quality.metric]), *cost_lines(trial.measurement)]
    if "demoted" in trial.measurement.metrics:
        lines.append(f"{counted(trial.measurement.metrics['demoted'], 'variable')} of 8 bits")
    return "<br>".join([*lines, *(f"over: {line}" for line in broken_lines(space.constraints, trial.measurement))])
