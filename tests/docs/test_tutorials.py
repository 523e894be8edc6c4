"""Every command of the tutorials and how-to pages runs as it stands, one after another as a reader types them."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.evaluators.devices import find_device
from kilotune.experiments.comparison.suite import load_suite
from tests.commands import tune
from tests.documents import DOCS, blocks, printed_by

pytestmark = pytest.mark.slow

PAGES = {
    "index.md": 1,
    "tutorial-model.md": 8,
    "tutorial-buffers.md": 4,
    "tutorial-paper.md": 4,
    "devices.md": 4,
    "imported-models.md": 6,
}
"""How many commands each has."""


def commands_of(page: str) -> list[str]:
    lines = [line for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]
    return [line for line in lines if line.startswith(("tune ", "python "))]


def printed_by_command(command: str, folder: Path) -> str:
    """What a command of a page prints there: `tune` in this process, for its imports take longer than what most pages ask it, with
    the status that the page may demand.
    """
    program, *arguments = shlex.split(command)
    if program == "python":
        return printed_by(folder / arguments[0], folder)
    demanded = re.search(r" \|\| test \$\? = (\d)$", command)
    variables = {**os.environ, "KILOTUNE_STORAGE": str(folder / "studies.db"), "COLUMNS": "160"}
    done = tune(folder, variables, *(arguments[: arguments.index("||")] if demanded else arguments))
    assert done.returncode == (int(demanded[1]) if demanded else 0), done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    commands = commands_of(page)
    assert len(commands) == PAGES[page]
    for name, content in re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S):
        (tmp_path / name).write_text(content)
    printed = "".join(printed_by_command(command, tmp_path) for command in commands)
    made = {path.name for path in tmp_path.iterdir()}
    if page == "tutorial-model.md":
        assert {"first-program", "first-sketch", "first.html", "first.json"} <= made
        assert json.loads((tmp_path / "first.json").read_text())["evaluations"] >= 40
        assert (tmp_path / "first-program" / "model.c").exists()
    if page == "tutorial-buffers.md":
        assert "Bound" in printed
        assert "fits" in printed
        assert "does not fit" in printed
        assert (tmp_path / "placed" / "placement.csv").exists()
    if page == "imported-models.md":
        assert (tmp_path / "wine_sketch" / "wine_sketch.ino").exists()
        assert (tmp_path / "digits_sketch" / "digits_sketch.ino").exists()
    if page == "tutorial-paper.md":
        assert {"mine.json", "mine.csv", "mine.md", "mine.html", "tables"} <= made


def test_the_files_of_the_formats_page_are_read(tmp_path: Path) -> None:
    hardware, device = blocks("file-formats.md", "json")
    for name, text in (("hardware.json", hardware), ("device.json", device)):
        (tmp_path / name).write_text(text)
    assert load_hardware(str(tmp_path / "hardware.json")).cores == 6
    assert find_device(str(tmp_path / "device.json")).ram_bytes == 2048
    (suite,) = blocks("file-formats.md", "toml")
    (tmp_path / "suite.toml").write_text(suite)
    assert [case.title for case in load_suite(str(tmp_path / "suite.toml"))] == ["default"]


def test_every_page_of_the_site_is_in_its_navigation() -> None:
    listed = set(re.findall(r"[\w-]+\.md", (DOCS.parent / "mkdocs.yml").read_text()))
    assert listed == {page.name for page in DOCS.glob("*.md")}


def test_the_glossary_is_in_order() -> None:
    subjects = (DOCS / "glossary.md").read_text().split("\n## ")[1:]
    words = [re.findall(r"^\| \*\*(.+?)\*\*", subject, re.M) for subject in subjects]
    assert words == [sorted(found, key=str.lower) for found in words]
    every = [word for found in words for word in found]
    assert len(every) == len(set(every)) > 60
