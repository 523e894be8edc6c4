"""What can be seen of a mesh, read off a report's figure and off mapping.svg."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import plotly.colors
import plotly.graph_objects as go

from kilotune.experiments.presentation.palette import NEUTRAL
from kilotune.experiments.problems.cm.mesh import IDLE_LINK, LOADS
from kilotune.experiments.problems.cm.mesh_svg import STEP

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Shown:
    """What can be seen, places in steps of the grid. cores: by place their colour (None: idle). written: texts by place, the
    names of a core as one. links: start, end, colour. legend: names."""

    cores: dict[tuple[float, float], tuple[int, ...] | None]
    said: set[str]
    written: set[tuple[str, ...]]
    inks: list[str]
    links: set[tuple[Any, ...]]
    stars: set[tuple[float, float]]
    outlined: set[tuple[float, float]]
    ports: set[tuple[float, float]]
    legend: list[str]


def place(x: float, y: float) -> tuple[float, float]:
    return round(float(x), 3), round(float(y), 3)


def plain(hover: str) -> str:
    return html.unescape(re.sub(r"</?b>", "", hover).replace("<br>", "\n"))


def rgb(colour: str) -> tuple[int, ...]:
    if colour.startswith("#"):
        return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return tuple(round(float(part)) for part in re.findall(r"[\d.]+", colour))


def _cells(trace: Any) -> list[tuple[tuple[float, float], float | None, str]]:
    """Place, per cent busy, and what is said of each core."""
    if trace.type == "heatmap":
        middles = [[(a + b) / 2 for a, b in pairwise(edges)] for edges in (trace.x, trace.y)]
        return [
            (place(x, y), trace.z[j][i], trace.hovertext[j][i])
            for j, y in enumerate(middles[1])
            for i, x in enumerate(middles[0])
            if trace.hovertext[j][i] is not None
        ]
    shares = [
        None if symbol == "circle-open" else share
        for share, symbol in zip(trace.marker.color, trace.marker.symbol, strict=True)
    ]
    return list(zip(map(place, trace.x, trace.y), shares, trace.hovertext, strict=True))


def _outlined(outline: Any) -> set[tuple[float, float]]:
    """The middles of what is drawn around cores."""
    corners = [(x, y) for x, y in zip(outline.x, outline.y, strict=True) if x is not None]
    size = 5 if outline.mode == "lines" else 1  # a square's corners, the first one twice
    return {
        place(
            (min(x for x, _ in box) + max(x for x, _ in box)) / 2, (min(y for _, y in box) + max(y for _, y in box)) / 2
        )
        for box in (corners[k : k + size] for k in range(0, len(corners), size))
    }


def plotly_shows(figure: go.Figure) -> Shown:
    """Read off the traces."""
    traces = {trace.meta or trace.name: trace for trace in figure.data}
    scale = figure.layout.coloraxis.colorscale

    def colour(share: float) -> tuple[int, ...]:
        return rgb(plotly.colors.sample_colorscale([list(stop) for stop in scale], share / 100)[0])

    cells = _cells(traces["cores"])
    cores = {at: None if share is None else colour(share) for at, share, _ in cells}
    idle = traces["idle core"]
    assert set(map(place, idle.x, idle.y)) == {at for at, look in cores.items() if look is None}
    written = set[tuple[str, ...]]()
    names = [trace for trace in figure.data if getattr(trace, "texttemplate", None)]
    for row in names[0].text if names else ():
        written |= {tuple(map(html.unescape, cell.split("<br>")[1:])) for cell in row if cell}
    numbers = traces.get("shares")
    written |= {(text,) for text in numbers.text} if numbers else set()
    links = set[tuple[Any, ...]]()
    for style in (IDLE_LINK, *LOADS):
        if style.title in traces:
            drawn = traces[style.title]
            ends = list(map(place, *([v for v in axis if v is not None] for axis in (drawn.x, drawn.y))))
            links |= {(a, b, drawn.line.color) for a, b in zip(ends[::2], ends[1::2], strict=True)}
    star = traces.get("busiest link")
    return Shown(
        cores,
        {plain(text) for _, _, text in cells} | {plain(text) for text in traces["links"].hovertext},
        written,
        list(numbers.textfont.color) if numbers else [],
        links,
        set(map(place, star.x, star.y)) if star else set(),
        _outlined(traces["busiest core"]),
        set(map(place, traces["GMEM"].x, traces["GMEM"].y)),
        [trace.name for trace in figure.data if trace.name],
    )


def middle(element: ET.Element) -> tuple[float, float]:
    if element.tag == f"{SVG}circle":
        return float(element.get("cx", "")), float(element.get("cy", ""))
    if element.tag == f"{SVG}polygon":
        points = [tuple(map(float, point.split(","))) for point in element.get("points", "").split()]
        x, y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
        return x, y
    x, y, width, height = (float(element.get(name, "")) for name in ("x", "y", "width", "height"))
    return x + width / 2, y + height / 2


def _written(picture: ET.Element) -> tuple[set[tuple[str, ...]], list[str]]:
    """Numbers and names, and the colours of the numbers."""
    texts = [text for text in picture.findall(f"{SVG}text") if text.get("fill")]
    numbers = [text for text in texts if text.get("font-size") == "15"]
    written, x = {(text.text or "",) for text in numbers}, ""
    lines = list[list[str]]()
    for one in texts:
        if one in numbers:
            x = ""
        elif one.get("x") == x:
            lines[-1].append(one.text or "")
        else:
            lines.append([one.text or ""])
            x = one.get("x", "")
    return written | {tuple(name) for name in lines}, [text.get("fill", "") for text in numbers]


def svg_shows(text: str, first_core: tuple[float, float]) -> Shown:
    """Read off the elements; places are those of a core at `first_core`."""
    picture = ET.fromstring(text)

    def those(kind: str) -> list[ET.Element]:
        return [element for element in picture if element.get("class") == kind]

    zero = middle(those("core")[0])

    def step(x: float, y: float) -> tuple[float, float]:
        return place((x - zero[0]) / STEP + first_core[0], (y - zero[1]) / STEP + first_core[1])

    links = set[tuple[Any, ...]]()
    for link in those("link"):
        ax, ay, bx, by = map(float, re.findall(r"-?[\d.]+", link.get("d", "")))
        links.add((step(ax, ay), step(bx, by), link.get("stroke")))
    cores = {
        step(*middle(core)): None if core.get("stroke") == NEUTRAL else rgb(core.get("fill", ""))
        for core in those("core")
    }
    stars = {step(*middle(star)) for star in those("star")}
    legend = [
        element
        for element, before in zip(list(picture)[1:], list(picture), strict=False)
        if before.get("class") == "legend"
    ]
    return Shown(
        cores,
        {element.findtext(f"{SVG}title") or "" for kind in ("core", "link") for element in those(kind)},
        *_written(picture),
        links,
        stars,
        {step(*middle(outline)) for outline in those("busiest")},
        {step(*middle(port)) for port in those("port")},
        [element.text or "" for element in legend],
    )
