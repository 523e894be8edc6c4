"""docs/own-space.md, as a reader follows it: the files are written and installed, the commands run."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.documents import blocks
from tests.experiments.plugins import packages
from tests.experiments.plugins.packages import environment, install

pytestmark = pytest.mark.slow

M, N, K, WORDS = 96, 64, 48, 1024


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as pip leaves it behind (which itself would need the network for setuptools)."""
    folder = tmp_path_factory.mktemp("reader")
    space, python, check, draw = blocks("own-space.md", "python")
    written = tomllib.loads(blocks("own-space.md", "toml")[0])
    project = written["project"]
    (module,) = written["tool"]["setuptools"]["py-modules"]
    install(folder, project["name"], module, f"{space}\n\n{draw}", **project["entry-points"]["kilotune.spaces"])
    (folder / "from_python.py").write_text(python)
    (folder / "test_tiles.py").write_text(check)
    return folder


def run(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    if command[0] == "tune":
        done = packages.tune(place, *command[1:])
    else:
        given = {"cwd": place, "env": environment(place)}
        done = subprocess.run(command, **given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done


def tune(place: Path, *arguments: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(
        run(place, "tune", *arguments, "--json", "-", "--quiet", "--no-output", "--no-cache").stdout
    )
    return result


def simulated_words(order: str, tile: Mapping[str, int]) -> int:
    """Runs the loops over tiles, and counts what goes to and from a scratchpad that holds one tile of each operand."""
    size = {"m": M, "n": N, "k": K}
    held: dict[str, tuple[int, ...]] = {}
    moved, begun = 0, set()
    for counters in itertools.product(*(range(size[d] // tile[d]) for d in order)):
        at = dict(zip(order, counters, strict=True))
        for operand in ("mk", "kn", "mn"):
            place = tuple(at[d] for d in operand)
            words = math.prod(tile[d] for d in operand)
            if held.get(operand) == place:
                continue
            held[operand] = place
            if operand != "mn":
                moved += words
            else:  # written when it leaves, which each visit does once; read when it has been begun before
                moved += words + (words if place in begun else 0)
                begun.add(place)
    return moved


def test_the_proved_optimum_is_that_of_brute_force(place: Path) -> None:
    result = tune(place, "--space", "tiles", "--strategy", "exhaustive")
    assert result["proved"]
    assert result["status"] == "finished"

    def divisors(size: int) -> list[int]:
        return [t for t in range(1, size + 1) if size % t == 0]

    def words(order: str, m: int, n: int, k: int) -> float:
        if m * k + k * n + m * n > WORDS:
            return math.inf
        tile, size = {"m": m, "n": n, "k": k}, {"m": M, "n": N, "k": K}
        total = 0
        for operand in ("mk", "kn", "mn"):
            visits = 1
            innermost = max(order.index(d) for d in operand)
            for loop in order[: innermost + 1]:
                visits *= size[loop] // tile[loop]
            words = visits * tile[operand[0]] * tile[operand[1]]
            total += words if operand != "mn" else 2 * words - M * N
        return total

    orders = ["".join(order) for order in itertools.permutations("mnk")]
    candidates = list(itertools.product(orders, divisors(M), divisors(N), divisors(K)))
    assert len(candidates) == 5040 == result["size"]
    best = min(words(*candidate) for candidate in candidates)
    assert result["best"]["metrics"]["words_moved"] == best == result["bound"] == 27648
    assert result["procedure"]["metrics"]["words_moved"] == 43008
    assert result["evaluations"] == 8, "the rule of thumb is the first"


def test_the_cost_is_what_loops_over_tiles_move(place: Path) -> None:
    """The page's formula beside loops that are really run."""
    result = tune(place, "--space", "tiles", "--strategy", "random", "--budget", "12trials", "--study", "some")
    best = result["best"]
    tile = {d: best["assignment"][f"tile_{d}"] for d in "mnk"}
    assert best["metrics"]["words_moved"] == simulated_words(best["assignment"]["order"], tile)
    procedure = result["procedure"]["assignment"]
    assert simulated_words(procedure["order"], {d: procedure[f"tile_{d}"] for d in "mnk"}) == 43008


def test_all_commands_of_the_page_run(place: Path) -> None:
    commands = [line for line in blocks("own-space.md", "sh")[0].splitlines() if line.startswith("tune ")]
    assert len(commands) == 5
    said = {command.split()[1]: run(place, *command.split()) for command in commands}
    listed = next(line for line in said["list"].stdout.splitlines() if line.startswith("tiles"))
    assert "Tiles and loop order of a matrix product" in listed
    assert "tiles-space 0.1" in listed
    assert "exhaustive" in said["compare"].stdout
    assert "27648" in said["compare"].stdout
    page = (place / "out" / "proof.html").read_text()
    assert "Room and traffic" in page
    assert "Every candidate: what it holds and what it moves." in page


def test_python_finds_the_same(place: Path) -> None:
    printed = run(place, sys.executable, "from_python.py").stdout.splitlines()
    assert printed[0].endswith("27648 True")
    assert printed[1] == "43008"


def test_the_check_of_the_page_passes(place: Path) -> None:
    assert "1 passed" in run(place, sys.executable, "-m", "pytest", "-q", "test_tiles.py").stdout


def test_help_names_it(place: Path) -> None:
    assert "tiles-space 0.1" in run(place, "tune", "--help").stdout


def test_the_space_has_as_many_lines_as_the_page_says() -> None:
    """Without docstrings, comments and blank lines; the page says so."""
    lines = [line.strip() for line in blocks("own-space.md", "python")[0].splitlines()]
    assert sum(bool(line) and not line.startswith(('"""', "#")) for line in lines) == 39
