"""Figures and tables of a report as files: every one, under names that stay, offline, and a sentence where they cannot be drawn."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import plotly.graph_objects as go
import pytest

from kilotune.experiments.presentation.section import Figure, Paragraph, Row, Section, Table
from kilotune.experiments.report.paper_files import drawn_files, named_figures, table_files
from kilotune.search.store import Store
from tests import commands
from tests.browser import CHROMIUM
from tests.experiments.report.studies import make_study, shiftry_request

pytestmark = pytest.mark.slow

needs_chromium = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"{CHROMIUM} is not there")


def sections() -> list[Section]:
    line = go.Figure(go.Scatter(x=[1, 2], y=[3, 4], name="bytes of flash"))
    table = Table(("a",), [(1,)], "A table.")
    return [
        Section("Pareto front", (Figure(line, "One."), Paragraph("text"), table)),
        Section(
            "How it went", (Row((Figure(line, "Two.", "Best %, by seconds"), Figure(line, "Three."))), table, table)
        ),
        Section("Pareto front", (Figure(line, "Four."),)),
        Section("\u4e2d", (Figure(line, "Five."),)),
    ]


def test_names_come_from_titles_and_each_is_there_once() -> None:
    assert [figure.stem for figure in named_figures(sections())] == [
        *("pareto-front", "best-by-seconds", "how-it-went", "pareto-front-2", "unnamed")
    ]
    assert list(table_files(sections())) == ["pareto-front.tex", "how-it-went.tex", "how-it-went-2.tex"]


@needs_chromium
def test_figures_are_drawn_in_every_format() -> None:
    pytest.importorskip("kaleido", reason="kaleido is not installed: pip install '.[test]'")
    (figure,) = named_figures(sections()[:1])
    files = dict(drawn_files([figure], ("pdf", "svg", "png")))
    assert files["pareto-front.pdf"].startswith(b"%PDF")
    assert files["pareto-front.png"].startswith(b"\x89PNG")
    svg = files["pareto-front.svg"].decode()
    assert svg.startswith("<svg")
    assert 'width="700"' in svg
    assert "scatterlayer" in svg
    assert not re.findall(r"(?:href|src)=.https?:", svg)


def tune(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return commands.tune(Path.cwd(), {**os.environ, **variables}, "report", *arguments)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("paper") / "studies.db")
    opened = Store(path)
    make_study(opened, "small", shiftry_request(), 5)
    opened.close()
    return path


def test_tables_need_no_browser(storage: str, tmp_path: Path) -> None:
    done = tune("small", "--storage", storage, "--output", str(tmp_path / "r.html"), "--tables", str(tmp_path / "t"))
    assert done.returncode == 0, done.stderr
    written = sorted(str(path) for path in (tmp_path / "t").glob("*.tex"))
    assert sorted(done.stdout.split()) == written
    assert str(tmp_path / "t" / "what-was-found.tex") in written
    assert "\\toprule" in (tmp_path / "t" / "what-was-found.tex").read_text()


def test_without_a_browser_a_sentence_says_what_to_install(storage: str, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    done = tune(
        *("small", "--storage", storage, "--output", str(tmp_path / "r.html"), "--figures", str(folder)),
        BROWSER_PATH=str(tmp_path / "none"),
        PATH="/nonexistent",
    )
    assert done.returncode == 4, done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if "Chromium" in line]
    assert "apt-get install chromium" in sentence
    assert "Traceback" not in done.stderr
    assert not folder.exists()


def test_a_file_of_the_users_is_kept_beside(storage: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "what-was-found.tex").write_text("mine")
    arguments = ("small", "--storage", storage, "--output", str(tmp_path / "r.html"), "--tables")
    assert tune(*arguments, str(folder)).returncode == 0
    assert (folder / "what-was-found.tex.orig").read_text() == "mine"
    refused = tune(*arguments, str(folder / "what-was-found.tex"))
    assert refused.returncode == 4
    assert "expected a folder, found a file" in refused.stderr


def test_a_format_alone_is_refused(storage: str) -> None:
    done = tune("small", "--storage", storage, "--format", "svg")
    assert done.returncode == 4
    assert "--format: expected together with --figures" in done.stderr
