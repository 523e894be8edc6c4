"""A mapped network on its accelerator: cores as busy as they are, links as loaded as they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import Mapping
from kilotune.experiments.presentation.palette import BLACK, BLUE, GREEN, NEUTRAL, ORANGE, SKY, VERMILLION
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.cm.utilisation import CoreUse, LinkUse, Point, Usage, core_places, node_place
from kilotune.spaces.cm.lowered import LoweredPipeline

HALF = 0.38
"""Half the side of a core's square, in steps of the grid."""

BESIDE, BESIDE_RING = 0.11, 0.08
"""How far a link is drawn to the right of its direction."""

STUB = 0.85
LABEL_LENGTH = 12
MOST_NUMBERED = 16
"""Columns of a grid on whose cores numbers fit."""

DARK = 0.7
"""Cores busier than that are so dark that their numbers are white."""

STEP_PX, MOST_PX, LEAST_PX = 74, 700, 300
MOST_LINKS, MOST_IDLE = 1900, 650
MOST_CARRIED = 6
"""Streams that a hover text of a link lists."""


@dataclass(frozen=True)
class LinkStyle:
    """How links are drawn whose share is below `below`; `width` in pixels."""

    below: float
    title: str
    colour: str
    width: float


LOADS = (
    LinkStyle(0.25, "link, under 25 %", SKY, 1.5),
    LinkStyle(0.5, "25 to 50 %", BLUE, 2.5),
    LinkStyle(0.75, "50 to 75 %", ORANGE, 3.5),
    LinkStyle(math.inf, "75 % and more", VERMILLION, 5.0),
)


def load_of(share: float) -> LinkStyle:
    """By the share of the ticks between two images in which a link is busy."""
    return next(load for load in LOADS if share < load.below)


def mesh_figure(lowered: LoweredPipeline, hardware: Hardware, mapping: Mapping, usage: Usage) -> go.Figure:
    """customdata: of a core its number, stage and ticks; of a link its number, elements and ticks."""
    figure = go.Figure()
    places = core_places(hardware)
    _add_cores(figure, lowered, hardware, mapping, usage, places)
    _add_links(figure, hardware, usage, places)
    _add_busiest(figure, hardware, usage, places)
    _add_gmem(figure, hardware, places)
    width, height = (max(axis) for axis in zip(*places, strict=True))
    figure.update_xaxes(visible=False, range=[-STUB - 0.3, width + STUB + 0.3], fixedrange=True, constrain="domain")
    figure.update_yaxes(
        visible=False,
        range=[height + 0.6, -0.6],
        scaleanchor="x",
        constrain="domain",
        constraintoward="top",
        fixedrange=True,
    )
    figure.update_layout(
        height=int(min(MOST_PX, max(LEAST_PX, STEP_PX * (height + 1.2)))) + 125,
        margin={"l": 5, "r": 5, "t": 55, "b": 70},
        hoverdistance=9,  # on a phone links are no farther than that from the middle of a core
    )
    return figure


def core_text(lowered: LoweredPipeline, hardware: Hardware, use: CoreUse) -> str:
    """What runs on a core, as the hover text says it."""
    stage = lowered.pipeline.stages[use.stage]
    matrix = f", matrix {stage.crossbar_rows} x {stage.crossbar_columns}" if stage.crossbar_rows else ""
    return (
        f"<b>core {use.core}: {plotly_text(stage.name)}</b><br>layer {plotly_text(stage.layer)}, replica {stage.replica}{matrix}"
        f"<br>{use.ticks} ticks per image ({stage.iterations} iterations of {lowered.ticks[use.stage]}): {100 * use.share:.1f} % busy"
        f"<br>{use.sram_bytes} of {hardware.sram_bytes} bytes of SRAM"
    )


def link_text(hardware: Hardware, use: LinkUse) -> str:
    """What a link carries, as the hover text says it."""
    lines = [
        f"<b>{node_name(hardware, use.source)} to {node_name(hardware, use.target)}</b>",
        f"{use.elements} elements per image, {use.ticks:g} ticks: {100 * use.share:.1f} % busy",
    ]
    heaviest = sorted(use.carried, key=lambda one: -one[1])
    lines += [f"{plotly_text(name)}: {elements}" for name, elements in heaviest[:MOST_CARRIED]]
    if len(heaviest) > MOST_CARRIED:
        lines.append(f"and {len(heaviest) - MOST_CARRIED} more")
    return "<br>".join(lines)


def node_name(hardware: Hardware, node: int) -> str:
    """A core, or the global memory."""
    return "GMEM" if node == hardware.gmem else f"core {node}"


def _add_cores(
    figure: go.Figure,
    lowered: LoweredPipeline,
    hardware: Hardware,
    mapping: Mapping,
    usage: Usage,
    places: Sequence[Point],
) -> None:
    """Squares where cores lie in a grid: bricks of a heat map, whose labels take the size that fits."""
    by_core = {use.core: use for use in usage.cores}
    texts = [
        core_text(lowered, hardware, by_core[core]) if core in by_core else f"core {core}: idle"
        for core in range(hardware.cores)
    ]
    shares = [100 * by_core[core].share if core in by_core else None for core in range(hardware.cores)]
    data = [
        [core, by_core[core].stage, by_core[core].ticks] if core in by_core else [core, None, 0]
        for core in range(hardware.cores)
    ]
    bar = {"title": {"text": "core busy, %", "side": "top"}, "orientation": "h", "thickness": 8, "len": 0.5}
    bar |= {"x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom"}
    coloraxis = {"cmin": 0, "cmax": 100, "colorscale": [[0, "#D9EAF5"], [0.5, SKY], [1, BLUE]], "colorbar": bar}
    figure.update_layout(coloraxis=coloraxis)
    looks = _CoreLooks(shares, texts, data)
    columns = hardware.grid_columns
    if not columns:
        _add_core_marks(figure, looks, places)
        return
    _add_core_bricks(figure, looks, hardware.cores, columns)
    _add_labels(figure, lowered, hardware, usage, places)
    idle = [core for core in range(hardware.cores) if core not in by_core]
    if idle:
        marker = {"symbol": "square-open", "size": 14, "color": NEUTRAL}
        x, y = [places[core][0] for core in idle], [places[core][1] for core in idle]
        about = {"hovertext": [texts[core] for core in idle], "hoverinfo": "text", "name": "idle core"}
        figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=marker, **about))


@dataclass(frozen=True)
class _CoreLooks:
    """By core: percent busy (None: idle), what is said of it, and what a click on it hands over."""

    shares: list[float | None]
    texts: list[str]
    data: Sequence[Sequence[float | None]]


def _add_core_marks(figure: go.Figure, looks: _CoreLooks, places: Sequence[Point]) -> None:
    """Cores that lie in no grid."""
    marker = {
        "size": 14,
        "color": [share or 0 for share in looks.shares],
        "coloraxis": "coloraxis",
        "symbol": ["circle-open" if share is None else "circle" for share in looks.shares],
    }
    about = {
        "hovertext": looks.texts,
        "hoverinfo": "text",
        "customdata": looks.data,
        "meta": "cores",
        "showlegend": False,
    }
    x, y = [place[0] for place in places], [place[1] for place in places]
    figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=marker, **about))


def _add_core_bricks(figure: go.Figure, looks: _CoreLooks, cores: int, columns: int) -> None:
    """Cores that lie in a grid."""
    rows = -(-cores // columns)

    def bricks(values: Sequence[object]) -> list[list[object]]:
        """A brick a core, and empty ones in between."""
        grid: list[list[object]] = [[None] * (2 * columns - 1) for _ in range(2 * rows - 1)]
        for core, value in enumerate(values):
            grid[2 * (core // columns)][2 * (core % columns)] = value
        return grid

    figure.add_trace(
        go.Heatmap(
            x=_edges(columns),
            y=_edges(rows),
            z=bricks(looks.shares),
            coloraxis="coloraxis",
            hovertext=bricks(looks.texts),
            hoverinfo="text",
            hoverongaps=False,
            customdata=bricks(looks.data),
            meta="cores",
        )
    )


def _add_labels(
    figure: go.Figure, lowered: LoweredPipeline, hardware: Hardware, usage: Usage, places: Sequence[Point]
) -> None:
    """Per cent, and the stage: in an invisible heat map, which alone writes names as small as they must be to fit."""
    columns = hardware.grid_columns or 1
    rows = -(-hardware.cores // columns)
    names, shares = [[""] * columns for _ in range(rows)], [[None] * columns for _ in range(rows)]
    for use in usage.cores:
        name = lowered.pipeline.stages[use.stage].name
        name = name if len(name) <= LABEL_LENGTH else f"…{name[1 - LABEL_LENGTH :]}"
        names[use.core // columns][use.core % columns] = f"<br>\u00a0{plotly_text(name)}\u00a0"
        shares[use.core // columns][use.core % columns] = 100 * use.share  # type: ignore[call-overload]
    figure.add_trace(
        go.Heatmap(
            x=list(range(columns)),
            y=list(range(rows)),
            z=shares,
            coloraxis="coloraxis",
            opacity=0,
            text=names,
            texttemplate="%{text}",
            hoverinfo="skip",
        )
    )
    if columns > MOST_NUMBERED:
        return
    figure.add_trace(
        go.Scatter(
            x=[places[use.core][0] for use in usage.cores],
            y=[places[use.core][1] for use in usage.cores],
            mode="text",
            text=[f"{100 * use.share:.0f}" for use in usage.cores],
            textfont={"size": 11, "color": ["#FFFFFF" if use.share > DARK else BLACK for use in usage.cores]},
            textposition="top center" if columns <= MOST_NUMBERED // 2 else "middle center",
            showlegend=False,
            hoverinfo="skip",
            meta="shares",
        )
    )


def _add_busiest(figure: go.Figure, hardware: Hardware, usage: Usage, places: Sequence[Point]) -> None:
    """Outlines."""
    busiest = [places[use.core] for use in usage.busiest_cores]
    line = {"color": VERMILLION, "width": 3}
    if not hardware.grid_columns:
        marker = {"symbol": "circle-open", "size": 18, "color": VERMILLION, "line": {"width": 3}}
        x, y = [x for x, _ in busiest], [y for _, y in busiest]
        figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=marker, name="busiest core", hoverinfo="skip"))
        return
    xs, ys = list[float | None](), list[float | None]()
    for column, row in busiest:
        xs += [*(column + side * HALF for side in (-1, 1, 1, -1, -1)), None]
        ys += [*(row + side * HALF for side in (-1, -1, 1, 1, -1)), None]
    figure.add_trace(go.Scatter(x=xs, y=ys, mode="lines", line=line, name="busiest core", hoverinfo="skip"))


def _edges(count: int) -> list[float]:
    """The edges of bricks and of the gaps between them."""
    return [place + side for place in range(count) for side in (-HALF, HALF)]


def _add_links(figure: go.Figure, hardware: Hardware, usage: Usage, places: Sequence[Point]) -> None:
    drawn = sorted(usage.links, key=lambda use: -use.ticks)[:MOST_LINKS]
    ends = {use.number: _ends(hardware, places, use) for use in drawn}
    idle = [use for use in drawn if not use.elements][:MOST_IDLE]
    groups = [(load, [use for use in drawn if use.elements and load_of(use.share) is load]) for load in LOADS]
    for load, uses in [(LinkStyle(0, "idle link", NEUTRAL, 0.7), idle), *groups]:
        if not uses:
            continue
        x, y = list[float | None](), list[float | None]()
        for use in uses:
            (ax, ay), (bx, by) = ends[use.number]
            x += [ax, bx, None]
            y += [ay, by, None]
        head = 0 if not load.below else 5 + load.width
        figure.add_trace(
            go.Scatter(
                x=x,
                y=y,
                mode="lines+markers",
                line={"color": load.colour, "width": load.width, "dash": "solid" if load.below else "dot"},
                marker={
                    "symbol": "arrow",
                    "angleref": "previous",
                    "size": [0, head, 0] * len(uses),
                    "color": load.colour,
                    "line": {"width": 0},
                },
                name=load.title,
                hoverinfo="skip",
            )
        )
    _add_link_marks(figure, hardware, drawn, ends, {use.number for use in usage.busiest_links})


def _add_link_marks(
    figure: go.Figure,
    hardware: Hardware,
    drawn: Sequence[LinkUse],
    ends: dict[int, tuple[Point, Point]],
    busiest: set[int],
) -> None:
    """What the pointer finds of each link, and a star on the busiest ones."""
    middles = [[sum(axis) / 2 for axis in zip(*ends[use.number], strict=True)] for use in drawn]
    figure.add_trace(
        go.Scatter(
            x=[x for x, _ in middles],
            y=[y for _, y in middles],
            mode="markers",
            marker={"size": 12, "opacity": 0},
            customdata=[[use.number, use.elements, use.ticks] for use in drawn],
            hovertext=[link_text(hardware, use) for use in drawn],
            hoverinfo="text",
            showlegend=False,
            meta="links",
        )
    )
    marked = [middle for use, middle in zip(drawn, middles, strict=True) if use.number in busiest]
    if marked:
        star = {"symbol": "star", "size": 11, "color": ORANGE, "line": {"width": 1, "color": BLACK}}
        x, y = [x for x, _ in marked], [y for _, y in marked]
        figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=star, name="busiest link", hoverinfo="skip"))


def _ends(hardware: Hardware, places: Sequence[Point], use: LinkUse) -> tuple[Point, Point]:
    """From border to border of what it joins, beside the line between the middles."""
    ax, ay = node_place(hardware, places, use.source, use.target, STUB)
    bx, by = node_place(hardware, places, use.target, use.source, STUB)
    length = math.hypot(bx - ax, by - ay) or 1.0
    dx, dy = (bx - ax) / length, (by - ay) / length
    out = (HALF + 0.02) / max(abs(dx), abs(dy), 0.1) if hardware.grid_columns else 0.1
    start = 0.0 if use.source == hardware.gmem else out
    end = 0.0 if use.target == hardware.gmem else out
    ox, oy = (-dy * BESIDE, dx * BESIDE) if hardware.grid_columns else (-dy * BESIDE_RING, dx * BESIDE_RING)
    return (ax + dx * start + ox, ay + dy * start + oy), (bx - dx * end + ox, by - dy * end + oy)


def _add_gmem(figure: go.Figure, hardware: Hardware, places: Sequence[Point]) -> None:
    ports = {
        node_place(hardware, places, hardware.gmem, link.target if link.source == hardware.gmem else link.source, STUB)
        for link in hardware.links
        if hardware.gmem in (link.source, link.target)
    }
    marker = {"symbol": "square", "size": 12, "color": GREEN}
    x, y = [x for x, _ in ports], [y for _, y in ports]
    figure.add_trace(
        go.Scatter(
            x=x, y=y, mode="markers", marker=marker, name="GMEM", hovertext=["global memory"] * len(x), hoverinfo="text"
        )
    )
