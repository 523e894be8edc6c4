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

from kilotune.experiments.report.section import Block, Cell, Figure, Listing, Paragraph, Section, Table

PARTS = Path(__file__).parent / "parts"
FIGURE_HEIGHT = 420
"""Pixels, where a figure says nothing."""

MOST_CONTENTS = 24
"""With more sections than that, the table of contents shows chapters only."""

LONG = 48
"""Characters from which a cell is no name but a sentence, and gets a wide column."""

WHOLE_FROM = 10_000
"""Larger numbers are shown without decimals."""


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


def cell_text(cell: Cell) -> str:
    """A cell as it is shown: four digits, whole numbers whole."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if not math.isfinite(cell):
        return "" if math.isnan(cell) else "∞" if cell > 0 else "-∞"
    if float(cell).is_integer() or abs(cell) >= WHOLE_FROM:
        return f"{cell:.0f}"
    return f"{cell:.4g}"


def _has_figures(sections: Sequence[Section]) -> bool:
    return any(isinstance(block, Figure) for section in sections for block in section.blocks)


def _sections(sections: Sequence[Section]) -> list[dict[str, Any]]:
    numbers = {"figure": 0, "table": 0}
    return [
        {
            "title": section.title,
            "level": section.level,
            "number": number,
            "blocks": [_described(block, numbers) for block in section.blocks],
        }
        for number, section in enumerate(sections, start=1)
    ]


def _described(block: Block, numbers: dict[str, int]) -> dict[str, Any]:
    """What the template needs of a block; tables and figures are counted."""
    if isinstance(block, Paragraph | Listing):
        return {"kind": "paragraph" if isinstance(block, Paragraph) else "listing", **asdict(block)}
    kind = "table" if isinstance(block, Table) else "figure"
    numbers[kind] += 1
    if isinstance(block, Figure):
        layout = block.figure.layout
        return {
            "kind": kind,
            "number": numbers[kind],
            "description": block.description,
            "height": int(layout.height or FIGURE_HEIGHT),
            "json": _json(block),
        }
    width = len(block.columns)
    if any(len(row) != width for row in block.rows):
        raise ValueError(f"A row of the table {block.caption!r} has not as many cells as there are columns, {width}.")
    numeric = [_numeric(block, at) for at in range(len(block.columns))]
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


def _numeric(table: Table, column: int) -> bool:
    cells = [row[column] for row in table.rows if row[column] is not None]
    return bool(cells) and not any(isinstance(cell, str) for cell in cells)


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
