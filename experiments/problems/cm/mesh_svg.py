"""A mapped network on its accelerator as plain SVG (mapping.svg). What it shows is what the mesh of a report shows (`mesh.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

from kilotune.experiments.presentation.palette import BLACK, GREEN, NEUTRAL, ORANGE, VERMILLION
from kilotune.experiments.presentation.svg import svg_document, svg_text, svg_title
from kilotune.experiments.problems.cm.mesh import (
    BUSY_COLOURS,
    HALF,
    IDLE_LINK,
    STUB,
    CoreMark,
    LinkArrow,
    LinkStyle,
    Mesh,
    busy_colour,
)
from kilotune.experiments.problems.cm.utilisation import GridPosition

STEP = 100.0
"""A step of the grid."""

LINE = 1.5
"""Widths of lines are given in pixels of a figure whose steps are smaller."""

CIRCLE, IDLE, PORT, STAR = 0.16, 0.1, 0.09, 0.1
"""In steps: the radius of a core that lies in no grid; half the size of an idle core, of GMEM and of a star."""

IDLE_LOOK = f'fill="white" stroke="{NEUTRAL}" stroke-width="{LINE:g}"'
LEAST_WIDTH, MARGIN, HEAD, FONT = 900.0, 20.0, 78.0, 12.0
ENTRY_WIDTH, ENTRY_HEIGHT = 170.0, 20.0


def mapping_svg(mesh: Mesh, title: str) -> str:
    """The document: a title, how busy cores are in colours, the mesh, and the legend."""
    across = STEP * (mesh.width + 2 * (STUB + 0.3))
    width = max(LEAST_WIDTH, across)
    left, top = (width - across) / 2 + STEP * (STUB + 0.3), HEAD + STEP * 0.6
    bottom = top + STEP * (mesh.height + 0.6)

    def at(place: GridPosition) -> GridPosition:
        return left + STEP * place[0], top + STEP * place[1]

    entries = list(_entries(mesh))
    columns = int((width - 2 * MARGIN) // ENTRY_WIDTH)
    legend = [
        line
        for number, (name, sample) in enumerate(entries)
        for line in _entry(name, sample, number % columns, bottom + ENTRY_HEIGHT * (number // columns + 1))
    ]
    height = bottom + ENTRY_HEIGHT * (-(-len(entries) // columns) + 1)
    body = [*_head(mesh, title), *_mesh(mesh, at), *legend]
    return svg_document(width, height, FONT, title, body)


def _head(mesh: Mesh, title: str) -> Iterator[str]:
    """Definitions, the title, and the colours of cores."""
    yield '<defs><linearGradient id="busy">'
    for share, colour in BUSY_COLOURS:
        yield f'<stop offset="{share:g}" stop-color="{colour}"/>'
    yield "</linearGradient>"
    for number, (style, _) in enumerate(mesh.arrows):
        size = LINE * (5 + style.width)
        yield (
            f'<marker id="head{number}" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="{size:g}" markerHeight="{size:g}" '
            f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 1L10 5L0 9z" fill="{style.colour}"/></marker>'
        )
    yield "</defs>"
    yield svg_text(MARGIN, 22, title, font_size=15)
    yield f'<rect x="{MARGIN:g}" y="46" width="300" height="10" fill="url(#busy)"/>'
    yield svg_text(MARGIN, 41, "core busy, %")
    for share, _ in BUSY_COLOURS:
        yield svg_text(MARGIN + 300 * share, 69, f"{100 * share:g}", text_anchor="middle")


def _mesh(mesh: Mesh, at: Callable[[GridPosition], GridPosition]) -> Iterator[str]:
    for mark in mesh.cores:
        yield _core(mesh, mark, at(mark.place))
    for number, (style, arrows) in enumerate(mesh.arrows):
        for arrow in arrows:
            yield _arrow(style, arrow, number, at)
    for arrow in mesh.links:
        if arrow.busiest:
            yield _star(*at(arrow.middle))
    for mark, _ in mesh.stages:
        if mark.busiest:
            yield _outline(mesh, *at(mark.place))
        yield from _label(mark, at)
    for port in mesh.ports:
        yield _port(*at(port))


def _core(mesh: Mesh, mark: CoreMark, place: GridPosition) -> str:
    x, y = place
    look = IDLE_LOOK if mark.use is None else f'fill="{busy_colour(mark.use.share)}"'
    about = f'class="core" {look}>{svg_title(*mark.said)}'
    if mesh.columns is None:
        radius = STEP * (IDLE if mark.use is None else CIRCLE)
        return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}" {about}</circle>'
    half = STEP * (IDLE if mark.use is None else HALF)
    return f'<rect x="{x - half:.2f}" y="{y - half:.2f}" width="{2 * half:g}" height="{2 * half:g}" {about}</rect>'


def _label(mark: CoreMark, at: Callable[[GridPosition], GridPosition]) -> Iterator[str]:
    if mark.number:
        x, y = at(mark.number_place)
        yield svg_text(x, y + 5, mark.number, text_anchor="middle", font_size=15, fill=mark.ink)
    x, y = at(mark.place)
    for number, line in enumerate(mark.name):
        yield svg_text(x, y + 8 + 15 * number, line, text_anchor="middle", font_size=13, fill=mark.ink)


def _arrow(style: LinkStyle, arrow: LinkArrow, number: int, at: Callable[[GridPosition], GridPosition]) -> str:
    (ax, ay), (bx, by) = at(arrow.start), at(arrow.end)
    end = ' stroke-dasharray="3 4"' if style is IDLE_LINK else f' marker-end="url(#head{number})"'
    return (
        f'<path class="link" d="M{ax:.2f} {ay:.2f}L{bx:.2f} {by:.2f}" stroke="{style.colour}" '
        f'stroke-width="{LINE * style.width:g}"{end}>{svg_title(*arrow.said)}</path>'
    )


def _outline(mesh: Mesh, x: float, y: float) -> str:
    look = f'class="busiest" fill="none" stroke="{VERMILLION}" stroke-width="{LINE * 3:g}"'
    if mesh.columns is None:
        return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{STEP * CIRCLE:g}" {look}/>'
    half = STEP * HALF
    return f'<rect x="{x - half:.2f}" y="{y - half:.2f}" width="{2 * half:g}" height="{2 * half:g}" {look}/>'


def _star(x: float, y: float) -> str:
    """Five points, one of them above."""
    turns = [(math.pi * (k / 5 - 0.5), STEP * STAR * (0.42 if k % 2 else 1.0)) for k in range(10)]
    points = " ".join(f"{x + r * math.cos(a):.2f},{y + r * math.sin(a):.2f}" for a, r in turns)
    return f'<polygon class="star" points="{points}" fill="{ORANGE}" stroke="{BLACK}" pointer-events="none"/>'


def _port(x: float, y: float) -> str:
    half = STEP * PORT
    return (
        f'<rect class="port" x="{x - half:.2f}" y="{y - half:.2f}" width="{2 * half:g}" height="{2 * half:g}" fill="{GREEN}">'
        f"{svg_title('global memory')}</rect>"
    )


def _entries(mesh: Mesh) -> Iterator[tuple[str, str]]:
    """What the legend explains, each with a sample around the origin."""
    shape = '<circle r="7"' if mesh.columns is None else '<rect x="-7" y="-7" width="14" height="14"'
    if mesh.idle:
        yield "idle core", f"{shape} {IDLE_LOOK}/>"
    for style, _ in mesh.arrows:
        dash = ' stroke-dasharray="3 4"' if style is IDLE_LINK else ""
        yield style.title, f'<path d="M-15 0H15" stroke="{style.colour}" stroke-width="{LINE * style.width:g}"{dash}/>'
    if any(arrow.busiest for arrow in mesh.links):
        yield "busiest link", _star(0, 0)
    yield "busiest core", f'{shape} fill="none" stroke="{VERMILLION}" stroke-width="3"/>'
    yield "GMEM", f'<rect x="-6" y="-6" width="12" height="12" fill="{GREEN}"/>'


def _entry(name: str, sample: str, column: int, y: float) -> Iterator[str]:
    x = MARGIN + ENTRY_WIDTH * column
    yield f'<g class="legend" transform="translate({x + 16:g} {y - 4:g})">{sample}</g>'
    yield f'<text x="{x + 40:g}" y="{y:g}">{escape(name)}</text>'
