"""A placement as a picture: time across, address up, one rectangle a residence; banks one above the other. Plain SVG."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from html import escape

from kilotune.spaces.memory.checker import Residence
from kilotune.spaces.memory.instance import Instance

WIDTH, HEIGHT, MARGIN = 960.0, 540.0, 40.0
LABEL_HEIGHT, LABEL_CHARACTER = 11.0, 7.0
"""A rectangle that is large enough for its label carries it; all have a title."""


def placement_svg(instance: Instance, residences: Sequence[Residence]) -> str:
    """The document. A picture without buffers shows the axes only."""
    size = {b.id: b.size for b in instance.buffers}
    base = _bases(size, residences)
    first = min((r.lower for r in residences), default=0)
    span = max((r.upper for r in residences), default=1) - first or 1
    peak = max((base[r.bank] + r.offset + size[r.id] for r in residences), default=0)
    across, up = (WIDTH - 2 * MARGIN) / span, (HEIGHT - 2 * MARGIN) / max(peak, 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" font-family="sans-serif" '
        f'font-size="{LABEL_HEIGHT:g}">',
        f"<title>{escape(instance.name)}: {len(instance.buffers)} buffers, peak {peak} bytes</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{MARGIN:g} {MARGIN:g}V{HEIGHT - MARGIN:g}H{WIDTH - MARGIN:g}" fill="none" stroke="black"/>',
        f'<text x="{MARGIN:g}" y="{MARGIN - 8:g}">{peak} bytes</text>',
        f'<text x="{MARGIN:g}" y="{HEIGHT - MARGIN / 2:g}">{first}</text>',
        f'<text x="{WIDTH - MARGIN:g}" y="{HEIGHT - MARGIN / 2:g}" text-anchor="end">{first + span}</text>',
    ]
    for bank, bottom in base.items():
        if bank:
            y = HEIGHT - MARGIN - bottom * up
            lines.append(
                f'<path d="M0 {y:.2f}H{WIDTH - MARGIN:g}" stroke="black"/><text x="2" y="{y - 3:.2f}">{escape(bank)}</text>'
            )
    for r in residences:
        x, width = MARGIN + (r.lower - first) * across, (r.upper - r.lower) * across
        height = size[r.id] * up
        y = HEIGHT - MARGIN - (base[r.bank] + r.offset) * up - height
        hue = zlib.crc32(r.id.encode()) % 360
        title = f"{r.id}: {size[r.id]} bytes at {r.offset}, live in [{r.lower}, {r.upper})"
        lines.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="hsl({hue} 60% 75%)" '
            f'stroke="black" stroke-width="0.5"><title>{escape(title)}</title></rect>'
        )
        if height >= LABEL_HEIGHT and width >= LABEL_CHARACTER * len(r.id):
            lines.append(
                f'<text x="{x + 3:.2f}" y="{y + LABEL_HEIGHT:.2f}" pointer-events="none">{escape(r.id)}</text>'
            )
    return "\n".join([*lines, "</svg>\n"])


def _bases(size: Mapping[str, int], residences: Sequence[Residence]) -> dict[str, int]:
    """Where each bank begins when they are drawn one above the other, in bytes."""
    peaks: dict[str, int] = {}
    for r in residences:
        peaks[r.bank] = max(peaks.get(r.bank, 0), r.offset + size[r.id])
    bases, bottom = dict[str, int](), 0
    for bank, peak in peaks.items():
        bases[bank] = bottom
        bottom += peak
    return bases
