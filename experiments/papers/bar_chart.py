"""Grouped bars as plain SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from kilotune.experiments.presentation.svg import svg_document

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 960.0, 420.0, 70.0, 60.0, 60.0
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")


def bar_chart_svg(title: str, unit: str, groups: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """The document: one group of bars for each of `groups`, one bar a series; None leaves a gap."""
    most = max((value for values in series.values() for value in values if value is not None), default=0.0) or 1.0
    across, up = (WIDTH - LEFT - 20.0) / max(len(groups), 1), (HEIGHT - BOTTOM - TOP) / most
    bar = 0.8 * across / max(len(series), 1)
    lines = [
        f'<text x="{LEFT:g}" y="20" font-size="15">{escape(title)}</text>',
    ]
    for tick in range(5):
        y = HEIGHT - BOTTOM - most * tick / 4 * up
        lines.append(f'<path d="M{LEFT:g} {y:.1f}H{WIDTH - 20:g}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{most * tick / 4:.3g}</text>')
    lines.append(f'<text x="{LEFT - 6:g}" y="{TOP - 10:g}" text-anchor="end">{escape(unit)}</text>')
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        x = LEFT + 10.0 + number * (WIDTH - LEFT - 20.0) / len(series)
        lines.append(f'<rect x="{x:.1f}" y="32" width="11" height="11" fill="{colour}"/>')
        lines.append(f'<text x="{x + 16:.1f}" y="42">{escape(name)}</text>')
        for place, value in enumerate(values):
            if value is not None:
                left = LEFT + (place + 0.1) * across + number * bar
                lines.append(
                    f'<rect x="{left:.1f}" y="{HEIGHT - BOTTOM - value * up:.1f}" width="{bar * 0.92:.1f}" '
                    f'height="{value * up:.1f}" fill="{colour}">'
                    f"<title>{escape(groups[place])}, {escape(name)}: {value:.4g} {escape(unit)}</title></rect>"
                )
    for place, group in enumerate(groups):
        x = LEFT + (place + 0.5) * across
        lines.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18:g}" text-anchor="middle">{escape(group)}</text>')
    return svg_document(WIDTH, HEIGHT, 12, title, lines)
