"""Pictures that are written without a browser, as Plotly's own export needs one: the frame of a plain SVG document."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def svg_document(width: float, height: float, font: float, title: str, body: Iterable[str]) -> str:
    """On white paper. `title`: what it shows, for a reader who does not see it. `body`: its elements, as text."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
            f'font-size="{font:g}">',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            *body,
            "</svg>\n",
        ]
    )


def svg_title(*lines: str) -> str:
    """What is shown of an element when it is pointed at."""
    return f"<title>{escape(chr(10).join(lines))}</title>"


def svg_text(x: float, y: float, text: str, **more: str | float) -> str:
    """Text that nothing is pointed at with. Names of attributes have underscores for hyphens."""
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:.2f}" y="{y:.2f}"{attributes} pointer-events="none">{escape(text)}</text>'
