"""A report's figures and tables as files for a paper: PDF, SVG and PNG, and LaTeX."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import plotly.io as pio

from kilotune.experiments.presentation.section import Section, Table, figures_in
from kilotune.experiments.report.latex import latex_table
from kilotune.experiments.report.page import FIGURE_HEIGHT

if TYPE_CHECKING:
    import plotly.graph_objects as go

WIDTH = 700
"""Pixels across, at 96 to the inch: as wide as a page with both of its columns."""

PNG_SCALE = 3.0
MOST_LETTERS = 80

NO_BROWSER = (
    "figures are drawn by Chrome or Chromium, and there is none: install one (Debian: apt-get install chromium, or "
    "`plotly_get_chrome`), or set BROWSER_PATH to it; --tables needs none"
)
NO_KALEIDO = "figures as files take Kaleido: pip install 'kilotune[figures]'"


@dataclass(frozen=True, eq=False)
class NamedFigure:
    """`stem`: of its files' names, from its title."""

    stem: str
    title: str
    figure: go.Figure


def named_figures(sections: Sequence[Section]) -> list[NamedFigure]:
    """All figures under names that depend on titles alone, so that the same figure of the next report has the same name."""
    stems = _Stems()
    return [
        NamedFigure(stems.next(figure.title or section.title), figure.title or section.title, figure.figure)
        for section in sections
        for figure in figures_in(section.blocks)
    ]


def table_files(sections: Sequence[Section]) -> dict[str, str]:
    """LaTeX by file name, from the titles of sections."""
    stems, files = _Stems(), dict[str, str]()
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Table):
                stem = stems.next(section.title)
                files[f"{stem}.tex"] = latex_table(block, stem)
    return files


def drawn_files(
    figures: Sequence[NamedFigure], formats: Sequence[str], drawn: Callable[[], object] = lambda: None
) -> dict[str, bytes]:
    """Content by file name, drawn by Plotly itself in a headless browser; nothing is asked of the network. `drawn` is called
    after each. ValueError, a sentence, without Kaleido or a browser."""
    try:
        import kaleido
        from choreographer.errors import BrowserFailedError, ChromeNotFoundError
    except ModuleNotFoundError as error:
        raise ValueError(NO_KALEIDO) from error

    async def draw() -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        # no MathJax: it would come over the network, and no text of ours is mathematics
        async with kaleido.Kaleido(n=1, mathjax=False) as browser:
            for name, figure, options in _drawings(figures, formats):
                files[name] = await browser.calc_fig(figure, opts=options)
                drawn()
        return files

    try:
        with ThreadPoolExecutor(
            1
        ) as own_thread:  # a notebook's thread has a running loop already, beside which none can run
            return own_thread.submit(lambda: asyncio.run(draw())).result()
    except ChromeNotFoundError as error:
        raise ValueError(NO_BROWSER) from error
    except BrowserFailedError as error:
        raise ValueError(f"the browser that draws figures did not start: {error}") from error


def _drawings(
    figures: Sequence[NamedFigure], formats: Sequence[str]
) -> Iterator[tuple[str, go.Figure, Mapping[str, object]]]:
    """File name, the figure on white paper, and Kaleido's options."""
    for named in figures:
        figure = go.Figure(named.figure).update_layout(template=_template())
        height = int(figure.layout.height or FIGURE_HEIGHT)
        for format_ in formats:
            scale = PNG_SCALE if format_ == "png" else 1.0
            yield (
                f"{named.stem}.{format_}",
                figure,
                {"format": format_, "width": WIDTH, "height": height, "scale": scale},
            )


def _template() -> go.layout.Template:
    """As on the page: the legend below, room for what stands beside axes, black on white."""
    template = go.layout.Template(pio.templates["plotly_white"])
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "y": 0, "yanchor": "bottom"}
    axis = {"automargin": True, "linecolor": "#1c2127", "gridcolor": "#dfe3e8", "zerolinecolor": "#dfe3e8"}
    template.layout.update(
        font={"color": "#1c2127", "size": 13},
        legend=legend,
        margin={"l": 64, "r": 24, "t": 20, "b": 52},
        xaxis=axis,
        yaxis=axis,
        coloraxis={"colorbar": {"outlinewidth": 0}},
    )
    return template


class _Stems:
    """Names of files from titles, each once."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def next(self, title: str) -> str:
        plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
        stem = re.sub(r"[^a-z0-9]+", "-", plain)[:MOST_LETTERS].strip("-") or "unnamed"
        while True:
            count = self._used[stem] = self._used.get(stem, 0) + 1
            if count == 1:
                return stem
            stem = f"{stem}-{count}"
