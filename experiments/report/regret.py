"""Figures of a comparison: regret bands, and where every run ended."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from kilotune.experiments.presentation.palette import GREEN, ORANGE, strategy_style
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.search.comparison import Comparison, RunRecord, excess
from kilotune.search.result import as_metric
from kilotune.search.space import Objective
from kilotune.search.statistics import quantile

WIDE = 20.0
"""From the smallest regret to the largest by more than this factor, the axis is logarithmic; its lowest tick says 0."""


@dataclass(frozen=True)
class ZeroScale:
    """A logarithmic axis on which 0 has a place too, at `floor`, below everything else."""

    floor: float

    def placed(self, value: float) -> float:
        """Where a value is drawn."""
        return max(value, self.floor)

    def axis(self, top: float) -> dict[str, Any]:
        """The axis as part of a Plotly layout."""
        ticks = list(_ticks(self.floor, top))
        return {
            "type": "log",
            "range": [math.log10(self.floor / 1.15), math.log10(top)],
            "tickvals": [self.floor, *ticks],
            "ticktext": ["0", *(f"{value:.12g}" for value in ticks)],
        }


def zero_scale(values: Sequence[float]) -> ZeroScale | None:
    """For values of 0 and more that span too much for a linear axis; None: they do not."""
    positive = [value for value in values if value > 0]
    return ZeroScale(min(positive) / 2) if positive and max(positive) > WIDE * min(positive) else None


@dataclass(frozen=True)
class Band:
    """Regret of one strategy over time or evaluations, in %: median and quartiles over its runs; +inf: nothing yet."""

    strategy: str
    xs: tuple[float, ...]
    lower: tuple[float, ...]
    median: tuple[float, ...]
    upper: tuple[float, ...]


def regret_percent(loss: float, reference: float) -> float:
    """How far a loss is above the reference, in % of it; of 1 where it is 0; +inf where one of them is infinite."""
    return 100.0 * excess(loss, reference)


def regret_bands(comparison: Comparison, by_time: bool) -> tuple[Band, ...]:
    """One of each strategy, up to the end of the longest run of all."""
    runs = [run for standing in comparison.standings for run in standing.runs]
    end = max(run.curve.seconds if by_time else run.curve.evaluations for run in runs)
    return tuple(_band(s.strategy, s.runs, comparison.reference.loss, end, by_time) for s in comparison.standings)


def _band(strategy: str, runs: Sequence[RunRecord], reference: float, end: float, by_time: bool) -> Band:
    events = sorted(
        (step.seconds if by_time else float(step.evaluations), number, step.loss)
        for number, run in enumerate(runs)
        for step in run.curve.steps
    )
    losses = [math.inf] * len(runs)
    rows: list[tuple[float, float, float, float]] = []
    for x, group in itertools.groupby(events, key=lambda event: event[0]):
        for _, number, loss in group:  # a run may have several steps at a time
            losses[number] = min(losses[number], loss)
        regrets = [regret_percent(loss, reference) for loss in losses]
        rows.append((x, *(quantile(regrets, q) for q in (0.25, 0.5, 0.75))))
    if rows and rows[-1][0] < end:
        rows.append((end, *rows[-1][1:]))
    xs, lower, median, upper = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Band(strategy, xs, lower, median, upper)


def regret_figure(comparison: Comparison, by_time: bool) -> go.Figure | None:
    """Median lines in interquartile bands; None where no run found anything."""
    bands = [band for band in regret_bands(comparison, by_time) if band.xs]
    finite = [v for band in bands for v in (*band.lower, *band.median, *band.upper) if math.isfinite(v)]
    if not finite:
        return None
    scale = zero_scale(finite)
    top = max(finite) * (1.06 if scale is None else 1.5) or 1.0
    floor = 0.0 if scale is None else scale.floor
    figure = go.Figure()
    for band in bands:
        _add_band(figure, band, floor, top)
    unit = "CPU seconds" if by_time else "evaluations"
    figure.update_xaxes(title={"text": unit}, type="log", exponentformat="power", dtick=_decade_ticks(bands))
    if scale is None:
        figure.update_yaxes(range=[-0.03 * top, top])
    else:
        figure.update_yaxes(**scale.axis(top))
    figure.update_yaxes(title={"text": "regret, %"})
    return figure


def _add_band(figure: go.Figure, band: Band, floor: float, top: float) -> None:
    look, name = strategy_style(band.strategy), plotly_text(band.strategy)
    start = next((at for at, value in enumerate(band.lower) if math.isfinite(value)), len(band.xs))
    edges = {"mode": "lines", "hoverinfo": "skip", "showlegend": False, "legendgroup": band.strategy}
    for values, fill in ((band.lower, None), (band.upper, "tonexty")):
        figure.add_scatter(
            x=band.xs[start:],
            y=[min(max(value, floor), top) for value in values[start:]],
            line={"width": 0, "shape": "hv", "color": look.colour},
            fill=fill,
            fillcolor=look.fill(),
            **edges,
        )
    shown = [(x, value) for x, value in zip(band.xs, band.median, strict=True) if math.isfinite(value)]
    figure.add_scatter(
        x=[x for x, _ in shown],
        y=[max(value, floor) for _, value in shown],
        customdata=[value for _, value in shown],
        mode="lines+markers",
        name=name,
        legendgroup=band.strategy,
        line={"color": look.colour, "dash": look.dash, "shape": "hv", "width": 2.5},
        marker={"symbol": look.symbol, "size": 8, "maxdisplayed": 12},
        hovertemplate=f"{name}: median regret %{{customdata:.3g}} % at %{{x:.3g}}<extra></extra>",
    )


def _ticks(low: float, high: float) -> Iterator[float]:
    """1, 2, 5 times powers of ten, few of them."""
    decades = math.log10(high / low)
    digits = (1, 2, 5) if decades < 2.5 else (1,)
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for digit in digits:
            value = digit * 10.0**power
            if 1.3 * low < value <= high:
                yield value


def _decade_ticks(bands: Sequence[Band]) -> int | str:
    xs = [x for band in bands for x in band.xs if x > 0]
    return 1 if not xs or max(xs) > 100 * min(xs) else "D2"


def final_figure(comparison: Comparison, objective: Objective, procedure: str) -> go.Figure | None:
    """Where every run ended, strategy by strategy, between the reference and the result of the procedure of that name; None: nowhere."""
    label = plotly_text(metric_label(objective.metric))
    figure = go.Figure()
    names = [plotly_text(standing.strategy) for standing in comparison.standings]
    for standing, name in zip(comparison.standings, names, strict=True):
        look = strategy_style(standing.strategy)
        ended = [(as_metric(run.curve.loss, objective), run.seed) for run in standing.runs]
        found = [(metric, seed) for metric, seed in ended if metric is not None]
        figure.add_box(
            x=[name] * len(found),
            y=[metric for metric, _ in found],
            customdata=[seed for _, seed in found],
            name=name,
            boxpoints="all",
            jitter=0.6,
            pointpos=0,
            width=0.6,
            marker={"color": look.colour, "symbol": look.symbol, "size": 7, "opacity": 0.85},
            line={"color": look.colour, "width": 1.5},
            fillcolor=look.fill(),
            showlegend=False,
            hoveron="points",
            hovertemplate=f"{name}, seed %{{customdata}}: {label} %{{y}}<extra></extra>",
        )
    if not any(len(trace.y) for trace in figure.data):
        return None
    reference = comparison.reference
    for loss, said, colour, dash in (
        (reference.loss, reference.kind.value, GREEN, "dot"),
        (comparison.paper_loss, procedure, ORANGE, "dash"),
    ):
        value = None if loss is None else as_metric(loss, objective)
        if value is not None:
            figure.add_scatter(
                x=names,
                y=[value] * len(names),
                mode="lines" if len(names) > 1 else "markers",
                marker={"symbol": "line-ew-open", "size": 40},
                name=said,
                line={"color": colour, "dash": dash, "width": 2},
                hovertemplate=f"{said}: {label} %{{y}}<extra></extra>",
            )
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names, showgrid=False)
    figure.update_yaxes(title={"text": label})
    return figure
