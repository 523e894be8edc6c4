"""The pages in a real browser, over searches that really run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kilotune.search.store import Store
from tests.browser import DESKTOP, PHONE, OpenPage
from tests.experiments.dashboard.serving import Served, make_study, serving, start_tuning

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

SCRIPT = "<script>alert(1)</script>"
LONG_NAME = "shiftry-on-fastgrnn16-digits-by-refine-with-seed-12-on-the-other-machine-again-without-limits"
SHOTS = os.environ.get("KILOTUNE_SCREENSHOTS")
"""A folder that takes screenshots, for people."""

WAIT_MS = 30_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "studies.db"
    make_study(path, "small", trials=8)
    make_study(path, SCRIPT, trials=25)
    make_study(path, LONG_NAME, "shiftry", trials=5)
    return path


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Served]:
    with serving(place) as running:
        yield running


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


def wait_until(page: Page, expression: str) -> None:
    """Playwright's own waiting evaluates in the page, which our Content-Security-Policy forbids."""
    for _ in range(WAIT_MS // 100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never: {expression}")


def wait_for_figures(page: Page) -> None:
    wait_until(page, "document.querySelectorAll('#sections .plot .main-svg').length > 0")


def points(page: Page, figure: int = 0) -> int:
    """How many the first traces of a figure hold, as Plotly has them."""
    count = page.evaluate(
        f"document.querySelectorAll('.plot')[{figure}].data.reduce((n, t) => n + (t.x?.length ?? 0), 0)"
    )
    return int(count)


def names(page: Page) -> list[str]:
    return page.locator("#studies tbody tr td:first-child").all_inner_texts()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_load_draw_and_fit(served: Served, open_page: OpenPage, size: tuple[int, int]) -> None:
    overview = open_page(served.url, size=size, dark=size == PHONE)
    page = overview.page
    page.wait_for_selector("#studies tbody tr")
    assert names(page) == [LONG_NAME, SCRIPT, "small"]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    shot(page, f"overview-{size[0]}")
    page.click(f"text={SCRIPT}")
    wait_for_figures(page)
    assert page.inner_text("h1") == SCRIPT
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.inner_text("[data-fact=trials]") == "25" or int(page.inner_text("[data-fact=trials]")) > 5
    shot(page, f"study-{size[0]}")
    assert overview.complaints == []
    assert overview.dialogs == []
    assert all(url.startswith((served.url, "data:", "blob:")) for url in overview.requests)


def test_hover_and_sorting(served: Served, open_page: OpenPage) -> None:
    watched = open_page(served.url)
    page = watched.page
    page.wait_for_selector("#studies tbody tr")
    trials = page.locator("#studies thead th button", has_text="trials")
    trials.click()
    ascending = names(page)
    trials.click()
    assert names(page) == ascending[::-1]
    assert page.locator("#studies th[aria-sort=descending]").inner_text().startswith("trials")
    page.goto(f"{served.url}study/small")
    wait_for_figures(page)
    page.locator(".plot").first.scroll_into_view_if_needed()
    x, y = page.evaluate(
        """(() => {
             const plot = document.querySelector(".plot"), layout = plot._fullLayout, box = plot.getBoundingClientRect();
             const trace = plot._fullData.find((t) => t.name === "best so far");
             return [box.x + layout.xaxis._offset + layout.xaxis.d2p(trace.x[0]),
                     box.y + layout.yaxis._offset + layout.yaxis.d2p(trace.y[0])];
           })()"""
    )
    page.mouse.move(x + 30, y - 30)
    page.mouse.move(x, y, steps=5)
    page.wait_for_selector(".hoverlayer .hovertext", timeout=WAIT_MS)
    assert page.locator(".hoverlayer .hovertext").first.text_content()
    assert watched.complaints == []


def test_a_running_study_grows_without_a_reload(place: Path, open_page: OpenPage) -> None:
    with serving(place) as served:
        tuner = start_tuning(place, "growing")
        try:
            overview = open_page(served.url)
            overview.page.wait_for_selector("#studies tr.running", timeout=WAIT_MS)
            watched = open_page(f"{served.url}study/growing")
            page = watched.page
            wait_for_figures(page)
            page.evaluate("window.sameDocument = true")
            assert page.inner_text("[data-fact=status]") == "running"
            trials, drawn = int(page.inner_text("[data-fact=trials]")), points(page)
            # a zoom that has to stay
            page.evaluate("Plotly.relayout(document.querySelectorAll('.plot')[0], {'yaxis.range': [1, 2]})")
            wait_until(page, f"Number(document.querySelector('[data-fact=trials]').textContent) > {trials}")
            wait_until(
                page,
                "document.querySelectorAll('.plot')[0].data.reduce((n, t) => n + (t.x?.length ?? 0), 0) > "
                + str(drawn),
            )
            assert page.evaluate("window.sameDocument")
            assert page.evaluate("document.querySelectorAll('.plot')[0].layout.yaxis.range") == [1, 2]
            shown = int(page.inner_text("[data-fact=trials]"))
            row = overview.page.locator("#studies tr.running")
            wait_until(
                overview.page,
                f"Number(document.querySelector('#studies tr.running td:nth-child(3)').textContent) >= {shown}",
            )
            assert row.locator("td").nth(0).inner_text() == "growing"
            # Killed, it beats no more.
            tuner.kill()
            tuner.wait()
            wait_until(page, "document.querySelector('[data-fact=status]').textContent === 'stopped'")
            assert "It has ended: stopped" in page.inner_text("#notice")
            wait_until(overview.page, "!document.querySelector('#studies tr.running')")
            shot(page, "killed")
            # The server goes too: the page says so, and keeps what it shows.
            served.process.send_signal(signal.SIGTERM)
            served.process.wait()
            wait_until(page, "document.getElementById('notice').textContent.includes('does not answer')")
            assert page.locator("#notice").is_visible()
            assert page.locator(".plot .main-svg").count() > 0
            shot(page, "server-gone")
            assert [c for c in watched.complaints if not c.startswith(("failed:", "console: Failed to load"))] == []
        finally:
            tuner.kill()
            tuner.wait()


def test_a_hidden_page_does_not_ask(served: Served, open_page: OpenPage) -> None:
    watched = open_page()
    page = watched.page
    page.clock.install()  # or else the test would wait for as long as the page does
    page.add_init_script(
        "Object.defineProperty(document, 'hidden', { get: () => window.pretendHidden === true, configurable: true })"
    )
    page.goto(f"{served.url}study/small")
    wait_for_figures(page)

    def pretend(hidden: bool) -> None:
        page.evaluate(
            f"window.pretendHidden = {json.dumps(hidden)}; document.dispatchEvent(new Event('visibilitychange'))"
        )

    with page.expect_request("**/data/study*"):
        page.clock.run_for(11_000)
    pretend(True)
    before = len(watched.requests)
    page.clock.run_for(11_000)
    page.wait_for_timeout(300)
    assert len(watched.requests) == before
    with page.expect_request("**/data/study*"):
        pretend(False)


def test_a_study_that_is_deleted_is_said_to_be_gone(place: Path, served: Served, open_page: OpenPage) -> None:
    make_study(place, "short-lived", trials=6)
    page = open_page(f"{served.url}study/short-lived").page
    wait_for_figures(page)
    store = Store(str(place))
    store.delete("short-lived")
    store.close()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    wait_until(page, "document.getElementById('notice').textContent.includes('not in the store')")


def test_optunas_page_shows_the_trials(served: Served, open_page: OpenPage) -> None:
    watched = open_page(f"{served.url}study/small")
    page = watched.page
    page.wait_for_selector("#sections section", timeout=WAIT_MS)
    trials = int(page.inner_text("[data-fact=trials]"))
    page.click("text=The trials in optuna-dashboard")
    page.wait_for_selector("text=Best Trial")
    number = page.url.rsplit("/", 1)[1]
    assert page.url == f"{served.url}dashboard/studies/{number}"
    page.goto(f"{served.url}dashboard/studies/{number}/trials")
    page.wait_for_selector(f"text=Trial {trials - 1}")
    refused = page.evaluate(
        f"fetch('/api/studies/{number}', {{method: 'DELETE'}}).then(async (a) => [a.status, (await a.json()).reason])"
    )
    assert refused[0] == 405
    assert "only shows" in refused[1]
    assert all(url.startswith((served.url, "data:", "blob:")) for url in watched.requests)


def test_the_overview_fits_a_laptop_and_a_phone_scrolls_it_in_its_own_box(open_page: OpenPage, served: Served) -> None:
    """Whatever the names of studies; the page itself is never wider than the window."""
    for size in (DESKTOP, PHONE):
        page = open_page(served.url, size=size).page
        wait_until(page, "document.querySelectorAll('#studies tbody tr').length >= 3")
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
        wide = page.evaluate("(t => t.scrollWidth - t.clientWidth)(document.getElementById('studies').parentElement)")
        assert wide == 0 if size == DESKTOP else wide > 0
