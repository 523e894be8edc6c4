"""axe-core in a page: what it says is wrong. `axe` is a fixture; without npm tests that use it are skipped."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).parent / "axe"
FOR_PEOPLE = frozenset({"color-contrast"})
"""What axe-core leaves to people: text over a bar or a line of a figure has several backgrounds."""

Check = Callable[["Page"], None]


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Check:
    """A function that asserts that a page as it is now violates no rule."""
    if shutil.which("npm") is None:
        pytest.skip("no npm, which fetches axe-core: install npm")
    folder = tmp_path_factory.mktemp("axe")
    shutil.copy(HERE / "package.json", folder)
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot install axe-core here: {done.stderr.strip()[-200:]}")
    source = (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")

    def check(page: Page) -> None:
        page.evaluate(source)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations', 'incomplete']})")
        assert [_words(rule) for rule in found["violations"]] == []
        assert [_words(rule) for rule in found["incomplete"] if rule["id"] not in FOR_PEOPLE] == []

    return check


def _words(rule: dict[str, Any]) -> str:
    return f"{rule['id']}, {rule['help']}: " + "; ".join(node["html"][:200] for node in rule["nodes"][:3])
