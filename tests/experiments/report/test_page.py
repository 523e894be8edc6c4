"""Sections become one file: nothing is markup that was text, numbers sort as numbers, files are whole."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.presentation.section import Figure, Listing, Paragraph, Section, Table
from kilotune.experiments.presentation.text import cell_text, plotly_text
from kilotune.experiments.report.page import MOST_CONTENTS, render_page
from tests.experiments.report.studies import SCRIPT


def page(*blocks: object, title: str = "Title") -> str:
    return render_page(title, [Section("Section", blocks)])  # type: ignore[arg-type]


def figures(html: str) -> list[dict[str, object]]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.S)]


def test_text_is_escaped_everywhere() -> None:
    figure = go.Figure(go.Scatter(x=[1], y=[1], name=SCRIPT))
    html = render_page(
        SCRIPT,
        [
            Section(
                SCRIPT,
                (Paragraph(SCRIPT), Listing(SCRIPT), Table((SCRIPT,), [(SCRIPT,)], SCRIPT), Figure(figure, SCRIPT)),
            )
        ],
        SCRIPT,
    )
    assert SCRIPT not in html
    # title, h1, subtitle, contents, h2, paragraph, listing and its name, caption, column, cell, figure's name, description
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 13
    assert figures(html)[0]["data"][0]["name"] == SCRIPT  # type: ignore[index]


def test_figures_are_json_without_numbers_that_json_lacks() -> None:
    figure = go.Figure(go.Scatter(x=np.array([1.0, np.nan]), y=[math.inf, -math.inf]))
    html = page(Figure(figure, "none"))
    (found,) = figures(html)
    assert "NaN" not in json.dumps(found)
    assert found["data"][0]["y"] == [None, None]  # type: ignore[index]
    assert "template" not in found["layout"]  # type: ignore[operator]


def test_plotly_is_there_once_and_only_with_figures() -> None:
    figure = Figure(go.Figure(go.Scatter(x=[1], y=[1])), "one")
    marker = "plotly.js v"
    assert page(figure, figure).count(marker) == 1
    assert marker not in page(Paragraph("none"))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, ""),
        ("text", "text"),
        (3, "3"),
        (12345678, "12345678"),
        (2.0, "2"),
        (0.000123456, "0.0001235"),
        (12345.6, "12346"),
        (-1.5, "-1.5"),
        (math.nan, ""),
        (math.inf, "∞"),
    ],
)
def test_cells(cell: object, text: str) -> None:
    assert cell_text(cell) == text  # type: ignore[arg-type]


def test_cells_keep_their_whole_value_for_sorting() -> None:
    html = page(Table(("a", "b"), [("x", 1.23456789), ("y", None), ("z", math.inf)]))
    assert re.findall(r'data-value="([^"]*)"', html) == ["1.23456789", "Infinity"]
    assert "data-sortable" in html
    assert "data-sortable>" not in page(Table(("a",), [(1,), (2,)], sortable=False))
    with pytest.raises(ValueError, match="as many cells"):
        page(Table(("a", "b"), [("too short",)]))


def test_long_contents_show_chapters_only() -> None:
    parts = [Section("part", (), level=3) for _ in range(MOST_CONTENTS)]
    short, long = (render_page("t", [Section("chapter", ()), *some]) for some in (parts[: MOST_CONTENTS - 1], parts))
    assert short.count('href="#s') == MOST_CONTENTS
    assert long.count('href="#s') == 1


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "report.html"
    assert write_whole(path, "ä") == 2
    assert path.read_text(encoding="utf-8") == "ä"
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match="is a directory"):
        write_whole(path, "b")
    assert list(path.parent.iterdir()) == [path]


def test_a_name_fills_in_no_hover_template() -> None:
    """Plotly would read `%{x}` in a metric's name as the value on the axis."""
    assert "%{" not in plotly_text("share %{x}")
    assert html.unescape(plotly_text("share %{x} <b>")) == "share %{x} <b>"
