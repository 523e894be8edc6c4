"""The fixture itself: a page that misbehaves is caught."""

from __future__ import annotations

from pathlib import Path

from tests.browser import PHONE, OpenPage


def test_a_page_that_misbehaves_is_caught(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        "<!doctype html><script>console.error('one'); alert('two')</script><script>throw new Error('three')</script>"
        "<img src='http://127.0.0.1:9/four.png'>"
    )
    watched = open_page(path)
    watched.page.wait_for_load_state("load")
    assert watched.dialogs == ["two"]
    assert watched.external_requests() == ["http://127.0.0.1:9/four.png"]
    for part in ("one", "three", "four.png"):
        assert any(part in complaint for complaint in watched.complaints), watched.complaints


def test_theme_and_width_are_as_asked(open_page: OpenPage) -> None:
    dark = open_page("about:blank", dark=True, size=PHONE).page
    light = open_page("about:blank").page
    is_dark = "matchMedia('(prefers-color-scheme: dark)').matches"
    assert [dark.evaluate(is_dark), light.evaluate(is_dark)] == [True, False]
    assert [dark.evaluate("screen.width"), light.evaluate("innerWidth")] == [390, 1280]
