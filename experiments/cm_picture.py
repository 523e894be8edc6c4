"""A mapped network as pictures: cores with the links between them, and what every stage does at which tick. Plain SVG."""

from __future__ import annotations

import colorsys
import math
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import Mapping
from kilotune.codegen.cm.streams import stream_name
from kilotune.evaluators.cm.bound import LoadArray, link_loads
from kilotune.evaluators.cm.timing import TickArray
from kilotune.spaces.cm.lowered import Lowered

CORE, GAP, MARGIN, FONT = 64.0, 52.0, 44.0, 9.0
GANTT_WIDTH, ROW, LABELS = 1100.0, 11.0, 150.0
WIDEST_LINE = 7.0

Point = tuple[float, float]


def mapping_svg(lowered: Lowered, hardware: Hardware, mapping: Mapping, ticks_per_image: float) -> str:
    """Cores with their stages, links as wide and as red as they are busy. `ticks_per_image`: what counts as wholly busy."""
    places = _places(hardware)
    width, height = (max(axis) + CORE + MARGIN for axis in zip(*places, strict=True))
    loads = link_loads(lowered.streams, mapping.routes, hardware.links)
    stage_on = {core: number for number, core in enumerate(mapping.cores)}
    title = (
        f"{lowered.pipeline.name} on {hardware.name}: {len(mapping.cores)} of {hardware.cores} cores, "
        f"{ticks_per_image:g} ticks per image"
    )
    lines = _head(width, height + 24, title)
    lines.append(f'<text x="{MARGIN:g}" y="{MARGIN - 22:g}" font-size="12">{escape(title)}</text>')
    lines += _links(lowered, hardware, mapping, loads, places, ticks_per_image)
    for core in range(hardware.cores):
        x, y = places[core]
        stage = stage_on.get(core)
        fill = "white" if stage is None else _colour(lowered.pipeline.stages[stage].layer)
        about = f"core {core}: idle"
        if stage is not None:
            what = lowered.pipeline.stages[stage]
            about = (
                f"core {core}: {what.name}, {what.iterations} iterations of {lowered.ticks[stage]} ticks, "
                f"matrix {what.crossbar_rows} x {what.crossbar_columns}"
            )
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{CORE:g}" height="{CORE:g}" rx="6" fill="{fill}" stroke="black">'
            f"<title>{escape(about)}</title></rect>"
        )
        label = [str(core)] if stage is None else [str(core), *_broken(lowered.pipeline.stages[stage].name)]
        for row, text in enumerate(label):
            lines.append(
                f'<text x="{x + CORE / 2:g}" y="{y + 14 + 12 * row:g}" text-anchor="middle" pointer-events="none">'
                f"{escape(text)}</text>"
            )
    legend = "a link is drawn on the right of its direction; black: idle or nearly, red: busy all the time"
    lines.append(f'<text x="{MARGIN:g}" y="{height + 8:g}">{legend}</text>')
    return "\n".join([*lines, "</svg>\n"])


def gantt_svg(lowered: Lowered, starts: Sequence[TickArray], images: int, title: str) -> str:
    """Ticks across, a row a stage; a bar wherever iterations follow one another closer than the picture can show, one
    colour an image. Where a bar is pale the stage waits between its iterations."""
    stages = lowered.pipeline.stages
    last = max((int(s[-1]) + t for s, t in zip(starts, lowered.ticks, strict=True)), default=1)
    scale = GANTT_WIDTH / max(last, 1)
    height = MARGIN + ROW * len(stages) + 30
    lines = _head(LABELS + GANTT_WIDTH + MARGIN, height, title)
    lines.append(f'<text x="{LABELS:g}" y="16" font-size="12">{escape(title)}</text>')
    for k in range(11):
        x, tick = LABELS + GANTT_WIDTH * k / 10, last * k // 10
        lines.append(f'<path d="M{x:.1f} {MARGIN - 8:g}V{height - 26:g}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.1f}" y="{MARGIN - 12:g}" text-anchor="middle">{tick}</text>')
    for row, (stage, ticks, begun) in enumerate(zip(stages, lowered.ticks, starts, strict=True)):
        y = MARGIN + ROW * row
        lines.append(f'<text x="{LABELS - 4:g}" y="{y + 8:g}" text-anchor="end">{escape(stage.name)}</text>')
        for image in range(images):
            own = begun[image * stage.iterations : (image + 1) * stage.iterations]
            for first, end, busy in _bars(own, ticks, max(2.0 / scale, 2.0 * ticks)):
                about = f"{stage.name}, image {image}: ticks {first} to {end}, busy {100 * busy:.0f} %"
                opacity = 0.25 + 0.75 * busy
                lines.append(
                    f'<rect x="{LABELS + first * scale:.2f}" y="{y:g}" width="{max((end - first) * scale, 0.3):.2f}" '
                    f'height="{ROW - 2:g}" fill="{_hex(image * 137 % 360, 0.45, 0.7)}" fill-opacity="{opacity:.2f}">'
                    f"<title>{escape(about)}</title></rect>"
                )
    lines.append(
        f'<text x="{LABELS:g}" y="{height - 10:g}">ticks; one colour an image; pale: it waits in between</text>'
    )
    return "\n".join([*lines, "</svg>\n"])


def _bars(begun: TickArray, ticks: int, gap: float) -> list[tuple[int, int, float]]:
    """First tick, end, share of it that is busy, of each run of iterations that are at most `gap` ticks apart."""
    if not len(begun):
        return []
    cuts = np.flatnonzero(np.diff(begun) > gap) + 1
    runs = np.split(begun, cuts)
    return [(int(r[0]), int(r[-1]) + ticks, len(r) * ticks / (int(r[-1]) + ticks - int(r[0]))) for r in runs]


def _links(
    lowered: Lowered,
    hardware: Hardware,
    mapping: Mapping,
    loads: LoadArray,
    places: Sequence[Point],
    ticks_per_image: float,
) -> list[str]:
    carried: list[list[str]] = [[] for _ in hardware.links]
    for stream, route in zip(lowered.streams, mapping.routes, strict=True):
        for number in route:
            carried[number].append(f"{stream_name(lowered.pipeline, stream)}: {stream.image_elements}")
    lines = []
    for number in np.argsort(loads, kind="stable").tolist():
        link = hardware.links[number]
        busy = float(loads[number]) / link.elements_per_tick / ticks_per_image
        (ax, ay), (bx, by) = (
            _middle(hardware, places, node, link.source + link.target) for node in (link.source, link.target)
        )
        length = math.hypot(bx - ax, by - ay) or 1.0
        dx, dy = (bx - ax) / length, (by - ay) / length
        off = 7.0
        ax, ay, bx, by = ax - dy * off, ay + dx * off, bx - dy * off, by + dx * off
        names = ["GMEM" if node == hardware.gmem else f"core {node}" for node in (link.source, link.target)]
        about = (
            f"{names[0]} to {names[1]}: {loads[number]} elements per image, {100 * busy:.0f} % of "
            f"{link.elements_per_tick} a tick\n" + "\n".join(carried[number])
        )
        colour = f"#{int(230 * min(busy, 1.0)):02x}1414" if loads[number] else "#ccc"
        lines.append(
            f'<path d="M{ax:.1f} {ay:.1f}L{bx:.1f} {by:.1f}" stroke="{colour}" '
            f'stroke-width="{0.6 + WIDEST_LINE * min(busy, 1.2):.2f}" stroke-opacity="0.8"><title>{escape(about)}</title></path>'
        )
    return lines


def _places(hardware: Hardware) -> list[Point]:
    """The upper left corner of every core."""
    if hardware.grid_columns:
        step = CORE + GAP
        return [
            (MARGIN + (core % hardware.grid_columns) * step, MARGIN + (core // hardware.grid_columns) * step)
            for core in range(hardware.cores)
        ]
    radius = max(120.0, hardware.cores * (CORE + 10) / (2 * math.pi))
    angles = [2 * math.pi * core / hardware.cores for core in range(hardware.cores)]
    return [(MARGIN + radius * (1 + math.cos(a)), MARGIN + radius * (1 + math.sin(a))) for a in angles]


def _middle(hardware: Hardware, places: Sequence[Point], node: int, both: int) -> Point:
    """Of a core; GMEM is drawn as a stub beside the core at the other end."""
    if node != hardware.gmem:
        return places[node][0] + CORE / 2, places[node][1] + CORE / 2
    core = both - hardware.gmem
    x, y = places[core]
    return x + CORE / 2 + (-0.95 * CORE if 2 * x < max(p[0] for p in places) else 0.95 * CORE), y + CORE / 2


def _broken(name: str) -> list[str]:
    """A name in pieces that fit into a core."""
    room = int(CORE / (0.58 * FONT))
    return [name[k : k + room] for k in range(0, min(len(name), 3 * room), room)]


def _colour(layer: str) -> str:
    return _hex(zlib.crc32(layer.encode()) % 360, 0.82, 0.6)


def _hex(hue: float, lightness: float, saturation: float) -> str:
    """Not every program that shows SVG knows hsl()."""
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue / 360, lightness, saturation))


def _head(width: float, height: float, title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        f'font-size="{FONT:g}">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
