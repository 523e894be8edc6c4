"""Tables of a report as LaTeX with the rules of booktabs: what pdfTeX typesets as it is, whatever the names in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

from kilotune.experiments.presentation.section import Cell, Table
from kilotune.experiments.presentation.text import cell_text
from kilotune.experiments.report.page import LONG

MOST_ROWS, MOST_ROWS_SCALED = 40, 70
"""A longer table breaks over pages; the second for one that is scaled down to fit across."""

WIDEST = 80
"""Letters across, two between columns included, that a page of text has room for."""

_SPECIAL: Mapping[str, str] = MappingProxyType(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\char34{}",
        "`": r"\char96{}",
        "'": r"\char39{}",
        "\u2265": r"$\geq$",
        "\u2264": r"$\leq$",
        "\u221e": r"$\infty$",
        "\u2192": r"$\to$",
        "\u2212": "$-$",
        "\u00d7": r"$\times$",
        "\u00b7": r"$\cdot$",
        "\u2026": r"\ldots{}",
        "\u2013": r"\textendash{}",
        "\u2014": r"\textemdash{}",
        "\u2018": r"\textquoteleft{}",
        "\u2019": r"\textquoteright{}",
        "\u201c": r"\textquotedblleft{}",
        "\u201d": r"\textquotedblright{}",
        "\u00b5": r"$\mu$",
        "\u03bc": r"$\mu$",
    }
)
_LETTERS = re.compile(r"[\x20-\x7eÀ-ÖØ-öø-ÿ]")
"""What pdfTeX has a glyph for without further packages."""


def latex_text(text: str) -> str:
    """The text as LaTeX that shows it. A character that pdfTeX cannot show becomes its number, U+4E2D."""
    shown = "".join(map(_character, " ".join(text.split())))
    return re.sub("-(?=-)", "-{}", shown)  # two would become a dash


def latex_table(table: Table, label: str) -> str:
    """The table as a float, or of many rows as a longtable; a file of its own for \\input. `label`: for \\ref, of letters, digits
    and dashes."""
    numeric = [table.is_numeric(at) for at in range(len(table.columns))]
    columns = "".join("r" if right else _column(table, at) for at, right in enumerate(numeric))
    head = _line([latex_text(name) for name in table.columns])
    rows = [_line([_cell(cell, right) for cell, right in zip(row, numeric, strict=True)]) for row in table.rows]
    wide = _letters(table) > WIDEST
    long = len(rows) > (MOST_ROWS_SCALED if wide else MOST_ROWS)
    named = f"\\caption{{{latex_text(table.caption)}}}\\label{{tab:{label}}}"
    small = ["\\footnotesize", "\\setlength{\\tabcolsep}{4pt}"] if wide else []
    packages = "booktabs and longtable" if long else "booktabs and graphicx" if wide else "booktabs"
    lines = [f"% Written by kilotune; \\input it, with the LaTeX packages {packages}."]
    if long:
        again = ["\\toprule", head, "\\midrule"]
        lines += ["{", *small, f"\\begin{{longtable}}{{{columns}}}", f"{named}\\\\", *again, "\\endfirsthead", *again]
        lines += ["\\endhead", "\\bottomrule", "\\endlastfoot", *rows, "\\end{longtable}", "}"]
    else:
        fitted, end = (["\\resizebox{\\linewidth}{!}{%"], "\\end{tabular}}") if wide else ([], "\\end{tabular}")
        lines += [
            "\\begin{table}",
            "\\centering",
            named,
            *fitted,
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            head,
        ]
        lines += ["\\midrule", *rows, "\\bottomrule", end, "\\end{table}"]
    return "\n".join(lines) + "\n"


def _character(character: str) -> str:
    special = _SPECIAL.get(character)
    if special is not None:
        return special
    if _LETTERS.fullmatch(character):
        return character
    plain = "".join(c for c in unicodedata.normalize("NFKD", character) if _LETTERS.fullmatch(c))
    return "".join(map(_character, plain)) if plain else f"U+{ord(character):04X}"


def _line(cells: list[str]) -> str:
    """A row. What begins with a bracket or a star would be read as an argument of the line break before it."""
    if cells and cells[0][:1] in ("[", "*"):
        cells = [f"{{{cells[0]}}}", *cells[1:]]
    return f"{' & '.join(cells)} \\\\"


def _cell(cell: Cell, numeric: bool) -> str:
    shown = cell_text(cell)
    if numeric and shown.startswith("-"):
        return f"$-${latex_text(shown[1:])}"
    return latex_text(shown)


def _letters(table: Table) -> int:
    """How wide it is; a column that breaks lines is half a page."""
    widths = [
        max(len(text) for text in (name, *(cell_text(row[at]) for row in table.rows)))
        for at, name in enumerate(table.columns)
    ]
    return sum(min(width, WIDEST // 2) + 2 for width in widths)


def _column(table: Table, at: int) -> str:
    return "p{0.5\\linewidth}" if any(len(cell_text(row[at])) > LONG for row in table.rows) else "l"
