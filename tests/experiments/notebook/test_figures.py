"""Figures, report, and the line in a notebook."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from kilotune.experiments.notebook import live_line
from kilotune.experiments.notebook.figures import TEMPLATE, figures_of
from kilotune.experiments.notebook.tuning import tune
from kilotune.experiments.presentation.section import Figure, Paragraph, Section
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.studies import tuning
from kilotune.experiments.studies.delivery import Delivery, kept_delivery
from kilotune.search.result import Progress
from kilotune.search.study import Study
from tests.experiments.notebook.spaces import Branch, Mixed


def draw(problem: object, study: object) -> tuple[Section, ...]:
    """The figure of spaces of this module."""
    return (Section("My own", (Figure(go.Figure(go.Scatter(y=[1, 2])), "Two points."),)),)


class Drawn(Mixed):
    """A space with a figure of its own."""


@pytest.mark.slow
def test_the_figures_are_the_reports() -> None:
    study = tune("memory", input="fastgrnn-digits", strategy="random", budget="40trials")
    figures = study.figures
    assert "How the search went" in figures
    assert "Address map" in " ".join(figures) or len(figures) >= 2  # the space's own
    assert all(isinstance(figure, go.Figure) for figure in figures.values())
    assert study.figures is figures
    study.resume("5trials")
    assert study.figures is not figures or len(study.trials) == 40


def test_best_so_far_ends_at_the_best() -> None:
    study = tune(Mixed(), strategy="random", budget="30trials")
    assert study.best is not None
    drawn = [y for trace in study.figures["How the search went"].data if trace.y is not None for y in trace.y]
    assert study.best.metrics["cost"] in drawn
    assert study.figures["How the search went"].layout.template.layout.paper_bgcolor == "white"


def test_a_space_of_ones_own_draws_its_figure(tmp_path: Path) -> None:
    study = tune(Drawn(), strategy="random", budget="30trials")
    assert "My own" in study.figures
    page = study.report(tmp_path / "page.html").read_text()
    assert "Two points." in page
    assert "It was asked from Python, of a Drawn." in page


def test_a_report_of_what_has_a_name_says_the_command(tmp_path: Path) -> None:
    study = tune("shiftry", input="worked-example", strategy="random", budget="4trials", seed=9)
    page = study.report(tmp_path / "deep" / "page.html").read_text()
    assert "tune --space shiftry --input worked-example --strategy random --seed 9 --budget 4trials" in page
    with pytest.raises(ValueError, match="is a folder: expected the name of a file"):
        study.report(tmp_path)


def test_names_in_a_report_are_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    page = tune(Mixed(name=name), strategy="random", budget="30trials").report(tmp_path / "page.html").read_text()
    assert name not in page
    assert "&lt;script&gt;alert(1)" in page


def test_figures_of_one_section_are_numbered_and_copied() -> None:
    one, two = go.Figure(), go.Figure()
    sections = [
        Section("Curve", (Figure(one, "first"), Paragraph("between"), Figure(two, "second"))),
        Section("Text", (Paragraph("no figure"),)),
        Section("Curve", (Figure(one, "again"),)),
    ]
    found = figures_of(sections)
    assert list(found) == ["Curve", "Curve (2)", "Curve, again 2"]
    found["Curve"].update_layout(title="changed")
    assert one.layout.title.text is None
    assert TEMPLATE == "plotly_white"


class Display:
    """What IPython's display handle does."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, data: dict[str, str], raw: bool, display_id: bool) -> Display:
        assert raw
        assert display_id
        return self

    def update(self, data: dict[str, str], raw: bool) -> None:
        assert raw
        self.lines.append(data["text/plain"])


class ZMQInteractiveShell:
    """The shell of a Jupyter kernel."""


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Display:
    shown = Display()
    module = types.ModuleType("IPython")
    module.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    module.display = types.SimpleNamespace(display=shown)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    return shown


def test_a_notebook_shows_a_line_that_is_replaced(notebook: Display) -> None:
    tune(Mixed(), strategy="random", budget="10trials")
    assert notebook.lines[-1].startswith("10 trials")
    assert "best cost" in notebook.lines[-1]
    shown = len(notebook.lines)
    tune(Mixed(), strategy="random", budget="10trials", progress=False)
    assert len(notebook.lines) == shown


def test_a_notebook_says_what_is_done_after_the_search_until_that_is_done(
    notebook: Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deliver(problem: Problem, study: Study, *given: Any) -> Delivery:
        *_, tell = given
        result = tuning.search(problem, study, *given[:-1]).result
        tell("linking finalists, 3 so far")
        return kept_delivery(problem, study, result)

    monkeypatch.setattr(tuning, "run_to_delivery", deliver)
    tune(Mixed(), strategy="random", budget="10trials")
    assert notebook.lines[-2] == "after the search: linking finalists, 3 so far"
    assert notebook.lines[-1].startswith("10 trials")
    told = list[Progress]()
    tune(Mixed(), strategy="random", budget="10trials", progress=told.append)  # which hears of the search alone
    assert all(isinstance(one, Progress) for one in told)


def test_a_script_that_asks_is_told_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kilotune.experiments.terminal.live_display.FIRST_PLAIN_LINE_S", 0.0)
    tune(Branch(), strategy="random", budget="2trials", progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("2 trials")
    assert "best value" in captured.err


def test_a_script_is_silent_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert not live_line.in_notebook()
    tune(Branch(), strategy="random", budget="2trials")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
