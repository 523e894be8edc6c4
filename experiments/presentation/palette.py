"""Colours, marker symbols and dashes of figures: told apart without colour vision, on white paper and on dark."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, VERMILLION, YELLOW, BLACK = "#56B4E9", "#D55E00", "#F0E442", "#000000"

OKABE_ITO = (BLUE, ORANGE, GREEN, PINK, SKY, VERMILLION, YELLOW, BLACK)
"""Okabe and Ito, Color Universal Design, 2008. The last two are for areas only: one vanishes on white, one on dark."""

LINE_COLOURS = OKABE_ITO[:6]
NEUTRAL = "#8A8A8A"
"""Reads on both papers: what is not the point of a figure."""

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star", "hexagon", "pentagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True)
class Style:
    """How a series looks; `symbol` and `dash` by the names that Plotly has for them."""

    colour: str
    symbol: str
    dash: str

    def fill(self, opacity: float = 0.18) -> str:
        """The colour of an area under or between lines of this series."""
        red, green, blue = (int(self.colour[at : at + 2], 16) for at in (1, 3, 5))
        return f"rgba({red},{green},{blue},{opacity:g})"


_STYLES: Mapping[str, Style] = MappingProxyType(
    {
        "exhaustive": Style(BLUE, "circle", "solid"),
        "greedy": Style(ORANGE, "square", "dash"),
        "tpe": Style(GREEN, "diamond", "dot"),
        "cp": Style(PINK, "triangle-up", "dashdot"),
        "local": Style(VERMILLION, "cross", "longdash"),
        "refine": Style(SKY, "star", "solid"),
        "anneal": Style(SKY, "triangle-down", "longdashdot"),
        "count_tpe": Style(GREEN, "hexagon", "longdash"),
        "front": Style(VERMILLION, "pentagon", "solid"),
        "random": Style(NEUTRAL, "x", "dot"),
    }
)


def style(number: int) -> Style:
    """The style of the series of that number, for series that are no strategies."""
    return Style(LINE_COLOURS[number % len(LINE_COLOURS)], SYMBOLS[number % len(SYMBOLS)], DASHES[number % len(DASHES)])


def strategy_style(strategy: str) -> Style:
    """The style of a strategy, equal in every figure of every report."""
    known = _STYLES.get(strategy)
    return style(zlib.crc32(strategy.encode())) if known is None else known
