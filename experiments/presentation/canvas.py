"""What the figures of programs and of memory have in common: an empty figure, steps over time, numbers in sentences."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.experiments.presentation.palette import GREEN, VERMILLION

MOST_POINTS = 2000
"""A trace of more is thinned."""


class Marked(enum.Enum):
    """What figures point at."""

    PAPER = "paper's result"
    BEST = "best trial"


def empty_figure(height: int, **layout: object) -> go.Figure:
    """Without colours of paper, text and grid; the legend above, in as many lines as it takes, so that it also fits a phone."""
    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "margin": {"l": 56, "r": 14, "t": 20, "b": 48},
            "hovermode": "closest",
            "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.03, "yanchor": "bottom"},
            **layout,
        }
    )


def level_line(
    name: str, hover: str, across: tuple[float, float], level: float, dash: str, colour: str, **more: object
) -> go.Scatter:
    """A horizontal line with its name in the legend; names there are short, for phones."""
    return go.Scatter(
        x=list(across),
        y=[level, level],
        mode="lines",
        name=name,
        line={"color": colour, "dash": dash, "width": 2},
        hovertemplate=f"{hover}<extra></extra>",
        **more,
    )


def mark(title: str, which: Marked, x: float, y: float, hover: str) -> go.Scatter:
    """A large mark on one point: the ring of the paper's result stays visible around the star of the best trial."""
    paper = which is Marked.PAPER
    return go.Scatter(
        x=[x],
        y=[y],
        mode="markers",
        name=title,
        marker={
            "symbol": "diamond-open" if paper else "star",
            "size": 19 if paper else 13,
            "color": VERMILLION if paper else GREEN,
            "line": {"width": 3 if paper else 0},
        },
        hovertemplate=f"{hover}<extra></extra>",
    )


def hollow_marks(symbol: str, colour: str, hollow: Sequence[bool], size: int = 8) -> dict[str, object]:
    """Markers of a trace, of which some are hollow."""
    return {
        "symbol": [f"{symbol}-open" if h else symbol for h in hollow],
        "size": size,
        "color": colour,
        "line": {"width": [2 if h else 0 for h in hollow], "color": colour},
    }


def thinned(values: Sequence[float] | FloatArray, most: int = MOST_POINTS) -> IntArray:
    """Indices of at most `most` values, ascending: the first, the last, and the smallest and the largest of equal stretches.
    Values that are not finite count as absent."""
    count = len(values)
    if count <= most:
        return np.arange(count)
    array = np.asarray(values, dtype=np.float64)
    low, high = np.where(np.isfinite(array), array, np.inf), np.where(np.isfinite(array), array, -np.inf)
    kept = {0, count - 1}
    for stretch in np.array_split(np.arange(count), (most - 2) // 2):
        kept |= {int(stretch[low[stretch].argmin()]), int(stretch[high[stretch].argmax()])}
    return np.array(sorted(kept), dtype=np.int64)


def shortened(name: str, most: int = 14) -> str:
    """Under an axis there is no room for long names."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
