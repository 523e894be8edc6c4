"""Names: of metrics in words, of anything inside figures."""

from __future__ import annotations

import html

from kilotune.experiments.summary import SHOWN


def plotly_text(name: str) -> str:
    """The name as a Plotly text that shows exactly it, also within a hover template: Plotly reads a little HTML, and fills in
    what stands in `%{}`. Quotes stay, it knows no entity for them."""
    return html.escape(name, quote=False).replace("%{", "%&#123;")


def metric_label(metric: str) -> str:
    """A metric in words, with its unit."""
    return dict(SHOWN).get(metric, metric.replace("_", " "))
