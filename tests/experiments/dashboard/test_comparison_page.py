"""A comparison's page in a real browser, on a desk and on a phone, for everybody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kilotune.search.comparison_store import comparisons
from kilotune.search.store import Store
from tests.browser import PHONE, OpenPage
from tests.commands import tune
from tests.experiments.dashboard.serving import serving
from tests.experiments.report.accessibility import Check, axe
from tests.experiments.report.test_in_chromium import draw_all

__all__ = ["axe"]  # a fixture

pytestmark = pytest.mark.slow

SHOTS = os.environ.get("KILOTUNE_SCREENSHOTS")


def test_sections_and_runs_are_shown(tmp_path: Path, open_page: OpenPage, axe: Check) -> None:
    place = tmp_path / "studies.db"
    what = ("--space", "reverse-split", "--strategies", "random,local", "--repeats", "2", "--budget", "20trials")
    assert tune(tmp_path, os.environ, "compare", *what, "--jobs", "1", "--storage", str(place)).returncode == 0
    (comparison,) = comparisons(Store(str(place)))
    with serving(place) as served:
        watched = open_page(served.url)
        page = watched.page
        page.wait_for_selector("#comparisons tbody tr")
        assert page.locator("#studies").is_hidden()  # no study stands alone
        page.click(f"text={comparison.name}")
        page.wait_for_selector("#sections .plot", timeout=30_000)
        page.locator("#sections .plot").first.scroll_into_view_if_needed()
        page.wait_for_selector("#sections .plot .main-svg", state="attached", timeout=10_000)
        assert page.inner_text("[data-fact=begun]") == "4 of 4"
        page.wait_for_selector("#studies tbody tr")
        assert page.locator("#studies tbody tr").count() == 4
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/comparison.png", full_page=True)
        draw_all(watched)
        axe(page)
        assert watched.complaints == []
        phone = open_page(page.url, size=PHONE, dark=True)
        phone.page.wait_for_selector("#studies tbody tr")
        phone.page.locator("#sections[aria-busy=false]").wait_for(timeout=30_000)
        draw_all(phone)
        axe(phone.page)
        assert phone.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
