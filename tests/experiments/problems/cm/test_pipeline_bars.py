"""The pipeline of a report and gantt.svg show the same rows and bars, and whatever is changed of them changes in both."""

from __future__ import annotations

import dataclasses
import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go
import pytest

from kilotune.experiments.problems.cm.figures.busy_figures import pipeline_figure
from kilotune.experiments.problems.cm.pipeline_bars import (
    IMAGE_STYLES,
    ImageStyle,
    PipelineBar,
    PipelineChart,
    PipelineImage,
    PipelineRow,
)
from kilotune.experiments.problems.cm.pipeline_svg import BAR, HEAD, LABELS, PATTERNS, ROW, WIDTH, gantt_svg

SVG = "{http://www.w3.org/2000/svg}"
CHART = PipelineChart(
    (PipelineRow(4, "conv&lt;1"), PipelineRow(7, "fc")),
    (
        PipelineImage("image 1", IMAGE_STYLES[0], (PipelineBar(0, 0, 40, 1.0, "a&lt;b: 0 to 40"),)),
        PipelineImage(
            "image 2",
            IMAGE_STYLES[1],
            (PipelineBar(0, 50, 90, 0.65, "a&lt;b: 50"), PipelineBar(1, 95, 200, 0.3, "fc: 95")),
        ),
    ),
    200,
)
Seen = dict[str, list[Any]]
"""rows: labels from above. images: title, colour, pattern. bars: image, row, first tick, end, opacity, and what is said."""


def plotly_shows(figure: go.Figure) -> Seen:
    bars = [
        (number, row, base, base + length, round(opacity, 2), html.unescape(said))
        for number, trace in enumerate(figure.data)
        for row, base, length, opacity, said in zip(
            trace.y, trace.base, trace.x, trace.marker.opacity, trace.hovertext, strict=True
        )
    ]
    images = [(trace.name, trace.marker.color, trace.marker.pattern.shape) for trace in figure.data]
    return {"rows": [html.unescape(text) for text in figure.layout.yaxis.ticktext], "images": images, "bars": bars}


def svg_shows(text: str, end: int) -> Seen:
    picture = ET.fromstring(text)
    patterns = {pattern.get("id"): pattern for pattern in picture.iter(f"{SVG}pattern")}
    shapes = {path: shape for shape, path in PATTERNS.items()}
    elements = list(picture)
    images, fills = [], list[str]()
    for sample, label in pairwise(elements):
        if sample.get("class") == "legend":
            fill = sample.get("fill", "")
            fills.append(fill)
            colour, shape = fill, ""
            if fill.startswith("url"):
                tile = patterns[fill[5:-1]]
                colour = tile[0].get("fill", "")
                shape = shapes[tile[1].get("d", "")]
            images.append((label.text, colour, shape))
    bars = []
    for bar in elements:
        if bar.get("class") == "bar":
            x, y, width = (float(bar.get(name, "")) for name in ("x", "y", "width"))
            row = (y - HEAD) / ROW - (1 - BAR) / 2
            ticks = [round((at - LABELS) / WIDTH * end, 1) for at in (x, x + width)]
            about = (float(bar.get("opacity", "")), bar.findtext(f"{SVG}title"))
            bars.append((fills.index(bar.get("fill", "")), round(row, 2), *ticks, *about))
    rows = [t.text for t in elements if t.tag == f"{SVG}text" and t.get("x") == f"{LABELS - 5:.2f}"]
    return {"rows": rows, "images": images, "bars": bars}


def both(chart: PipelineChart) -> tuple[Seen, Seen]:
    return plotly_shows(pipeline_figure(chart)), svg_shows(gantt_svg(chart, "a title"), chart.end)


def test_both_show_the_same() -> None:
    figure, picture = both(CHART)
    assert figure == picture
    assert figure["bars"][1] == (1, 0, 50, 90, 0.65, "a&lt;b: 50")


def with_bar(**changes: Any) -> Callable[[PipelineChart], PipelineChart]:
    return lambda chart: in_image(chart, bars=(dataclasses.replace(chart.images[1].bars[0], **changes),))


def in_image(chart: PipelineChart, **changes: Any) -> PipelineChart:
    return dataclasses.replace(chart, images=(chart.images[0], dataclasses.replace(chart.images[1], **changes)))


MUTATIONS: dict[str, Callable[[PipelineChart], PipelineChart]] = {
    "row of a bar": with_bar(row=1),
    "first of a bar": with_bar(first=60),
    "end of a bar": with_bar(end=70),
    "opacity of a bar": with_bar(opacity=0.5),
    "said of a bar": with_bar(said="c"),
    "bars of an image": lambda chart: in_image(chart, bars=()),
    "title of an image": lambda chart: in_image(chart, title="image 3"),
    "colour of an image": lambda chart: in_image(chart, style=ImageStyle("#123456", "/")),
    "pattern of an image": lambda chart: in_image(chart, style=ImageStyle(IMAGE_STYLES[1].colour, ".")),
    "label of a row": lambda chart: dataclasses.replace(chart, rows=(PipelineRow(4, "pool"), chart.rows[1])),
    "rows of the chart": lambda chart: dataclasses.replace(chart, rows=(*chart.rows, PipelineRow(8, "last"))),
    "images of the chart": lambda chart: dataclasses.replace(chart, images=chart.images[:1]),
}


@pytest.mark.parametrize("changed", MUTATIONS)
def test_a_change_shows_in_both(changed: str) -> None:
    before, after = both(CHART), both(MUTATIONS[changed](CHART))
    assert after[0] == after[1]
    assert before[0] != after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize(("end", "marks"), [(1, ["0", "1"]), (9, list("0123456789")), (200, None), (4462, None)])
def test_ticks_are_marked_at_round_numbers(end: int, marks: list[str] | None) -> None:
    texts = re.findall(r">(\d+)</text>", gantt_svg(dataclasses.replace(CHART, rows=(), images=(), end=end), "title"))
    if marks is not None:
        assert texts == marks
    assert 2 <= len(texts) <= 11
    step = int(texts[1])
    assert texts == [str(step * k) for k in range(len(texts))]
    assert str(step).strip("0") in {"1", "2", "5"}
    assert end - step < int(texts[-1]) <= end


def test_nothing_is_too_narrow_to_be_seen() -> None:
    tiny = in_image(dataclasses.replace(CHART, end=10**6), bars=(PipelineBar(1, 5, 6, 1.0, "one tick"),))
    widths = re.findall(r'class="bar" [^>]*width="([\d.]+)"', gantt_svg(tiny, "title"))
    assert [float(width) for width in widths] == [1.0, 1.0]
