"""What the figures of programs and of memory have in common: an empty figure, steps over time, numbers in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

MOST_POINTS = 2000
"""A trace of more is thinned."""

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def empty_figure(height: int, **layout: object) -> go.Figure:
    """Without colours of paper, text and grid; the legend above, in as many lines as it takes, so that it also fits a phone."""
    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "margin": {"l": 56, "r": 14, "t": 20, "b": 48},
            "hovermode": "closest",
            "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
            **layout,
        }
    )


def level_line(
    name: str, across: tuple[float, float], level: float, dash: str, colour: str, width: float = 2
) -> go.Scatter:
    """A horizontal line with its name in the legend."""
    return go.Scatter(
        x=list(across),
        y=[level, level],
        mode="lines",
        name=name,
        line={"color": colour, "dash": dash, "width": width},
        hovertemplate=f"{name}<extra></extra>",
    )


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


def number(value: float) -> str:
    """As it stands in a sentence: four digits where there are decimals."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 10_000 else f"{value:.4g}"


def counted(count: int, noun: str) -> str:
    """`1 trial`, `3 trials`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
