"""A real headless Chromium for tests of pages. `open_page` is a fixture everywhere. One worker runs all tests that use it, none
of them quick.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = "/usr/bin/chromium"
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
DESKTOP, PHONE = (1280, 900), (390, 844)


@dataclass
class WatchedPage:
    """A page, and what went on while it was open. `complaints`: console errors, uncaught exceptions, failed requests."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def goto(self, address: str | Path) -> None:
        """Load a URL, or a file by its path."""
        self.page.goto(address.absolute().as_uri() if isinstance(address, Path) else address)

    def external_requests(self) -> list[str]:
        """What went over the network."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:", "about:"))]


OpenPage = Callable[..., WatchedPage]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "open_page" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests. Skips where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[test]'")
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"{CHROMIUM} is not there: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Call it with a URL, a path, or nothing: `open_page(path, size=PHONE, dark=True)`. Pages close with the test."""
    contexts = []

    def opened(
        address: str | Path | None = None, *, size: tuple[int, int] = DESKTOP, dark: bool = False
    ) -> WatchedPage:
        options: dict[str, Any] = {"viewport": {"width": size[0], "height": size[1]}}
        if size == PHONE:
            options |= {"has_touch": True, "is_mobile": True, "device_scale_factor": 2}
        context = browser.new_context(color_scheme="dark" if dark else "light", accept_downloads=True, **options)
        contexts.append(context)
        watched = WatchedPage(context.new_page())
        _watch(watched)
        if address is not None:
            watched.goto(address)
        return watched

    yield opened
    for context in contexts:
        context.close()


def _watch(watched: WatchedPage) -> None:
    page = watched.page

    def dismiss(dialog: Any) -> None:
        watched.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("console", lambda m: watched.complaints.append(f"console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda error: watched.complaints.append(f"uncaught: {error}"))
    page.on("requestfailed", lambda request: watched.complaints.append(f"failed: {request.url}"))
    page.on("request", lambda request: watched.requests.append(request.url))
    page.on("dialog", dismiss)
