"""Names inside figures: Plotly reads a little HTML in its texts, so what is no markup has to be escaped."""

from __future__ import annotations

import html


def plotly_text(name: str) -> str:
    """The name as a Plotly text that shows exactly it. Quotes stay: Plotly knows no entity for them."""
    return html.escape(name, quote=False)
