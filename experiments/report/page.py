"""Sections become one HTML file that needs nothing else: styles, scripts, figures and Plotly itself are in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs

from kilotune.experiments.presentation.section import (
    Block,
    Cell,
    Figure,
    Listing,
    Paragraph,
    Row,
    Section,
    Table,
    figures_in,
)
from kilotune.experiments.presentation.text import cell_text

PARTS = Path(__file__).parent / "parts"
FIGURE_HEIGHT = 420
"""Pixels, where a figure says nothing."""

MOST_CONTENTS = 24
"""With more sections than that, the table of contents shows chapters only."""

LONG = 48
"""Characters from which a cell is no name but a sentence, and gets a wide column."""


def render_page(title: str, sections: Sequence[Section], subtitle: str = "") -> str:
    """The whole file. All text is escaped here, and only here."""
    described = _sections(sections)
    return (
        environment(PARTS)
        .get_template("report.html")
        .render(
            title=title,
            subtitle=subtitle,
            sections=described,
            deep=len(sections) <= MOST_CONTENTS,
            style=Markup((PARTS / "report.css").read_text(encoding="utf-8")),
            script=_script((PARTS / "report.js").read_text(encoding="utf-8")),
            plotly=_script(get_plotlyjs()) if _has_figures(sections) else None,
            figure_data=_script((PARTS / "figure_data.js").read_text(encoding="utf-8")),
            footer=f"Written by kilotune {version('kilotune')}.",
        )
    )


def render_sections(sections: Sequence[Section]) -> str:
    """The sections alone, for a page that has styles and scripts of its own and takes them in while it is open."""
    return environment(PARTS).get_template("sections.html").render(sections=_sections(sections))


def environment(*folders: Path) -> jinja2.Environment:
    """Templates that escape whatever is put into them."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def _has_figures(sections: Sequence[Section]) -> bool:
    return any(True for section in sections for _ in figures_in(section.blocks))


def _sections(sections: Sequence[Section]) -> list[dict[str, Any]]:
    numbers = {"figure": 0, "table": 0, "listing": 0}
    return [
        {
            "title": section.title,
            "level": section.level,
            "number": number,
            "blocks": [_described(block, section.title, numbers) for block in section.blocks],
        }
        for number, section in enumerate(sections, start=1)
    ]


def _described(block: Block, section: str, numbers: dict[str, int]) -> dict[str, Any]:
    """What the template needs of a block of the section of that title; listings, tables and figures are counted."""
    if isinstance(block, Paragraph):
        return {"kind": "paragraph", **asdict(block)}
    if isinstance(block, Row):
        return {"kind": "row", "blocks": [_described(figure, section, numbers) for figure in block.figures]}
    kind = "table" if isinstance(block, Table) else "listing" if isinstance(block, Listing) else "figure"
    numbers[kind] += 1
    if isinstance(block, Listing):
        return {"kind": kind, "number": numbers[kind], "text": block.text, "title": section}
    if isinstance(block, Figure):
        layout = block.figure.layout
        return {
            "kind": kind,
            "number": numbers[kind],
            "title": block.title or section,
            "description": block.description,
            "height": int(layout.height or FIGURE_HEIGHT),
            "narrow_height": block.narrow_height,
            "json": _json(block),
        }
    width = len(block.columns)
    if any(len(row) != width for row in block.rows):
        raise ValueError(f"A row of the table {block.caption!r} has not as many cells as there are columns, {width}.")
    numeric = [block.is_numeric(at) for at in range(len(block.columns))]
    return {
        "kind": kind,
        "number": numbers[kind],
        "caption": block.caption,
        "columns": [{"name": name, "numeric": right} for name, right in zip(block.columns, numeric, strict=True)],
        "rows": [
            [
                {"text": text, "value": _value(cell), "numeric": right, "long": len(text) > LONG}
                for cell, text, right in zip(row, map(cell_text, row), numeric, strict=True)
            ]
            for row in block.rows
        ],
        "sortable": block.sortable and len(block.rows) > 1,
    }


def _value(cell: Cell) -> str | None:
    """What JavaScript sorts by; None for text and for empty cells."""
    if cell is None or isinstance(cell, str) or math.isnan(cell):
        return None
    return repr(float(cell)) if math.isfinite(cell) else "Infinity" if cell > 0 else "-Infinity"


def _json(block: Figure) -> Markup:
    """The figure without the template that Plotly gives it: the page has its own. No `<` is left that could end a script."""
    described = block.figure.to_plotly_json()
    layout = {name: value for name, value in described["layout"].items() if name not in ("template", "height")}
    text: str = to_json_plotly({"data": described["data"], "layout": layout})
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _script(source: str) -> Markup:
    """Source that stays inside its script element."""
    return Markup(source.replace("</script", "<\\/script").replace("<!--", "<\\!--"))
