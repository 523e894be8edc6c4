"""What is busiest in a mapped network, and what its stages do at which tick."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from kilotune.codegen.cm.hardware import Hardware
from kilotune.evaluators.cm.stream import TickArray
from kilotune.experiments.presentation.palette import BLUE, GREEN, ORANGE, SKY, VERMILLION
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.cm.figures.mesh_figure import node_name
from kilotune.experiments.problems.cm.utilisation import Bar, CoreUse, LinkUse, Usage, bars_of
from kilotune.spaces.cm.lowered import LoweredPipeline

BUSIEST = 8
MOST_BARS = 1000
MOST_ROWS = 120
RESOLUTION = 550.0
"""Gaps that are drawn are at least the whole time by this."""

NAME_LENGTH = 16
IMAGE_STYLES = ((BLUE, ""), (ORANGE, "/"), (SKY, "x"), (GREEN, "."))


def busiest_figure(
    lowered: LoweredPipeline, hardware: Hardware, usage: Usage, ticks: float, bound: float | None
) -> go.Figure:
    """The busiest cores and the busiest links, with the ticks per image measured and bound."""
    cores = sorted(usage.cores, key=lambda use: -use.ticks)[:BUSIEST]
    links = [use for use in sorted(usage.links, key=lambda use: -use.ticks)[:BUSIEST] if use.ticks]
    stages = lowered.pipeline.stages
    groups: tuple[tuple[str, list[str], Sequence[CoreUse | LinkUse], str, str], ...] = (
        ("core", [f"core {use.core}: {short(stages[use.stage].name)}" for use in cores], cores, BLUE, ""),
        (
            "link",
            [f"{node_name(hardware, use.source)} to {node_name(hardware, use.target)}" for use in links],
            links,
            ORANGE,
            "/",
        ),
    )
    figure = go.Figure()
    labels: list[str] = []
    for name, titles, uses, colour, pattern in groups:
        figure.add_trace(
            go.Bar(
                x=[use.ticks for use in uses],
                y=list(range(len(labels), len(labels) + len(uses))),
                orientation="h",
                marker={"color": colour, "pattern": pattern_over(pattern)},
                name=name,
                text=[f"{use.ticks:g}" for use in uses],
                hovertext=[
                    f"{title}: {use.ticks:g} ticks per image, {100 * use.share:.1f} %"
                    for title, use in zip(titles, uses, strict=True)
                ],
                hoverinfo="text",
            )
        )
        labels += titles
    _add_levels(figure, len(labels), ticks, bound)
    figure.update_yaxes(
        tickvals=list(range(len(labels))),
        ticktext=labels,
        range=[len(labels) - 0.4, -0.6],
        fixedrange=True,
        tickfont={"size": 10},
    )
    figure.update_xaxes(title="ticks per image", rangemode="tozero")
    figure.update_layout(height=24 * len(labels) + 140, bargap=0.25)
    return figure


def _add_levels(figure: go.Figure, bars: int, ticks: float, bound: float | None) -> None:
    """The ticks per image, measured and bound, as lines across all bars."""
    for value, name, line_colour, dash in (
        (ticks, "ticks per image", VERMILLION, "solid"),
        (bound, "bound", GREEN, "dot"),
    ):
        if value is not None:
            figure.add_trace(
                go.Scatter(
                    x=[value, value],
                    y=[-0.6, bars - 0.4],
                    mode="lines",
                    line={"color": line_colour, "dash": dash, "width": 3},
                    name=f"{name} ({value:g})",
                    hoverinfo="name",
                )
            )


def pipeline_figure(lowered: LoweredPipeline, starts: Sequence[TickArray], images: int) -> go.Figure:
    """A row a stage, a trace an image; where a bar is pale the stage waits between its iterations. customdata: stage, first tick, end."""
    rows = rows_shown(lowered)
    figure = go.Figure()
    last = max((int(s[-1]) + t for s, t in zip(starts, lowered.ticks, strict=True) if len(s)), default=1)
    stages = lowered.pipeline.stages
    for image in range(images):
        bars = _image_bars(lowered, starts, image, rows, last)
        colour, pattern = IMAGE_STYLES[image % len(IMAGE_STYLES)]
        figure.add_trace(
            go.Bar(
                base=[bar.first for _, bar in bars],
                x=[bar.end - bar.first for _, bar in bars],
                y=[row for row, _ in bars],
                orientation="h",
                marker={
                    "color": colour,
                    "opacity": [0.3 + 0.7 * bar.busy for _, bar in bars],
                    "pattern": pattern_over(pattern),
                    "line": {"width": 0},
                },
                name=f"image {image + 1}",
                customdata=[[rows[row], bar.first, bar.end] for row, bar in bars],
                hovertext=[
                    f"{plotly_text(stages[rows[row]].name)}, image {image + 1}: ticks {bar.first} to {bar.end}, busy {100 * bar.busy:.0f} %"
                    for row, bar in bars
                ],
                hoverinfo="text",
            )
        )
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=[short(stages[stage].name) for stage in rows],
        tickfont={"size": 9},
        range=[len(rows) - 0.4, -0.6],
        fixedrange=True,
    )
    figure.update_xaxes(title="ticks", rangemode="tozero")
    figure.update_layout(height=13 * len(rows) + 130, barmode="overlay", bargap=0.15)
    return figure


def rows_shown(lowered: LoweredPipeline) -> list[int]:
    """Stages in their order; of very many the busiest."""
    stages = lowered.pipeline.stages
    busiest = sorted(range(len(stages)), key=lambda s: -stages[s].iterations * lowered.ticks[s])
    return sorted(busiest[:MOST_ROWS])


def short(name: str) -> str:
    """A name for an axis, escaped."""
    return plotly_text(name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…")


def pattern_over(shape: str) -> dict[str, object]:
    """Dark lines over a bar of its own colour."""
    return {"shape": shape, "fillmode": "overlay", "fgcolor": "rgba(0,0,0,0.45)", "size": 6, "solidity": 0.15}


def _image_bars(
    lowered: LoweredPipeline, starts: Sequence[TickArray], image: int, rows: Sequence[int], last: int
) -> list[tuple[int, Bar]]:
    """By row. Gaps are left out until there are few enough."""
    gap = last / RESOLUTION
    while True:
        found = []
        for row, stage in enumerate(rows):
            iterations, ticks = lowered.pipeline.stages[stage].iterations, lowered.ticks[stage]
            own = starts[stage][image * iterations : (image + 1) * iterations]
            found += [(row, bar) for bar in bars_of(own, ticks, max(gap, 2.0 * ticks))]
        if len(found) <= MOST_BARS or gap > last:
            return found
        gap *= 2
