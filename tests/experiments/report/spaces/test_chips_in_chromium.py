"""The chips' figures in a real browser: no complaints, hovering says what is under the pointer, names are text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.experiments.presentation.section import Section
from kilotune.experiments.problems.cm.figures import sections as cm
from kilotune.experiments.problems.cm.networks import chain
from kilotune.experiments.problems.cm.problem import MappingProblem
from kilotune.experiments.problems.reverse_split.figures import sections as reverse_split
from kilotune.experiments.report.page import render_page
from kilotune.spaces.cm.space import CmSpace
from tests.browser import DESKTOP, PHONE, OpenPage
from tests.experiments.report.spaces.studies import NASTY, study_of
from tests.experiments.report.spaces.test_cm import named, study_in

POINT = """([plot, x, y]) => {
  const box = plot.getBoundingClientRect(), {xaxis, yaxis} = plot._fullLayout;
  return [box.left + xaxis._offset + xaxis.l2p(x), box.top + yaxis._offset + yaxis.l2p(y)];
}"""
HOVERED = "plot => [...plot.querySelectorAll('.hoverlayer text')].map(text => text.textContent).join()"
SIZES = pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)])


def written(sections: tuple[Section, ...], folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(render_page("chips", sections), encoding="utf-8")
    return path


def first_plot(page: Any) -> Any:
    page.wait_for_function("document.querySelector('.plot .main-svg') !== null")
    plot = page.query_selector(".plot")
    plot.scroll_into_view_if_needed()
    return plot


def hovered(page: Any, plot: Any, x: float, y: float) -> str:
    """What is said at that point of the axes."""
    left, top = page.evaluate(POINT, [plot, x, y])
    page.mouse.move(left - 2, top - 2)
    page.mouse.move(left, top)
    page.wait_for_function(f"plot => ({HOVERED})(plot) !== ''", arg=plot)
    page.wait_for_timeout(150)
    return str(page.evaluate(HOVERED, plot))


@SIZES
def test_cores_and_links_answer_the_pointer(
    open_page: OpenPage, tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    network = named(chain(3, 8), NASTY)
    problem, study = study_in(CmSpace.of(network, load_hardware("mesh-8x8")), 2)
    assert isinstance(problem, MappingProblem)
    best = study.result().best
    assert best is not None
    mapping, lowered = (
        problem.space.mapping(best.assignment),
        problem.space.lowered(problem.space.replicas(best.assignment)),
    )
    watched = open_page(written(cm.draw(problem, study), tmp_path), size=size, dark=dark)
    plot = first_plot(watched.page)
    core = mapping.cores[0]
    said = hovered(watched.page, plot, core % 8, core // 8)
    assert f"core {core}: {lowered.pipeline.stages[0].name}" in said  # the angle brackets too, as text
    assert NASTY in said
    assert "core 0 to core 1" in hovered(watched.page, plot, 0.5, 0.11)
    assert watched.dialogs == []
    assert watched.complaints == []


@SIZES
def test_instructions_answer_the_pointer(
    open_page: OpenPage, tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    problem, study = study_of(tmp_path, "reverse-split", "sobel", "exhaustive", 4)
    watched = open_page(written(reverse_split.draw(problem, study), tmp_path), size=size, dark=dark)
    plot = first_plot(watched.page)
    x, y, number = watched.page.evaluate(
        "plot => { const t = plot.data.find(t => t.name === 'addition'); return [t.x[0], t.y[0], t.customdata[0]]; }",
        plot,
    )
    assert f"instruction {number}: " in hovered(watched.page, plot, x, y)
    assert watched.complaints == []
