"""The README's picture: one section of a report down to its first figure, in Debian's Chromium. `make picture` calls it.

python docs/report_picture.py REPORT.html PICTURE.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
SIZE = {"width": 1000, "height": 1600}
SECTION = "Demotion, variable by variable"
MARGIN = 16


def main(report: str, picture: str) -> None:
    """Write the picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE)
        page.goto(Path(report).absolute().as_uri())
        section = page.locator("section", has=page.get_by_role("heading", name=SECTION))
        section.locator(".main-svg").first.wait_for()
        heading, figure = section.bounding_box(), section.locator("figure").first.bounding_box()
        if heading is None or figure is None:
            sys.exit(f"{report}: expected a section {SECTION!r} with a figure, found none that is shown.")
        page.screenshot(
            path=picture,
            full_page=True,
            clip={
                "x": heading["x"] - MARGIN,
                "y": heading["y"] + MARGIN // 2,
                "width": heading["width"] + 2 * MARGIN,
                "height": figure["y"] + figure["height"] - heading["y"] + MARGIN // 2,
            },
        )
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
