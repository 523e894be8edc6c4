"""The kernels of a reverse-split study, and the front of two of its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kilotune.codegen.scamp.kernel import ApproximatedSet, Kernel
from kilotune.codegen.scamp.sums import Cell
from kilotune.experiments.presentation.axes import axis_of
from kilotune.experiments.presentation.palette import BLUE, GREEN, NEUTRAL, ORANGE, VERMILLION
from kilotune.experiments.problems.reverse_split.figures.program_figures import weight_text
from kilotune.search.space import Trial

MOST_POINTS = 2000
MOST_WRITTEN = 12
"""Columns of all kernels together of whose cells the weights are written, not only coloured."""


def computed_rows(kernel: Kernel, kernels: ApproximatedSet, number: int) -> list[list[Fraction]]:
    """What is computed in place of kernel `number` (from 0), in the picture of that kernel."""
    total = kernels.approximations[number].total
    return [[Fraction(total.weight(cell), 1 << kernels.depth) for cell in row] for row in cells_of(kernel)]


def cells_of(kernel: Kernel) -> list[list[Cell]]:
    """The cells of its picture, north to south."""
    return [
        [(across - (kernel.columns - 1) // 2, kernel.rows // 2 - down) for across in range(kernel.columns)]
        for down in range(kernel.rows)
    ]


def kernels_figure(kernels: Sequence[Kernel], wanted: ApproximatedSet) -> go.Figure:
    """A heat map a kernel; where the weights are approximated, those asked for above those computed."""
    differ = bool(wanted.largest_error)
    columns = len(kernels)
    titles = [f"kernel {number}" for number in range(1, columns + 1)] if columns > 1 else ["weights"]
    if differ:
        titles = [f"{title}, requested" for title in titles] + [f"{title}, computed" for title in titles]
    figure = make_subplots(rows=2 if differ else 1, cols=columns, subplot_titles=titles, vertical_spacing=0.16)
    written = sum(kernel.columns for kernel in kernels) <= MOST_WRITTEN
    for number, kernel in enumerate(kernels):
        computed = computed_rows(kernel, wanted, number)
        asked = [list(row) for row in kernel.picture()]
        for row, (what, weights) in enumerate([("requested", asked), ("computed", computed)][0 if differ else 1 :]):
            figure.add_trace(_heatmap(what, kernel, weights, written), row=row + 1, col=number + 1)
    figure.update_xaxes(visible=False, constrain="domain", fixedrange=True)
    figure.update_yaxes(visible=False, constrain="domain", fixedrange=True, autorange="reversed")
    for number, axis in enumerate(figure.select_yaxes(), start=1):
        axis.scaleanchor = f"x{number if number > 1 else ''}"
    largest = max((abs(float(weight)) for kernel in kernels for _, weight in kernel.weights), default=1.0)
    figure.update_annotations(font_size=12)
    figure.update_layout(
        coloraxis={
            "cmin": -largest,
            "cmax": largest,
            "colorscale": [[0, VERMILLION], [0.5, "#F2F2F2"], [1, BLUE]],
            "colorbar": {"title": {"text": "weight"}, "thickness": 12},
        },
        height=330 if not differ else 560,
        margin={"l": 5, "r": 5, "t": 40, "b": 15},
    )
    return figure


@dataclass(frozen=True)
class FrontAxis:
    """One of the two metrics of a front: what it is called, and how its axis says it."""

    metric: str
    name: str
    title: str
    unit: str

    def told(self, metrics: Mapping[str, float]) -> str:
        """A value in words: `1 instruction`, `3 instructions`, `2.5 % noise`."""
        value = metrics[self.metric]
        return f"{value:.4g}{self.unit.removesuffix('s') if value == 1 else self.unit}"


FRONT_AXES: Mapping[str, tuple[FrontAxis, FrontAxis]] = MappingProxyType(
    {
        "noise_percent": (
            FrontAxis("bus_transfers", "transfers", "bus transfers", " transfers"),
            FrontAxis("noise_percent", "noise", "noise, % of the result's RMS", " % noise"),
        ),
        "weight_error_percent": (
            FrontAxis("instructions", "instructions", "instructions", " instructions"),
            FrontAxis("weight_error_percent", "errors of the weights", "error, % of a kernel's size", " % error"),
        ),
    }
)
"""By the second metric."""


def front_figure(
    trials: Sequence[Trial],
    front: Sequence[Trial],
    paper: Trial | None,
    bound: float | None,
    axes: tuple[FrontAxis, FrontAxis],
) -> go.Figure:
    """One metric against another: every trial, the front, the paper's heuristic, the bound on the first one."""
    figure = go.Figure()
    first, second = axes[0].metric, axes[1].metric

    def point(trial: Trial) -> tuple[float, float]:
        return trial.measurement.metrics[first], trial.measurement.metrics[second]

    shown = thinned([point(trial) for trial in trials if has(trial, first) and has(trial, second)])
    hover = f"%{{x}}{axes[0].unit}, %{{y:.3g}}{axes[1].unit}"
    groups: list[tuple[str, list[tuple[float, float]], dict[str, object], dict[str, object] | None]]
    groups = [("trial", shown, {"color": NEUTRAL, "size": 5, "opacity": 0.6}, None)]
    best = sorted(point(trial) for trial in front)
    line = {"shape": "hv", "color": BLUE, "width": 2}
    groups.append(("front", best, {"color": BLUE, "size": 10, "symbol": "diamond"}, line))
    if paper is not None and has(paper, first) and has(paper, second):
        groups.append(("paper's heuristic", [point(paper)], {"color": ORANGE, "size": 14, "symbol": "star"}, None))
    for name, points, marker, joined in groups:
        figure.add_trace(
            go.Scatter(
                x=[x for x, _ in points],
                y=[y for _, y in points],
                mode="markers" if joined is None else "lines+markers",
                marker=marker,
                line=joined,
                name=name,
                hovertemplate=f"{hover}<extra>{name}</extra>",
            )
        )
    if bound is not None:
        figure.add_vline(x=bound, line={"color": GREEN, "dash": "dot", "width": 2})
        figure.add_annotation(
            x=bound, y=1, yref="paper", text=f"bound {bound:g}", showarrow=False, xanchor="left", xshift=4
        )
    figure.update_xaxes(title=axes[0].title, **axis_of([x for _, points, *_ in groups for x, _ in points]))
    figure.update_yaxes(title=axes[1].title, rangemode="tozero")
    figure.update_layout(height=400)
    return figure


def has(trial: Trial, metric: str) -> bool:
    """Whether it was measured."""
    return trial.measurement.failure is None and metric in trial.measurement.metrics


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most so many, in their order: of every stretch the lowest and the highest."""
    points = list(dict.fromkeys(points))
    if len(points) <= most:
        return points
    stretch = -(-2 * len(points) // most)
    kept = []
    for at in range(0, len(points), stretch):
        numbers = range(at, min(at + stretch, len(points)))
        ends = {min(numbers, key=lambda n: points[n][1]), max(numbers, key=lambda n: points[n][1])}
        kept += [points[number] for number in sorted(ends)]
    return kept


def _heatmap(what: str, kernel: Kernel, weights: list[list[Fraction]], written: bool) -> go.Heatmap:
    where = [[_place(cell) for cell in row] for row in cells_of(kernel)]
    return go.Heatmap(
        z=[[float(weight) for weight in row] for row in weights],
        text=[[weight_text(weight) for weight in row] for row in weights],
        texttemplate="%{text}" if written else None,
        customdata=where,
        hovertemplate="%{customdata}: %{text}<extra>" + f"{what}</extra>",
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
    )


def _place(cell: Cell) -> str:
    x, y = cell
    parts = [f"{abs(y)} {'north' if y > 0 else 'south'}"] if y else []
    parts += [f"{abs(x)} {'east' if x > 0 else 'west'}"] if x else []
    return " ".join(["pixel", *parts]) if parts else "the pixel itself"
