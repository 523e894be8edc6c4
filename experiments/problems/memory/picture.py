"""The picture of a placement as plain SVG, written with every placement: no browser is needed, as Plotly's export needs one. What it
shows is what the address map of a report shows (`panels.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from types import MappingProxyType

from kilotune.experiments.presentation.svg import svg_document
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.memory.panels import (
    NamedLayout,
    Panel,
    levels_of,
    panels_of,
    rectangles_of,
    time_span,
    top_of,
)
from kilotune.spaces.memory.banks import Bank
from kilotune.spaces.memory.candidates import MemoryLayout
from kilotune.spaces.memory.instance import Instance

WIDTH, PANEL_HEIGHT, MARGIN = 960.0, 460.0, 40.0
FONT = 11.0
DASHES = MappingProxyType({"solid": "", "dot": "2 3", "longdash": "10 4"})


def placement_svg(instance: Instance, banks: Sequence[Bank], layout: MemoryLayout) -> str:
    """The document: time across, addresses up, a panel a bank, one below the other. Without buffers it is a title only."""
    panels = panels_of(instance, banks, [NamedLayout("placement", layout, best=True)])
    height = 2 * MARGIN + max(1, len(panels)) * (PANEL_HEIGHT + MARGIN)
    peak = ", ".join(f"{panel.bank.name} {counted(panel.peak_bytes, 'byte')}".strip() for panel in panels) or "0 bytes"
    title = f"{instance.name}: {counted(len(instance.buffers), 'buffer')}, peak {peak}"
    lines = (
        line for n, panel in enumerate(panels) for line in _panel(panel, instance, MARGIN + n * (PANEL_HEIGHT + MARGIN))
    )
    return svg_document(WIDTH, height, FONT, title, lines)


def _panel(panel: Panel, instance: Instance, y: float) -> Iterator[str]:
    """From `y` down."""
    first, last = time_span(instance)
    top, bottom, right = top_of([panel]), y + PANEL_HEIGHT, WIDTH - MARGIN
    across, up = (right - MARGIN) / (last - first), PANEL_HEIGHT / top
    title = f"{panel.bank.name}, {panel.extent}" if panel.bank.name else panel.extent
    yield f'<path d="M{MARGIN:g} {y:g}V{bottom:g}H{right:g}" fill="none" stroke="black"/>'
    yield f'<text x="{MARGIN:g}" y="{y - 8:g}">{escape(title)}</text>'
    yield f'<text x="{MARGIN:g}" y="{bottom + FONT + 2:g}">{first}</text>'
    yield f'<text x="{right:g}" y="{bottom + FONT + 2:g}" text-anchor="end">{last}</text>'
    for r in rectangles_of(panel, instance, top):
        x, width, height = MARGIN + (r.lower - first) * across, (r.upper - r.lower) * across, r.size * up
        yield (
            f'<rect x="{x:.2f}" y="{bottom - r.base * up - height:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{r.colour}" fill-opacity="0.85" stroke="#202020" stroke-width="{r.edge:g}">'
            f"<title>{escape(r.id)}: {escape(', '.join(r.said))}</title></rect>"
        )
        if r.labelled:
            middle = bottom - (r.base + r.size / 2) * up + FONT / 3
            yield (
                f'<text x="{x + width / 2:.2f}" y="{middle:.2f}" text-anchor="middle" pointer-events="none">{escape(r.id)}</text>'
            )
    for name, level, dash, colour in levels_of(panel, top):
        at = bottom - level * up
        yield (
            f'<path d="M{MARGIN:g} {at:.2f}H{right:g}" stroke="{colour}" stroke-dasharray="{DASHES[dash]}">'
            f"<title>{escape(name)}: {counted(level, 'byte')}</title></path>"
        )
