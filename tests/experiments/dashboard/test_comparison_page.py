"""A comparison's page in a real browser."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kilotune.search.comparison_store import comparisons
from kilotune.search.store import Store
from tests.browser import OpenPage
from tests.experiments.dashboard.serving import TUNE, serving

pytestmark = pytest.mark.slow

SHOTS = os.environ.get("KILOTUNE_SCREENSHOTS")


def test_sections_and_runs_are_shown(tmp_path: Path, open_page: OpenPage) -> None:
    place = tmp_path / "studies.db"
    what = ("--space", "reverse-split", "--strategies", "random,local", "--repeats", "2", "--budget", "20trials")
    subprocess.run([*TUNE, "compare", *what, "--storage", str(place)], check=True, capture_output=True, cwd=tmp_path)
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
        assert watched.complaints == []
