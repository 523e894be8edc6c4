"""docs/own-strategy.md, as a reader follows it: the files are written and installed, the commands run."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.documents import blocks
from tests.experiments.plugins import packages
from tests.experiments.plugins.packages import environment, install

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip leaves it behind."""
    folder = tmp_path_factory.mktemp("reader")
    strategy, check = blocks("own-strategy.md", "python")
    written = tomllib.loads(blocks("own-strategy.md", "toml")[0])
    project = written["project"]
    (module,) = written["tool"]["setuptools"]["py-modules"]
    ((group, points),) = project["entry-points"].items()
    install(folder, project["name"], module, strategy, group, **points)
    (folder / "test_evolution.py").write_text(check)
    return folder


def run(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    if command[0] == "tune":
        done = packages.tune(place, *command[1:])
    else:
        given = {"cwd": place, "env": environment(place)}
        done = subprocess.run(command, **given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_all_commands_of_the_page_run(place: Path) -> None:
    commands = [line for line in blocks("own-strategy.md", "sh")[0].splitlines() if line.startswith("tune ")]
    assert len(commands) == 3
    said = {command.split()[1]: run(place, *command.split()) for command in commands}
    listed = next(line for line in said["list"].stdout.splitlines() if line.startswith("evolution"))
    assert "A (1 + 8) evolution strategy over independent decisions." in listed
    assert "evolution-strategy 0.1" in listed
    assert "evolution" in said["compare"].stdout
    studies = json.loads(run(place, "tune", "list", "studies", "--json").stdout)
    assert [(s["name"], s["strategy"]) for s in studies] == [("evolved", "evolution")]


def test_it_proves_by_measuring_everything(place: Path) -> None:
    result = json.loads(
        run(
            place,
            *("tune", "--space", "shiftry", "--input", "worked-example", "--strategy", "evolution"),
            *("--budget", "40trials", "--quiet", "--no-output", "--no-cache", "--json", "-", "--stop", "never"),
        ).stdout
    )
    assert result["evaluations"] == 40
    assert result["strategy"] == "evolution"


def test_the_check_of_the_page_passes(place: Path) -> None:
    assert "1 passed" in run(place, sys.executable, "-m", "pytest", "-q", "test_evolution.py").stdout


def test_the_strategy_has_as_many_lines_as_the_page_says() -> None:
    """Without docstrings, comments and blank lines."""
    lines = [line.strip() for line in blocks("own-strategy.md", "python")[0].splitlines()]
    assert sum(bool(line) and not line.startswith(('"""', "#")) for line in lines) == 34
