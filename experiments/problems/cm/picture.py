"""A mapped network as pictures: cores with the links between them, and what every stage does at which tick. Plain SVG."""

from __future__ import annotations

import colorsys
import math
import zlib
from collections.abc import Sequence
from html import escape

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import Mapping
from kilotune.evaluators.cm.stream import TickArray
from kilotune.experiments.problems.cm.utilisation import LinkUse, Point, bars_of, core_places, node_place, usage_of
from kilotune.spaces.cm.lowered import LoweredPipeline

CORE, GAP, MARGIN, FONT = 64.0, 52.0, 44.0, 9.0
GANTT_WIDTH, ROW, LABELS = 1100.0, 11.0, 150.0
WIDEST_LINE = 7.0
STEP = CORE + GAP
STUB = 0.95 * CORE / STEP


def mapping_svg(lowered: LoweredPipeline, hardware: Hardware, mapping: Mapping, ticks_per_image: float) -> str:
    """Cores with their stages, links as wide and as red as they are busy. `ticks_per_image`: what counts as wholly busy."""
    places = core_places(hardware)
    width, height = (STEP * max(axis) + CORE + 2 * MARGIN for axis in zip(*places, strict=True))
    usage = usage_of(lowered, hardware, mapping, ticks_per_image)
    stage_on = {core: number for number, core in enumerate(mapping.cores)}
    title = (
        f"{lowered.pipeline.name} on {hardware.name}: {len(mapping.cores)} of {hardware.cores} cores, "
        f"{ticks_per_image:g} ticks per image"
    )
    lines = _head(width, height + 24, title)
    lines.append(f'<text x="{MARGIN:g}" y="{MARGIN - 22:g}" font-size="12">{escape(title)}</text>')
    lines += _links(hardware, usage.links, places)
    for core in range(hardware.cores):
        x, y = (MARGIN + STEP * place for place in places[core])
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


def gantt_svg(lowered: LoweredPipeline, starts: Sequence[TickArray], images: int, title: str) -> str:
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
            for bar in bars_of(own, ticks, max(2.0 / scale, 2.0 * ticks)):
                about = f"{stage.name}, image {image}: ticks {bar.first} to {bar.end}, busy {100 * bar.busy:.0f} %"
                opacity = 0.25 + 0.75 * bar.busy
                lines.append(
                    f'<rect x="{LABELS + bar.first * scale:.2f}" y="{y:g}" width="{max((bar.end - bar.first) * scale, 0.3):.2f}" '
                    f'height="{ROW - 2:g}" fill="{_hex(image * 137 % 360, 0.45, 0.7)}" fill-opacity="{opacity:.2f}">'
                    f"<title>{escape(about)}</title></rect>"
                )
    lines.append(
        f'<text x="{LABELS:g}" y="{height - 10:g}">ticks; one colour an image; pale: it waits in between</text>'
    )
    return "\n".join([*lines, "</svg>\n"])


def _links(hardware: Hardware, links: Sequence[LinkUse], places: Sequence[Point]) -> list[str]:
    lines = []
    for use in sorted(links, key=lambda one: one.elements):
        (ax, ay), (bx, by) = (
            (MARGIN + STEP * x + CORE / 2, MARGIN + STEP * y + CORE / 2)
            for x, y in (
                node_place(hardware, places, use.source, use.target, STUB),
                node_place(hardware, places, use.target, use.source, STUB),
            )
        )
        length = math.hypot(bx - ax, by - ay) or 1.0
        dx, dy = (bx - ax) / length, (by - ay) / length
        off = 7.0
        ax, ay, bx, by = ax - dy * off, ay + dx * off, bx - dy * off, by + dx * off
        names = ["GMEM" if node == hardware.gmem else f"core {node}" for node in (use.source, use.target)]
        width = hardware.links[use.number].elements_per_tick
        about = (
            f"{names[0]} to {names[1]}: {use.elements} elements per image, {100 * use.share:.0f} % of {width} a tick\n"
            + "\n".join(f"{name}: {elements}" for name, elements in use.carried)
        )
        colour = f"#{int(230 * min(use.share, 1.0)):02x}1414" if use.elements else "#ccc"
        lines.append(
            f'<path d="M{ax:.1f} {ay:.1f}L{bx:.1f} {by:.1f}" stroke="{colour}" '
            f'stroke-width="{0.6 + WIDEST_LINE * min(use.share, 1.2):.2f}" stroke-opacity="0.8"><title>{escape(about)}</title></path>'
        )
    return lines


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
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        f'font-size="{FONT:g}">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
