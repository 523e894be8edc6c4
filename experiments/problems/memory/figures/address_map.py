"""The address map of a placement: time across, addresses up, a rectangle for each residence of a buffer; a panel a bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kilotune.experiments.presentation.canvas import empty_figure, level_line, shortened, thinned
from kilotune.experiments.presentation.palette import GREEN, NEUTRAL, VERMILLION, YELLOW
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.memory.figures.live_profile import StepFunction, live_bytes, used_bytes
from kilotune.experiments.problems.memory.panels import (
    FEW_MOVES,
    BufferRectangle,
    NamedLayout,
    Panel,
    levels_of,
    panels_of,
    rectangles_of,
    time_span,
    top_of,
)
from kilotune.spaces.memory.banks import Bank
from kilotune.spaces.memory.instance import Instance

MOST_MOVES = 600
"""The most moves that are drawn, the largest ones; the arrows of few are large."""


def address_map(
    instance: Instance, banks: Sequence[Bank], placed: NamedLayout, beside: Sequence[NamedLayout] = ()
) -> go.Figure:
    """The map of one placement: a panel a bank, one below the other over one axis of time; below them what is live at a time, and up to
    where memory is in use. `beside`: placements that are drawn on the same scales beside it."""
    all_panels = panels_of(instance, banks, (placed, *beside))
    panels = [panel for panel in all_panels if panel.placed is placed]
    size = {b.id: b.size for b in instance.buffers}
    rows = len(panels) + 1
    each, profile_height = (300 if len(panels) == 1 else 210), 180
    figure = make_subplots(
        rows=rows,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=min(0.08, 0.24 / rows),
        row_heights=[*([each] * len(panels)), profile_height],
        subplot_titles=[*(_title(panel) for panel in panels), "bytes live, and in use"],
        figure=empty_figure(each * len(panels) + profile_height + 110, barmode="overlay", bargap=0),
    )
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    first, last = time_span(instance)
    for row, panel in enumerate(panels, start=1):
        top = top_of([p for p in all_panels if p.bank is panel.bank])
        figure.add_trace(_rectangles(rectangles_of(panel, instance, top)), row, 1)
        if panel.migrations:
            figure.add_trace(_moves(panel, row == _first_with_moves(panels)), row, 1)
        for name, level, dash, colour in levels_of(panel, top):
            named = not any(trace.name == name for trace in figure.data)
            line = level_line(
                name, f"{name}: {level} bytes", (first, last), level, dash, colour, legendgroup=name, showlegend=named
            )
            figure.add_trace(line, row, 1)
        figure.update_yaxes(row=row, col=1, range=[0, top])
    profiles = {one.name: profile_of(size, banks, one) for one in (placed, *beside)}
    _add_profile(figure, placed, profiles[placed.name], rows)
    most = max((function.largest for profile in profiles.values() for function in profile), default=0)
    figure.update_yaxes(row=rows, col=1, range=[0, 1.06 * max(most, 1)])
    figure.update_yaxes(zeroline=False, separatethousands=True, exponentformat="none", automargin=True)
    figure.update_xaxes(zeroline=False, range=[first, last])
    figure.update_xaxes(row=rows, col=1, title="time, program points")
    return figure


def profile_of(
    size: Mapping[str, int], banks: Sequence[Bank], placed: NamedLayout
) -> tuple[StepFunction, StepFunction]:
    """Bytes that are live, and up to where memory is in use, in banks that can be written: what is read-only does not come and
    go."""
    writable = {bank.name for bank in banks if not bank.read_only}
    kept = [r for r in placed.layout.residences if r.bank in writable]
    return live_bytes(size, kept), used_bytes(size, kept)


def _title(panel: Panel) -> str:
    bank = f"{plotly_text(shortened(panel.bank.name))}, " if panel.bank.name else ""
    return f"{bank}{panel.placed.name}: {panel.extent}"


def _rectangles(shown: Sequence[BufferRectangle]) -> go.Bar:
    """One trace: a bar a rectangle."""
    lower, upper = _column([r.lower for r in shown]), _column([r.upper for r in shown])
    base, height = _column([r.base for r in shown]), _column([r.size for r in shown])
    edges = [r.edge for r in shown]
    return go.Bar(
        x=(lower + upper) / 2,
        width=(upper - lower).astype(np.float64),
        base=base,
        y=height,
        marker={
            "color": [r.colour for r in shown],
            "opacity": 0.85,
            "line": {"color": "#202020", "width": edges[0] if len(set(edges)) == 1 else edges},
        },
        text=[plotly_text(shortened(r.id)) if r.labelled else "" for r in shown],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={"size": 11},
        hovertext=[plotly_text(r.id) for r in shown],
        customdata=np.stack([height, base, base + height, lower, upper], axis=1),
        hovertemplate="%{hovertext}: %{customdata[0]} bytes<br>addresses %{customdata[1]} to %{customdata[2]} (excluded)"
        "<br>live in [%{customdata[3]}, %{customdata[4]})<extra></extra>",
        showlegend=False,
    )


def _moves(panel: Panel, named: bool) -> go.Scatter:
    """An arrow from the old place of a buffer to its new one, at the program point before which it moves."""
    few = len(panel.migrations) <= FEW_MOVES
    drawn = sorted(panel.migrations, key=lambda m: -m.size)[:MOST_MOVES]
    x: list[int | None] = []
    y: list[float | None] = []
    texts: list[str] = []
    symbols: list[str] = []
    for m in drawn:
        text = f"{plotly_text(m.id)} moves {m.size} bytes<br>from {m.source} to {m.target}, before point {m.point}"
        x += [m.point, m.point, None]
        y += [m.source + m.size / 2, m.target + m.size / 2, None]
        texts += [text, text, ""]
        symbols += ["circle-open", "triangle-up" if m.target > m.source else "triangle-down", "circle"]
    return go.Scatter(
        x=x,
        y=y,
        text=texts,
        mode="lines+markers",
        name="moves",
        legendgroup="moves",
        showlegend=named,
        line={"color": "#202020", "width": 2 if few else 1},
        marker={
            "symbol": symbols,
            "size": 9 if few else 4,
            "color": YELLOW,
            "line": {"color": "#202020", "width": 1.5 if few else 0.5},
        },
        hovertemplate="%{text}<extra></extra>",
    )


def _first_with_moves(panels: Sequence[Panel]) -> int:
    return next(row for row, panel in enumerate(panels, start=1) if panel.migrations)


def _add_profile(figure: go.Figure, placed: NamedLayout, profile: tuple[StepFunction, StepFunction], row: int) -> None:
    live, used = profile
    area = {"fill": "tozeroy", "fillcolor": "rgba(138,138,138,0.3)"}
    figure.add_trace(_steps(live, "live", "solid", NEUTRAL, **area), row, 1)
    dash, colour = ("solid", GREEN) if placed.best else ("dash", VERMILLION)
    figure.add_trace(_steps(used, f"used, {placed.name}", dash, colour), row, 1)


def _steps(function: StepFunction, name: str, dash: str, colour: str, **more: object) -> go.Scatter:
    shown = thinned(function.values.astype(np.float64))
    return go.Scatter(
        x=function.points[shown],
        y=function.values[shown],
        mode="lines",
        name=name,
        line={"shape": "hv", "dash": dash, "color": colour, "width": 2},
        hovertemplate=f"{name}: %{{y}} bytes from point %{{x}} on<extra></extra>",
        **more,
    )


def _column(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)
