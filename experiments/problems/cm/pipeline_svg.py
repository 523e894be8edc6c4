"""A pipeline over time as plain SVG (gantt.svg). What it shows is what the pipeline of a report shows (`pipeline_bars.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from types import MappingProxyType

from kilotune.experiments.presentation.svg import svg_document, svg_text, svg_title
from kilotune.experiments.problems.cm.pipeline_bars import PipelineBar, PipelineChart

WIDTH, ROW, LABELS, MARGIN, HEAD, FOOT, FONT = 1100.0, 14.0, 120.0, 20.0, 60.0, 40.0, 11.0
BAR = 0.85
"""The share of a row that its bars take."""

LEAST_BAR = 1.0
"""Narrower ones would vanish."""

MARKS = 10
"""About so many ticks are marked on the axis."""

PATTERNS = MappingProxyType({"/": "M0 6L6 0", "x": "M0 0L6 6M0 6L6 0", ".": "M2 3H4"})
"""The lines over bars by their shape, in a tile of 6 by 6."""


def gantt_svg(chart: PipelineChart, title: str) -> str:
    """The document: ticks across, a row a stage, a colour and a pattern an image."""
    bottom = HEAD + ROW * len(chart.rows)
    body = [*_patterns(chart), svg_text(LABELS, 20, title, font_size=15), *_legend(chart), *_axis(chart, bottom)]
    for number, row in enumerate(chart.rows):
        body.append(svg_text(LABELS - 5, HEAD + ROW * number + 0.75 * ROW, row.label, text_anchor="end"))
    for number, image in enumerate(chart.images):
        body += [_bar(chart, bar, _fill(chart, number)) for bar in image.bars]
    return svg_document(LABELS + WIDTH + MARGIN, bottom + FOOT, FONT, title, body)


def _patterns(chart: PipelineChart) -> Iterator[str]:
    yield "<defs>"
    for number, image in enumerate(chart.images):
        if image.style.pattern:
            yield f'<pattern id="image{number}" width="6" height="6" patternUnits="userSpaceOnUse">'
            yield f'<rect width="6" height="6" fill="{image.style.colour}"/>'
            lines = 'stroke="black" stroke-opacity="0.45" stroke-width="0.6" fill="none"'
            yield f'<path d="{PATTERNS[image.style.pattern]}" {lines}/></pattern>'
    yield "</defs>"


def _fill(chart: PipelineChart, number: int) -> str:
    style = chart.images[number].style
    return f"url(#image{number})" if style.pattern else style.colour


def _legend(chart: PipelineChart) -> Iterator[str]:
    for number, image in enumerate(chart.images):
        x = LABELS + 100 * number
        yield f'<rect class="legend" x="{x:g}" y="32" width="24" height="12" fill="{_fill(chart, number)}"/>'
        yield f'<text x="{x + 30:g}" y="42">{escape(image.title)}</text>'
    yield svg_text(LABELS + WIDTH, 42, "pale: the stage waits between its iterations", text_anchor="end")


def _axis(chart: PipelineChart, bottom: float) -> Iterator[str]:
    step = _mark_step(chart.end)
    for tick in range(0, chart.end + 1, step):
        x = LABELS + WIDTH * tick / chart.end
        yield f'<path d="M{x:.2f} {HEAD:g}V{bottom:g}" stroke="#ddd"/>'
        yield svg_text(x, bottom + 14, str(tick), text_anchor="middle")
    yield svg_text(LABELS + WIDTH / 2, bottom + 32, "ticks", text_anchor="middle")


def _mark_step(end: int) -> int:
    """1, 2 or 5 times a power of ten, for about `MARKS` marks up to `end`."""
    power = int(10.0 ** math.floor(math.log10(max(end / MARKS, 1.0))))
    return next(times * power for times in (1, 2, 5, 10) if end <= MARKS * times * power)


def _bar(chart: PipelineChart, bar: PipelineBar, fill: str) -> str:
    scale = WIDTH / chart.end
    y = HEAD + ROW * (bar.row + (1 - BAR) / 2)
    return (
        f'<rect class="bar" x="{LABELS + bar.first * scale:.2f}" y="{y:.2f}" width="{max((bar.end - bar.first) * scale, LEAST_BAR):.2f}" '
        f'height="{BAR * ROW:g}" fill="{fill}" opacity="{bar.opacity:.2f}">{svg_title(bar.said)}</rect>'
    )
