"""Reports in a real browser: they load offline without complaint, draw, sort, switch their theme, and run no one's markup."""

from __future__ import annotations

import re
from pathlib import Path

import plotly.graph_objects as go
import pytest
from playwright.sync_api import expect

from kilotune.experiments.artefacts.output_file import write_whole
from kilotune.experiments.presentation.palette import BLUE
from kilotune.experiments.presentation.section import Figure, Listing, Paragraph, Section, Table
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.report.comparison_sections import comparison_sections
from kilotune.experiments.report.page import render_page
from kilotune.experiments.report.stored_report import report_page
from kilotune.search.store import Store
from tests.browser import PHONE, OpenPage, WatchedPage
from tests.experiments.report.studies import (
    IMAGE,
    SCRIPT,
    comparison_outcome,
    hostile_request,
    make_study,
    shiftry_request,
)

TRIALS = 10_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def study_page(folder: Path) -> Path:
    """Of 10 000 trials."""
    store = Store(str(folder / "studies.db"))
    _, study = make_study(store, "large", shiftry_request(), TRIALS)
    assert len(study.trials()) == TRIALS
    path = folder / "large.html"
    write_whole(path, report_page(store, "large").text)
    return path


@pytest.fixture(scope="module")
def comparison_page(folder: Path) -> Path:
    outcome = comparison_outcome(strategies=("greedy", "tpe", "random", "local", "exhaustive"))
    sections = comparison_sections(outcome, lambda case: (_ for _ in ()).throw(ValueError("no store")))
    path = folder / "comparison.html"
    write_whole(path, render_page("Comparison five", sections))
    return path


@pytest.fixture(scope="module")
def hostile_page(folder: Path) -> Path:
    """Of a study and an input whose names are markup, with one more such name inside a figure."""
    store = Store(str(folder / "hostile.db"))
    make_study(store, SCRIPT, hostile_request(folder), 200)
    html = report_page(store, SCRIPT).text
    figure = go.Figure(go.Bar(x=[3, 2], y=[plotly_text(SCRIPT), plotly_text(IMAGE)], orientation="h"))
    figure.update_layout(title=plotly_text(f"{SCRIPT} & {IMAGE}"), xaxis_title=plotly_text(SCRIPT))
    named = render_page(SCRIPT, [Section(IMAGE, (Figure(figure, SCRIPT),))], IMAGE)
    (folder / "hostile.html").write_text(html, encoding="utf-8")
    (folder / "hostile-figure.html").write_text(named, encoding="utf-8")
    return folder / "hostile.html"


def draw_all(watched: WatchedPage) -> int:
    """Scroll through the page as a reader does; how many figures there are, all drawn."""
    page = watched.page
    plots = page.locator(".plot")
    for number in range(plots.count()):
        plots.nth(number).scroll_into_view_if_needed()
        expect(plots.nth(number).locator(".main-svg").first).to_be_visible()
    return plots.count()


def is_dark(colour: str) -> bool:
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return red + green + blue < 3 * 128


def paper(watched: WatchedPage) -> tuple[bool, bool, bool]:
    """Whether the page, a figure's paper and a figure's text are dark."""
    page = watched.page
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    svg = page.evaluate("getComputedStyle(document.querySelector('.plot .main-svg')).backgroundColor")
    tick = page.evaluate("getComputedStyle(document.querySelector('.plot .xtick text')).fill")
    return is_dark(body), is_dark(svg), is_dark(tick)


def test_a_study_loads_offline_draws_and_is_small(open_page: OpenPage, study_page: Path) -> None:
    assert study_page.stat().st_size < 10e6
    watched = open_page(study_page)
    assert "Pareto front" in watched.page.locator("nav").inner_text()
    assert draw_all(watched) >= 3
    assert watched.page.locator(".js-plotly-plot").count() == watched.page.locator(".plot").count()
    assert watched.page.locator(".plot .scatterlayer .trace").count() > 5
    assert watched.complaints == []
    assert watched.external_requests() == []
    assert watched.requests == [study_page.as_uri()]


def test_figures_wait_until_they_are_seen(open_page: OpenPage, comparison_page: Path) -> None:
    watched = open_page(comparison_page)
    watched.page.wait_for_timeout(300)
    assert watched.page.locator(".js-plotly-plot").count() < watched.page.locator(".plot").count()
    assert draw_all(watched) == watched.page.locator(".js-plotly-plot").count() == 3
    assert watched.complaints == []


def test_hovering_says_what_is_there(open_page: OpenPage, study_page: Path) -> None:
    watched = open_page(study_page)
    draw_all(watched)
    figure = watched.page.locator("figure", has_text="so far, by evaluations").first
    figure.scroll_into_view_if_needed()
    box = figure.locator(".scatterlayer .trace:nth-child(2) .point").last.bounding_box()
    assert box is not None
    watched.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 2, steps=4)
    said = figure.locator(".hoverlayer .hovertext").first.text_content() or ""
    assert "memory bytes" in said
    assert re.search(r"\d", said)


@pytest.fixture
def table_page(open_page: OpenPage, tmp_path: Path) -> WatchedPage:
    rows = [("b", 100), ("a10", 9), ("a9", None), ("c", -3.5), ("", -12.25)]
    path = tmp_path / "table.html"
    write_whole(path, render_page("t", [Section("s", (Table(("name", "bytes"), rows, "five rows"),))]))
    return open_page(path)


def column(watched: WatchedPage, number: int) -> list[str]:
    return watched.page.locator(f"tbody td:nth-child({number})").all_inner_texts()


def test_tables_sort_numbers_as_numbers_and_empty_cells_last(table_page: WatchedPage) -> None:
    page = table_page.page
    head = page.locator("th", has_text="bytes")
    orders = []
    for expected in (
        ["-12.25", "-3.5", "9", "100", ""],
        ["100", "9", "-3.5", "-12.25", ""],
        ["100", "9", "", "-3.5", "-12.25"],
    ):
        head.locator("button").click()
        assert column(table_page, 2) == expected
        orders.append(head.get_attribute("aria-sort"))
    assert orders == ["ascending", "descending", "none"]


def test_tables_sort_by_keyboard_and_words_by_their_numbers(table_page: WatchedPage) -> None:
    page = table_page.page
    page.locator("th button").first.focus()
    page.keyboard.press("Enter")
    assert column(table_page, 1) == ["a9", "a10", "b", "c", ""]
    page.keyboard.press("Space")
    assert column(table_page, 1) == ["c", "b", "a10", "a9", ""]
    page.locator("th button").nth(1).click()
    assert page.locator("th").first.get_attribute("aria-sort") == "none"


def test_the_theme_is_the_systems_until_it_is_switched(open_page: OpenPage, study_page: Path) -> None:
    light, dark = open_page(study_page), open_page(study_page, dark=True)
    draw_all(light)
    draw_all(dark)
    assert paper(light) == (False, False, True)
    assert paper(dark) == (True, True, False)
    toggle = light.page.get_by_role("button", name="Dark colours")
    assert toggle.get_attribute("aria-pressed") == "false"
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "true"
    assert paper(light) == (True, True, False)
    light.page.emulate_media(color_scheme="dark")
    toggle.click()
    assert paper(light) == (False, False, True)
    dark.page.emulate_media(color_scheme="light")
    dark.page.wait_for_timeout(200)
    assert paper(dark) == (False, False, True)
    assert light.complaints == dark.complaints == []


@pytest.mark.parametrize("which", ["study_page", "comparison_page", "hostile_page"])
def test_a_phone_scrolls_down_only(open_page: OpenPage, which: str, request: pytest.FixtureRequest) -> None:
    watched = open_page(request.getfixturevalue(which), size=PHONE)
    draw_all(watched)
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("scrollTo(500, 0), scrollX") == 0
    inside = "document.querySelector('.table:has(th:nth-child(7))')"
    assert page.evaluate(f"{inside}.scrollWidth > {inside}.clientWidth")  # a wide table scrolls in its own box
    for plot in page.locator(".plot .main-svg").all():
        box = plot.bounding_box()
        assert box is None or box["width"] <= 390
    assert watched.complaints == []


def test_names_are_text_wherever_they_stand(open_page: OpenPage, hostile_page: Path) -> None:
    watched = open_page(hostile_page)
    draw_all(watched)
    page = watched.page
    assert IMAGE in page.title()
    assert IMAGE in page.locator("h1").inner_text()
    assert f"Study {SCRIPT}" in page.locator(".subtitle").inner_text()
    assert page.get_by_role("cell", name=SCRIPT, exact=True).count() >= 1
    assert SCRIPT in page.locator("pre").last.inner_text()
    assert page.locator("main img, main b b, td b").count() == 0
    figure = open_page(hostile_page.with_name("hostile-figure.html"))
    draw_all(figure)
    assert figure.page.title() == SCRIPT
    assert figure.page.locator(".ytick text").all_text_contents() == [SCRIPT, IMAGE]
    assert figure.page.locator(".gtitle").text_content() == f"{SCRIPT} & {IMAGE}"
    assert figure.page.locator(".xtitle").text_content() == SCRIPT
    figure.page.locator(".bars .point").first.hover(force=True)
    assert figure.page.locator("svg script, svg image[href='x'], main img").count() == 0
    for each in (watched, figure):
        assert each.dialogs == []
        assert each.complaints == []
        assert each.external_requests() == []


def test_a_figure_is_saved_as_svg_on_white(open_page: OpenPage, comparison_page: Path) -> None:
    watched = open_page(comparison_page, dark=True)
    draw_all(watched)
    with watched.page.expect_download() as download:
        watched.page.locator(".save").first.click()
    saved = download.value
    assert saved.suggested_filename == "Comparison-five-f1.svg"
    svg = saved.path().read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert "rgb(255, 255, 255)" in svg
    assert "CPU seconds" in svg


def test_printing_draws_everything_in_light_colours(open_page: OpenPage, comparison_page: Path) -> None:
    watched = open_page(comparison_page, dark=True)
    printed = watched.page.pdf()
    assert len(printed) > 50_000
    page = watched.page
    assert page.locator(".js-plotly-plot").count() == page.locator(".plot").count()


def test_a_page_without_figures_works(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "plain.html"
    write_whole(path, render_page("Plain", [Section("One", (Paragraph("text"), Listing("a\n  b")))]))
    watched = open_page(path)
    assert watched.page.locator("pre").inner_text() == "a\n  b"
    watched.page.get_by_role("button", name="Dark colours").click()
    assert is_dark(watched.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert watched.complaints == []


def test_colours_of_a_figure_stay_those_of_its_author(open_page: OpenPage, tmp_path: Path) -> None:
    figure = go.Figure(go.Scatter(x=[1, 2], y=[1, 2], mode="lines", line={"color": BLUE}))
    path = tmp_path / "one.html"
    write_whole(path, render_page("One", [Section("One", (Figure(figure, "a line"),))]))
    for dark in (False, True):
        watched = open_page(path, dark=dark)
        draw_all(watched)
        stroke = watched.page.evaluate("getComputedStyle(document.querySelector('.js-line')).stroke")
        assert stroke == "rgb(0, 114, 178)"
