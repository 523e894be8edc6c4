"""What is busiest in a mapped network, and what its stages do at which tick."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from kilotune.codegen.cm.hardware import Hardware
from kilotune.experiments.presentation.canvas import shortened
from kilotune.experiments.presentation.palette import BLUE, GREEN, ORANGE, VERMILLION
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.cm.mesh import node_name
from kilotune.experiments.problems.cm.pipeline_bars import NAME_LENGTH, PipelineChart
from kilotune.experiments.problems.cm.utilisation import CoreUse, LinkUse, Usage, stages_of
from kilotune.spaces.cm.lowered import LoweredPipeline

BUSIEST = 8


def busiest_figure(
    lowered: LoweredPipeline, hardware: Hardware, usage: Usage, ticks: float, bound: float | None
) -> go.Figure:
    """The busiest cores and the busiest links, with the ticks per image measured and bound."""
    cores = sorted(usage.cores, key=lambda use: -use.ticks)[:BUSIEST]
    links = [use for use in sorted(usage.links, key=lambda use: -use.ticks)[:BUSIEST] if use.ticks]
    groups: tuple[tuple[str, list[str], Sequence[CoreUse | LinkUse], str, str], ...] = (
        ("core", [f"core {use.core}: {_short(stages_of(lowered, use))}" for use in cores], cores, BLUE, ""),
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


def pipeline_figure(chart: PipelineChart) -> go.Figure:
    """A row a stage, a trace an image. customdata: stage, first tick, end."""
    figure = go.Figure()
    for image in chart.images:
        figure.add_trace(
            go.Bar(
                base=[bar.first for bar in image.bars],
                x=[bar.end - bar.first for bar in image.bars],
                y=[bar.row for bar in image.bars],
                orientation="h",
                marker={
                    "color": image.style.colour,
                    "opacity": [bar.opacity for bar in image.bars],
                    "pattern": pattern_over(image.style.pattern),
                    "line": {"width": 0},
                },
                name=image.title,
                customdata=[[chart.rows[bar.row].stage, bar.first, bar.end] for bar in image.bars],
                hovertext=[plotly_text(bar.said) for bar in image.bars],
                hoverinfo="text",
            )
        )
    figure.update_yaxes(
        tickvals=list(range(len(chart.rows))),
        ticktext=[plotly_text(row.label) for row in chart.rows],
        tickfont={"size": 9},
        range=[len(chart.rows) - 0.4, -0.6],
        fixedrange=True,
    )
    figure.update_xaxes(title="ticks", rangemode="tozero")
    figure.update_layout(height=13 * len(chart.rows) + 130, barmode="overlay", bargap=0.15)
    return figure


def _short(name: str) -> str:
    return plotly_text(shortened(name, NAME_LENGTH))


def pattern_over(shape: str) -> dict[str, object]:
    """Dark lines over a bar of its own colour."""
    return {"shape": shape, "fillmode": "overlay", "fgcolor": "rgba(0,0,0,0.45)", "size": 6, "solidity": 0.15}
