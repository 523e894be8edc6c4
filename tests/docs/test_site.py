"""`make docs`: the site builds without a warning, shows the API, and loads nothing from the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import OpenPage

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//|@import[^;]*//|url\([\"']?(?:https?:)?//"
)
STYLES = re.compile(r"<link\b[^>]*rel=[\"']?(?:stylesheet|preload|preconnect|icon)[^>]*href=[\"']?(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    package = ROOT / "build" / "whole" / "kilotune"
    package.mkdir(parents=True, exist_ok=True)
    parts = [*(ROOT / floor for floor in ("search", "codegen", "evaluators", "spaces", "experiments"))]
    parts += [ROOT / "public" / name for name in ("__init__.py", "drawing.py", "testing")]
    for part in parts:
        if not (package / part.name).exists():
            (package / part.name).symlink_to(part)
    command = [str(Path(sys.executable).parent / "mkdocs"), "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_api_is_on_it(site: Path) -> None:
    page = (site / "api.html").read_text()
    for name in ("kilotune.tune", "kilotune.load_study", "kilotune.Space", "kilotune.testing.check_space"):
        assert f'id="{name}"' in page
    assert "Return a stored study as" in page


def test_nothing_of_it_is_loaded_from_the_network(site: Path) -> None:
    for file in [*site.rglob("*.html"), *site.rglob("*.css")]:
        if file.name != "five-spaces-report.html":
            text = file.read_text()
            assert not LOADED.search(text), file
            assert not STYLES.search(text), file


def test_pages_load_in_a_browser_without_a_request_or_a_complaint(site: Path, open_page: OpenPage) -> None:
    page = open_page()
    for name in ("index.html", "api.html", "tutorial-model.html"):
        page.goto(site / name)
        assert page.page.locator("h1").count() == 1
    assert page.external_requests() == []
