"""The figures of a report as objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from kilotune.experiments.presentation.section import Section, figures_in

if TYPE_CHECKING:
    import plotly.graph_objects as go

TEMPLATE = "plotly_white"
"""A page of a report has colours of its own; a notebook has not."""

TOP = 40
"""Pixels above: Plotly leaves room for a title, and the figures have none."""


def figures_of(sections: Iterable[Section]) -> Mapping[str, go.Figure]:
    """By the title of their section; where it has several, with a number behind it from the second on. Copies: changing one
    changes no report."""
    import plotly.graph_objects as go

    found: dict[str, go.Figure] = {}
    for section in sections:
        for number, block in enumerate(figures_in(section.blocks), start=1):
            stem = section.title if number == 1 else f"{section.title} ({number})"
            name = next(n for n in (stem, *(f"{stem}, again {k}" for k in range(2, 1000))) if n not in found)
            figure = go.Figure(block.figure).update_layout(template=TEMPLATE)
            if figure.layout.margin.t is None:
                figure.update_layout(margin_t=TOP)
            found[name] = figure
    return MappingProxyType(found)
