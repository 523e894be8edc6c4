"""Pages for everybody: axe-core finds nothing wrong in reports and in the dashboard, figures say what they show, their data can
be read as tables, and a keyboard reaches everything."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
import pytest
from playwright.sync_api import expect
from skimage.io import imread

from kilotune.experiments.presentation.section import Figure, Listing, Row, Section, Table
from kilotune.experiments.report.comparison_sections import comparison_sections
from kilotune.experiments.report.page import render_page
from kilotune.experiments.report.stored_report import report_page
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.store import Store
from tests.browser import DESKTOP, PHONE, OpenPage, WatchedPage
from tests.experiments.dashboard.serving import Served, serving
from tests.experiments.report.accessibility import Check, axe
from tests.experiments.report.studies import comparison_outcome, make_study
from tests.experiments.report.test_in_chromium import draw_all

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["axe"]  # a fixture

SPACES = {
    "seedot": ("worked-example", "random"),
    "shiftry": ("worked-example", "random"),
    "memory": (None, "random"),
    "reverse-split": ("sobel", "exhaustive"),
    "cm": ("lenet5", "random"),
}
VARIANTS = ((DESKTOP, False), (PHONE, True))
"""Each theme and each width with every page."""

MESH = {
    "name": "mesh-3x3",
    "topology": {"kind": "mesh", "rows": 3, "columns": 3},
    "link": {"elements_per_tick": 32, "hop_ticks": 1},
    "crossbar": {"rows": 256, "columns": 256, "per_core": 1},
    "core": {"sram_bytes": 65536, "dpu_operations_per_tick": 4096},
    "gmem": {
        "input_ports": [0, 2],
        "output_ports": [6, 8],
        "elements_per_tick": 32,
        "hop_ticks": 1,
        "order": "row-major",
    },
    "element_bytes": 1,
}
"""Every element of a page is looked at, and 64 cores and 224 links have thousands."""

WAIT_MS = 30_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accessible") / "studies.db"
    (path.parent / "mesh.json").write_text(json.dumps(MESH))
    opened = Store(str(path))
    for space, (input_, strategy) in SPACES.items():
        options = {"hardware": str(path.parent / "mesh.json")} if space == "cm" else {}
        make_study(opened, space, request_from(space, input=input_, strategy=strategy, options=options), 12)
    opened.close()
    return path


@pytest.mark.parametrize("space", SPACES)
def test_the_report_of_every_space(open_page: OpenPage, axe: Check, store: Path, tmp_path: Path, space: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_page(Store(str(store)), space).text, encoding="utf-8")
    watched = open_page(path, size=PHONE)
    count = draw_all(watched)
    figures = watched.page.locator("[role=img]")
    said = [each.get_attribute("aria-label") or "" for each in figures.all()]
    assert len(said) == count > 0
    assert all(label.startswith(f"Figure {number}: ") for number, label in enumerate(said, start=1))
    assert len({label.split(": ", 1)[1] for label in said}) == count  # each says what it alone shows
    watched.page.locator(".data summary").first.click()
    variants = ((PHONE, "light"), (DESKTOP, "dark"), (PHONE, "dark"), (DESKTOP, "light"))
    for size, theme in variants if space == "memory" else variants[:2]:
        watched.page.set_viewport_size({"width": size[0], "height": size[1]})
        watched.page.emulate_media(color_scheme=theme)
        expect(watched.page.locator(f".plot[data-drawn={theme}]")).to_have_count(count)
        axe(watched.page)
        assert watched.page.evaluate("document.documentElement.scrollWidth") == size[0]


def test_the_report_of_a_comparison(open_page: OpenPage, axe: Check, store: Path, tmp_path: Path) -> None:
    outcome = comparison_outcome()
    from kilotune.experiments.studies import joining

    problem, study, _ = joining.resume(Store(str(store)), "memory")
    path = tmp_path / "comparison.html"
    path.write_text(render_page("Comparison", comparison_sections(outcome, lambda case: (problem, study))))
    for size, dark in VARIANTS:
        watched = open_page(path, size=size, dark=dark)
        assert draw_all(watched) >= 4
        axe(watched.page)


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[Served]:
    with serving(store) as running:
        yield running


@pytest.mark.parametrize("address", ["", "study/shiftry", "study/gone"])
def test_the_dashboard(open_page: OpenPage, axe: Check, served: Served, address: str) -> None:
    for size, dark in VARIANTS:
        watched = open_page(served.url + address, size=size, dark=dark)
        page = watched.page
        if address == "":
            page.locator("#studies tbody tr").first.wait_for(timeout=WAIT_MS)
        elif not address.endswith("gone"):
            page.locator("#sections[aria-busy=false]").wait_for(timeout=WAIT_MS)
            draw_all(watched)
        axe(page)
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]


@pytest.fixture
def one_page(open_page: OpenPage, tmp_path: Path) -> WatchedPage:
    """A figure with a name beside one without, a listing, a table with an unnamed column."""
    points = go.Figure(
        go.Scatter(x=np.array([1.5, 2.5]), y=[3, None], name="a &lt;b&gt;", hovertext=["one<br>two", ""])
    )
    points.update_layout(xaxis_title="seconds", yaxis_title="bytes")
    heat = go.Figure(go.Heatmap(z=np.array([[1.0, np.nan], [3.0, 4.0]]), hovertext=[["p", "q"], ["r", "s"]]))
    heat.update_xaxes(visible=False)
    heat.update_yaxes(visible=False)
    sections = [
        Section("Bytes", (Row((Figure(points, "Falling.", "Bytes so far"), Figure(heat, "Four."))), Listing("a = 1"))),
        Section("Table", (Table(("", "x"), [("a", 1), ("b", 2)], "Two rows."),)),
        Section("Table", (), level=3),
    ]
    path = tmp_path / "one.html"
    path.write_text(render_page("One", sections))
    watched = open_page(path)
    draw_all(watched)
    return watched


def table_of(page: Page, number: int) -> list[list[str]]:
    details = page.locator(f"#f{number} .data")
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    region = page.get_by_role("region", name=f"Figure {number} as a table")
    region.wait_for()
    return [row.locator("th, td").all_inner_texts() for row in region.locator("tr").all()]


def test_a_figures_data_can_be_read_as_a_table(one_page: WatchedPage, axe: Check) -> None:
    assert table_of(one_page.page, 1) == [
        ["series", "seconds", "bytes", "what is there"],
        ["a <b>", "1.5", "3", "one; two"],
    ]
    assert table_of(one_page.page, 2) == [["value", "what is there"], ["1", "p"], ["3", "r"], ["4", "s"]]
    axe(one_page.page)
    assert one_page.complaints == []


def test_a_figure_has_a_name_and_a_description_before_and_after_it_is_drawn(one_page: WatchedPage) -> None:
    page = one_page.page
    for _ in range(2):
        for name in ("Figure 1: Bytes so far", "Figure 2: Bytes"):
            picture = page.get_by_role("img", name=name, exact=True)
            assert picture.count() == 1
            assert page.locator(f"#{picture.get_attribute('aria-describedby')}").inner_text().startswith("Figure")
        page.get_by_role("button", name="Dark colours").click()  # draws them again


def test_figures_of_a_row_stand_side_by_side_and_stack_on_a_phone(one_page: WatchedPage) -> None:
    def tops() -> tuple[float, float]:
        boxes = [one_page.page.locator(f"#f{number}").bounding_box() for number in (1, 2)]
        assert boxes[0] is not None
        assert boxes[1] is not None
        return boxes[0]["y"], boxes[1]["y"]

    one, two = tops()
    assert one == two
    one_page.page.set_viewport_size({"width": 390, "height": 844})
    one, two = tops()
    assert two > one + 300


def test_a_phone_sees_that_a_table_goes_on(open_page: OpenPage, tmp_path: Path) -> None:
    wide = Table(tuple(f"column {n}" for n in range(12)), [tuple(range(12))] * 4, "Wide.")
    path = tmp_path / "wide.html"
    path.write_text(render_page("Wide", [Section("Table", (wide,))]))
    page = open_page(path, size=PHONE).page
    box = page.locator(".table").bounding_box()
    assert box is not None

    def shade(left: float) -> float:
        """Mean of a strip of the last row, from 0 to 255; without the words."""
        strip = page.screenshot(clip={"x": left, "y": box["y"] + box["height"] - 9, "width": 6, "height": 4})
        return float(imread(io.BytesIO(strip))[..., :3].mean())

    left, right = box["x"], box["x"] + box["width"] - 6
    assert shade(left) > 250
    assert shade(right) < 220
    page.evaluate("document.querySelector('.table').scrollLeft = 1e6")
    assert shade(left) < 220
    assert shade(right) > 250


def test_a_keyboard_reaches_everything_and_sees_where_it_is(one_page: WatchedPage) -> None:
    page = one_page.page
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    reached, outlined = [], []
    for _ in range(60):
        page.keyboard.press("Tab")
        what = page.evaluate(
            "(e => [e.tagName, e.textContent.trim().slice(0, 20), getComputedStyle(e).outlineStyle])(document.activeElement)"
        )
        if what[0] == "BODY":
            break
        reached.append((what[0], what[1]))
        outlined.append(what[2] != "none")
    assert ("PRE", "a = 1") in reached
    assert ("BUTTON", "x") in reached
    assert ("SUMMARY", "Figure 1 as a table") in reached
    assert ("BUTTON", "Save as SVG") in reached
    assert all(outlined)
    page.keyboard.press("Tab")


def test_nothing_moves_for_those_who_asked_for_that(one_page: WatchedPage) -> None:
    moving = (
        "[...document.querySelectorAll('*')].filter(e => parseFloat(getComputedStyle(e).transitionDuration)).length"
    )
    one_page.page.emulate_media(reduced_motion="reduce")
    assert one_page.page.evaluate(moving) == 0
