"""The address map of a placement: time across, addresses up, a rectangle for each residence of a buffer; a panel a bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from kilotune.experiments.presentation.canvas import empty_figure, level_line, shortened, thinned
from kilotune.experiments.presentation.palette import BLUE, GREEN, LINE_COLOURS, NEUTRAL, VERMILLION, YELLOW
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.memory.figures.live_profile import StepFunction, live_bytes, used_bytes
from kilotune.spaces.memory.banks import Bank
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.candidates import MemoryLayout
from kilotune.spaces.memory.checker import Migration, Residence
from kilotune.spaces.memory.instance import Instance

MOST_LABELS, SMALLEST_LABELLED = 40, 0.004
"""Rectangles that carry their name: how many, and the share of the panel's area that is enough."""

MANY = 1500
"""Edges of more rectangles are thin lines, so that their colours show."""

MOST_MOVES, FEW_MOVES = 600, 40
"""The most moves that are drawn, the largest ones; the arrows of few are large."""

FAR = 1.6
"""A capacity so many times the peak is not drawn: the rectangles would be flat."""


@dataclass(frozen=True)
class NamedLayout:
    """A placement under its name; `best`: the best trial's, which is drawn first."""

    name: str
    layout: MemoryLayout
    best: bool


@dataclass(frozen=True)
class Panel:
    """What one placement puts in one bank. Sizes in bytes; `least_bytes`: no placement of these buffers has a lower peak."""

    placed: NamedLayout
    bank: Bank
    residences: tuple[Residence, ...]
    migrations: tuple[Migration, ...]
    peak_bytes: int
    least_bytes: int

    @property
    def title(self) -> str:
        """Above the panel."""
        bank = f"{plotly_text(shortened(self.bank.name))}, " if self.bank.name else ""
        of = "" if self.bank.capacity_bytes is None else f" of {self.bank.capacity_bytes}"
        return f"{bank}{self.placed.name}: addresses up to {self.peak_bytes}{of}"


def panels_of(instance: Instance, banks: Sequence[Bank], placements: Sequence[NamedLayout]) -> list[Panel]:
    """Banks in their order, in each the placements; banks that hold nothing in any of them are left out."""
    size = {b.id: b.size for b in instance.buffers}
    first, last = _span(instance)
    found = []
    for bank in banks:
        if not any(r.bank == bank.name for placed in placements for r in placed.layout.residences):
            continue
        for placed in placements:
            own = [r for r in placed.layout.residences if r.bank == bank.name]
            members = {r.id for r in own}
            buffers = tuple(b for b in instance.buffers if b.id in members)
            if bank.read_only:  # what is there stays for the whole program
                own = [replace(r, lower=first, upper=last) for r in own]
                buffers = tuple(replace(b, lower=first, upper=last) for b in buffers)
            moves = tuple(m for m in placed.layout.migrations if m.bank == bank.name)
            peak = max((r.offset + size[r.id] for r in own), default=0)
            least = largest_live_sum(Instance(instance.name, buffers)).peak_bytes
            found.append(Panel(placed, bank, tuple(own), moves, peak, least))
    return found


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
        subplot_titles=[*(panel.title for panel in panels), "bytes live, and in use"],
        figure=empty_figure(each * len(panels) + profile_height + 110, barmode="overlay", bargap=0),
    )
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    first, last = _span(instance)
    colour_of = {b.id: LINE_COLOURS[i % len(LINE_COLOURS)] for i, b in enumerate(instance.buffers)}
    for row, panel in enumerate(panels, start=1):
        top = _top([p for p in all_panels if p.bank is panel.bank])
        area = (last - first) * top
        figure.add_trace(_rectangles(panel, size, colour_of, area), row, 1)
        if panel.migrations:
            figure.add_trace(_moves(panel, row == _first_with_moves(panels)), row, 1)
        for name, level, dash, colour in _levels(panel, top):
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


def _span(instance: Instance) -> tuple[int, int]:
    """First program point and one past the last."""
    first = min((b.lower for b in instance.buffers), default=0)
    return first, max((b.upper for b in instance.buffers), default=first + 1)


def _top(panels: Sequence[Panel]) -> float:
    """Where the address axis of a bank ends: above the peaks, and above the capacity where that is not far."""
    peak = max(p.peak_bytes for p in panels)
    capacity = panels[0].bank.capacity_bytes
    if capacity is not None and capacity <= FAR * peak:
        peak = max(peak, capacity)
    return 1.06 * max(peak, 1)


def _levels(panel: Panel, top: float) -> list[tuple[str, int, str, str]]:
    """Lines across a panel: name, bytes, dash, colour."""
    lines = [("peak", panel.peak_bytes, "solid", VERMILLION), ("largest live sum", panel.least_bytes, "dot", BLUE)]
    capacity = panel.bank.capacity_bytes
    if capacity is not None and capacity <= top:
        lines.append(("capacity", capacity, "longdash", NEUTRAL))
    return lines


def _rectangles(panel: Panel, size: Mapping[str, int], colour_of: Mapping[str, str], area: float) -> go.Bar:
    """One trace: a bar a residence of a buffer that takes bytes. Moved buffers have a thick edge."""
    shown = [r for r in panel.residences if size[r.id]]
    lower, upper = _column([r.lower for r in shown]), _column([r.upper for r in shown])
    base, height = _column([r.offset for r in shown]), _column([size[r.id] for r in shown])
    areas = (upper - lower).astype(np.float64) * height
    large = set(np.argsort(-areas, kind="stable")[:MOST_LABELS].tolist())
    large = {k for k in large if areas[k] >= SMALLEST_LABELLED * area}
    moved = {m.id for m in panel.migrations}
    thin = 0.7 if len(shown) <= MANY else 0.2
    edges = [2.2 if r.id in moved else thin for r in shown] if 0 < len(moved) <= FEW_MOVES else thin
    return go.Bar(
        x=(lower + upper) / 2,
        width=(upper - lower).astype(np.float64),
        base=base,
        y=height,
        marker={
            "color": [colour_of[r.id] for r in shown],
            "opacity": 0.85,
            "line": {"color": "#202020", "width": edges},
        },
        text=[plotly_text(shortened(r.id)) if k in large else "" for k, r in enumerate(shown)],
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
