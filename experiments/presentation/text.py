"""Names inside figures, and cells of tables as they are shown."""

from __future__ import annotations

import html
import math

from kilotune.experiments.presentation.section import Cell
from kilotune.experiments.presentation.wording import number


def plotly_text(name: str) -> str:
    """The name as a Plotly text that shows exactly it, also within a hover template: Plotly reads a little HTML, and fills in
    what stands in `%{}`. Quotes stay, it knows no entity for them."""
    return html.escape(name, quote=False).replace("%{", "%&#123;")


def cell_text(cell: Cell) -> str:
    """A cell as it is shown: four digits, whole numbers whole."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if not math.isfinite(cell):
        return "" if math.isnan(cell) else "∞" if cell > 0 else "-∞"
    return number(cell)
