"""A mapped network on its accelerator as a Plotly figure: cores as busy as they are, links as loaded as they are."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from kilotune.experiments.presentation.palette import BLACK, GREEN, NEUTRAL, ORANGE, VERMILLION
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.cm.mesh import (
    BUSY_COLOURS,
    HALF,
    IDLE_LINK,
    LINE_LENGTH,
    STUB,
    CoreMark,
    LinkArrow,
    LinkStyle,
    Mesh,
)

STEP_PX, MOST_PX, LEAST_PX = 74, 700, 300


def mesh_figure(mesh: Mesh) -> go.Figure:
    """customdata: of a core its number, stage and ticks; of a link its number, load and ticks."""
    figure = go.Figure()
    _add_cores(figure, mesh)
    for style, arrows in mesh.arrows:
        figure.add_trace(_arrows(style, arrows))
    _add_link_marks(figure, mesh)
    _add_busiest(figure, mesh)
    _add_gmem(figure, mesh)
    figure.update_xaxes(
        visible=False, range=[-STUB - 0.3, mesh.width + STUB + 0.3], fixedrange=True, constrain="domain"
    )
    figure.update_yaxes(
        visible=False,
        range=[mesh.height + 0.6, -0.6],
        scaleanchor="x",
        constrain="domain",
        constraintoward="top",
        fixedrange=True,
    )
    figure.update_layout(
        height=int(min(MOST_PX, max(LEAST_PX, STEP_PX * (mesh.height + 1.2)))) + 125,
        margin={"l": 5, "r": 5, "t": 55, "b": 70},
        hoverdistance=9,  # on a phone links are no farther than that from the middle of a core
    )
    return figure


def _hover(said: Sequence[str]) -> str:
    """The heading in bold where there is more than a heading."""
    heading, *lines = map(plotly_text, said)
    return "<br>".join([f"<b>{heading}</b>", *lines]) if lines else heading


def _add_cores(figure: go.Figure, mesh: Mesh) -> None:
    """Squares where cores lie in a grid: bricks of a heat map, whose labels take the size that fits."""
    bar = {"title": {"text": "core busy, %", "side": "top"}, "orientation": "h", "thickness": 8, "len": 0.5}
    bar |= {"x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom"}
    coloraxis = {"cmin": 0, "cmax": 100, "colorscale": [list(stop) for stop in BUSY_COLOURS], "colorbar": bar}
    figure.update_layout(coloraxis=coloraxis)
    figure.add_trace(_core_marks(mesh) if mesh.columns is None else _core_bricks(mesh, mesh.columns))
    if mesh.columns is not None and any(mark.name for mark in mesh.cores):
        figure.add_trace(_names(mesh, mesh.columns))
    if any(mark.number for mark in mesh.cores):
        figure.add_trace(_numbers(mesh))
    if mesh.idle:
        symbol = "circle-open" if mesh.columns is None else "square-open"
        marker = {"symbol": symbol, "size": 14, "color": NEUTRAL}
        x, y = zip(*(mark.place for mark in mesh.idle), strict=True)
        about = {"hovertext": [_hover(mark.said) for mark in mesh.idle], "hoverinfo": "text", "name": "idle core"}
        figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=marker, **about))


def _percent(mark: CoreMark) -> float | None:
    return None if mark.use is None else 100 * mark.use.share


def _handed_over(mark: CoreMark) -> list[float | None]:
    """What a click on a core hands over."""
    return [mark.core, None, 0] if mark.use is None else [mark.core, mark.use.stage, mark.use.ticks]


def _core_marks(mesh: Mesh) -> go.Scatter:
    """Cores that lie in no grid."""
    marker = {
        "size": 14,
        "color": [_percent(mark) or 0 for mark in mesh.cores],
        "coloraxis": "coloraxis",
        "symbol": ["circle-open" if mark.use is None else "circle" for mark in mesh.cores],
    }
    about = {
        "hovertext": [_hover(mark.said) for mark in mesh.cores],
        "hoverinfo": "text",
        "customdata": [_handed_over(mark) for mark in mesh.cores],
        "meta": "cores",
        "showlegend": False,
    }
    x, y = [mark.place[0] for mark in mesh.cores], [mark.place[1] for mark in mesh.cores]
    return go.Scatter(x=x, y=y, mode="markers", marker=marker, **about)


def _core_bricks(mesh: Mesh, columns: int) -> go.Heatmap:
    """Cores that lie in a grid."""
    rows = -(-len(mesh.cores) // columns)

    def bricks(values: Sequence[object]) -> list[list[object]]:
        """A brick a core, and empty ones in between."""
        grid: list[list[object]] = [[None] * (2 * columns - 1) for _ in range(2 * rows - 1)]
        for mark, value in zip(mesh.cores, values, strict=True):
            grid[2 * int(mark.place[1])][2 * int(mark.place[0])] = value
        return grid

    return go.Heatmap(
        x=_edges(columns),
        y=_edges(rows),
        z=bricks([_percent(mark) for mark in mesh.cores]),
        coloraxis="coloraxis",
        hovertext=bricks([_hover(mark.said) for mark in mesh.cores]),
        hoverinfo="text",
        hoverongaps=False,
        customdata=bricks([_handed_over(mark) for mark in mesh.cores]),
        meta="cores",
    )


def _edges(count: int) -> list[float]:
    """The edges of bricks and of the gaps between them."""
    return [place + side for place in range(count) for side in (-HALF, HALF)]


def _names(mesh: Mesh, columns: int) -> go.Heatmap:
    """The stages, in an invisible heat map, which alone writes names as small as they must be to fit."""
    rows = -(-len(mesh.cores) // columns)
    blank = "\u00a0" * (
        LINE_LENGTH + 1
    )  # behind the number; what is fitted into a core is a little wider than any name
    names: list[list[str]] = [[""] * columns for _ in range(rows)]
    shares: list[list[float | None]] = [[None] * columns for _ in range(rows)]
    for mark, use in mesh.stages:
        column, row = map(int, mark.place)
        names[row][column] = "<br>".join([blank, *map(plotly_text, mark.name)])
        shares[row][column] = 100 * use.share
    return go.Heatmap(
        x=list(range(columns)),
        y=list(range(rows)),
        z=shares,
        coloraxis="coloraxis",
        opacity=0,
        text=names,
        texttemplate="%{text}",
        hoverinfo="skip",
    )


def _numbers(mesh: Mesh) -> go.Scatter:
    """How busy cores are, in per cent."""
    return go.Scatter(
        x=[mark.number_place[0] for mark, _ in mesh.stages],
        y=[mark.number_place[1] for mark, _ in mesh.stages],
        mode="text",
        text=[mark.number for mark, _ in mesh.stages],
        textfont={"size": 11, "color": [mark.ink for mark, _ in mesh.stages]},
        textposition="middle center",
        showlegend=False,
        hoverinfo="skip",
        meta="shares",
    )


def _arrows(style: LinkStyle, arrows: Sequence[LinkArrow]) -> go.Scatter:
    """One trace: the links of a style."""
    head = 0 if style is IDLE_LINK else 5 + style.width
    return go.Scatter(
        x=[x for arrow in arrows for x in (arrow.start[0], arrow.end[0], None)],
        y=[y for arrow in arrows for y in (arrow.start[1], arrow.end[1], None)],
        mode="lines+markers",
        line={"color": style.colour, "width": style.width, "dash": "dot" if style is IDLE_LINK else "solid"},
        marker={
            "symbol": "arrow",
            "angleref": "previous",
            "size": [0, head, 0] * len(arrows),
            "color": style.colour,
            "line": {"width": 0},
        },
        name=style.title,
        hoverinfo="skip",
    )


def _add_link_marks(figure: go.Figure, mesh: Mesh) -> None:
    """What the pointer finds of each link, and a star on the busiest ones."""
    figure.add_trace(
        go.Scatter(
            x=[arrow.middle[0] for arrow in mesh.links],
            y=[arrow.middle[1] for arrow in mesh.links],
            mode="markers",
            marker={"size": 12, "opacity": 0},
            customdata=[[arrow.use.number, arrow.use.load, arrow.use.ticks] for arrow in mesh.links],
            hovertext=[_hover(arrow.said) for arrow in mesh.links],
            hoverinfo="text",
            showlegend=False,
            meta="links",
        )
    )
    marked = [arrow.middle for arrow in mesh.links if arrow.busiest]
    if marked:
        star = {"symbol": "star", "size": 11, "color": ORANGE, "line": {"width": 1, "color": BLACK}}
        x, y = [x for x, _ in marked], [y for _, y in marked]
        figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=star, name="busiest link", hoverinfo="skip"))


def _add_busiest(figure: go.Figure, mesh: Mesh) -> None:
    """Outlines."""
    busiest = [mark.place for mark, _ in mesh.stages if mark.busiest]
    line = {"color": VERMILLION, "width": 3}
    if mesh.columns is None:
        marker = {"symbol": "circle-open", "size": 18, "color": VERMILLION, "line": {"width": 3}}
        x, y = [x for x, _ in busiest], [y for _, y in busiest]
        figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=marker, name="busiest core", hoverinfo="skip"))
        return
    xs, ys = list[float | None](), list[float | None]()
    for column, row in busiest:
        xs += [*(column + side * HALF for side in (-1, 1, 1, -1, -1)), None]
        ys += [*(row + side * HALF for side in (-1, -1, 1, 1, -1)), None]
    figure.add_trace(go.Scatter(x=xs, y=ys, mode="lines", line=line, name="busiest core", hoverinfo="skip"))


def _add_gmem(figure: go.Figure, mesh: Mesh) -> None:
    marker = {"symbol": "square", "size": 12, "color": GREEN}
    x, y = [x for x, _ in mesh.ports], [y for _, y in mesh.ports]
    figure.add_trace(
        go.Scatter(
            x=x, y=y, mode="markers", marker=marker, name="GMEM", hovertext=["global memory"] * len(x), hoverinfo="text"
        )
    )
