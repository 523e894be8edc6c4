"""Lines and bands over a linear or logarithmic axis, as plain SVG."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kilotune.experiments.presentation.svg import svg_document

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 960.0, 460.0, 60.0, 60.0, 90.0, 20.0
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")


@dataclass(frozen=True)
class ChartLine:
    """Points in ascending x. `low` and `high` shade a band around them; `dashed` and `steps` are how it is drawn."""

    name: str
    points: Sequence[tuple[float, float]]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    steps: bool = False


def line_chart_svg(title: str, across: str, up: str, lines: Sequence[ChartLine], logarithmic: bool = False) -> str:
    """The document. `across` and `up` name the axes; x must be positive on a logarithmic one."""
    xs = [x for line in lines for x, _ in line.points]
    most = max([y for line in lines for _, y in line.points] + [v for line in lines for v in line.high or ()]) * 1.05
    scale = math.log10 if logarithmic else float
    first, last = scale(min(xs)), scale(max(xs))

    def place(x: float, y: float) -> str:
        share = (scale(x) - first) / (last - first or 1.0)
        right = LEFT + share * (WIDTH - LEFT - RIGHT)
        return f"{right:.1f},{HEIGHT - BOTTOM - max(y, 0.0) / most * (HEIGHT - BOTTOM - TOP):.1f}"

    parts = [
        f'<text x="{LEFT:g}" y="20" font-size="15">{escape(title)}</text>',
        f'<text x="{WIDTH - RIGHT:g}" y="{HEIGHT - 12:g}" text-anchor="end">{escape(across)}</text>',
        f'<text x="{LEFT - 40:g}" y="{TOP - 12:g}">{escape(up)}</text>',
    ]
    for tick in range(5):
        y = HEIGHT - BOTTOM - tick / 4 * (HEIGHT - BOTTOM - TOP)
        parts.append(f'<path d="M{LEFT:g} {y:.1f}H{WIDTH - RIGHT:g}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{most * tick / 4:.3g}</text>')
    for mark in _marks(min(xs), max(xs), logarithmic):
        at, height = place(mark, 0.0).split(",")
        parts.append(f'<text x="{at}" y="{float(height) + 18:g}" text-anchor="middle">{mark:g}</text>')
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = _stepped(line.points) if line.steps else list(line.points)
        if line.low is not None and line.high is not None:
            edge = [(x, high) for (x, _), high in zip(line.points, line.high, strict=True)]
            edge += [(x, low) for (x, _), low in reversed(list(zip(line.points, line.low, strict=True)))]
            parts.append(f'<polygon points="{" ".join(place(*p) for p in edge)}" fill="{colour}" opacity="0.2"/>')
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        path = " ".join(place(*p) for p in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        x, y = LEFT + 10.0 + number % 3 * 300.0, 42.0 + number // 3 * 18.0
        parts.append(f'<path d="M{x:g} {y:g}h22" stroke="{colour}" stroke-width="3"{dash}/>')
        parts.append(f'<text x="{x + 28:g}" y="{y + 4:g}">{escape(line.name)}</text>')
    return svg_document(WIDTH, HEIGHT, 12, title, parts)


def _stepped(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    corners = list(points[:1])
    for (_, before), (x, y) in itertools.pairwise(points):
        corners += [(x, before), (x, y)]
    return corners


def _marks(first: float, last: float, logarithmic: bool) -> list[float]:
    if not logarithmic:
        return [first + (last - first) * k / 5 for k in range(6)] if last - first > 12 else _whole(first, last)
    return [10.0**k for k in range(math.ceil(math.log10(first)), math.floor(math.log10(last)) + 1)]


def _whole(first: float, last: float) -> list[float]:
    return [float(k) for k in range(math.ceil(first), math.floor(last) + 1)]
