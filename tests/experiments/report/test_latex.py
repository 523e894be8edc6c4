"""Tables as LaTeX: what pdfTeX typesets, whatever stands in them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kilotune.experiments.presentation.section import Table
from kilotune.experiments.report.latex import MOST_ROWS, latex_table, latex_text
from tests.experiments.report.studies import SCRIPT

HOSTILE = (
    *(
        "a & b",
        "50 %",
        "$x$",
        "#1",
        "tmp_7",
        "{}",
        "\\end{table}",
        "~",
        "^2",
        "[1]",
        "*",
        "--device",
        "a---b",
        SCRIPT,
        '"q"',
    ),
    *("`x'", "≥ 3", "∞", "→", "é", "中", "a\nb", "µ", "\u22121", "“q”", "|", "?`", "<<"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b & 5 %", r"a\_b \& 5 \%"),
        ("\\", r"\textbackslash{}"),
        ("--level O3", "-{}-level O3"),
        ("≤ ∞", r"$\leq$ $\infty$"),
        ("a\n b", "a b"),
        ("ő中", "oU+4E2D"),
        ("x^2~{}", r"x\textasciicircum{}2\textasciitilde{}\{\}"),
    ],
)
def test_text(text: str, expected: str) -> None:
    assert latex_text(text) == expected


def test_a_table() -> None:
    table = Table(("metric", "bytes"), [("flash_bytes", 1234.5678), ("[x]", -2), (None, None)], "Small & good.")
    assert (
        latex_table(table, "found")
        == r"""% Written by kilotune; \input it, with the LaTeX packages booktabs.
\begin{table}
\centering
\caption{Small \& good.}\label{tab:found}
\begin{tabular}{lr}
\toprule
metric & bytes \\
\midrule
flash\_bytes & 1234.6 \\
{[x]} & $-$2 \\
 &  \\
\bottomrule
\end{tabular}
\end{table}
"""
    )


def test_a_long_table_breaks_over_pages_and_a_wide_one_fits_across() -> None:
    long = latex_table(Table(("n",), [(n,) for n in range(MOST_ROWS + 1)]), "t")
    assert long.count("\\begin{longtable}{r}") == long.count("\\end{longtable}") == 1
    wide = latex_table(Table(tuple(f"a column {n}" for n in range(20)), [tuple(range(20))]), "t")
    assert "\\resizebox{\\linewidth}{!}{%\n\\begin{tabular}{rrrrrrrrrrrrrrrrrrrr}" in wide
    assert "graphicx" in wide


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex: install texlive-latex-recommended")
def test_pdftex_typesets_all_of_it(tmp_path: Path) -> None:
    tables = [
        Table(HOSTILE, [HOSTILE], "All: " + " ".join(HOSTILE)),
        Table(("what",), [(text,) for text in HOSTILE], "One a row."),
        Table(("what", "number"), [(text, at) for text in HOSTILE for at in range(4)], "Over pages."),
    ]
    for number, table in enumerate(tables):
        (tmp_path / f"t{number}.tex").write_text(latex_table(table, f"t{number}"), encoding="utf-8")
    inputs = "".join(f"\\input{{t{number}}}" for number in range(len(tables)))
    packages = "\\usepackage{booktabs,longtable,graphicx}"
    (tmp_path / "main.tex").write_text(
        f"\\documentclass{{article}}{packages}\\begin{{document}}{inputs}\\end{{document}}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, errors="replace"
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert re.search(r"Output written on main.pdf \(\d+ pages", done.stdout)
    assert "Overfull" not in done.stdout.replace("Overfull \\hbox (15.0pt", "")
