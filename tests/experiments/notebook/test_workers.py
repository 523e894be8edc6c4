"""Worker processes where scripts and notebooks get them wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SPACE = """
from kilotune.experiments.notebook.tuning import tune
from tests.experiments.notebook.spaces import Mixed

class Mine(Mixed):
    pass

"""
LARGE = """
import dataclasses

@dataclasses.dataclass(frozen=True)
class Mine(Mine):
    table: bytes = bytes(200_000)

"""
"""More than a pipe holds, so whoever starts a process that dies early must not wait until it has read that."""
GUARDED = """
if __name__ == "__main__":
    print("found", tune(Mine(), strategy="random", budget="6trials", jobs=2).best.metrics["cost"])
"""
UNGUARDED = """
print("begun")
print("found", tune(Mine(), strategy="random", budget="6trials", {more}).best.metrics["cost"])
"""


def run(folder: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_space_of_a_guarded_script_goes_to_workers(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SPACE + GUARDED)
    done = run(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    assert "found" in done.stdout


@pytest.mark.parametrize(("space", "more"), [(SPACE, "jobs=2"), (SPACE, "time_limit='10s'"), (SPACE + LARGE, "jobs=2")])
def test_an_unguarded_script_is_told_to_guard_itself(tmp_path: Path, space: str, more: str) -> None:
    (tmp_path / "script.py").write_text(space + UNGUARDED.format(more=more))
    done = run(tmp_path, "script.py")
    assert done.returncode == 1
    *_, sentence = done.stderr.strip().splitlines()
    assert sentence.startswith("ValueError: A worker process ended before it could measure anything (exit status 1")
    assert "if __name__ == '__main__':" in sentence
    assert "begins a search as it is imported" in done.stderr
    assert done.stdout.count("begun") == 2  # by itself, and by the one worker that was tried


def test_an_unguarded_script_needs_no_guard_for_one_job(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SPACE + UNGUARDED.format(more="jobs=1"))
    assert run(tmp_path, "script.py").returncode == 0


@pytest.mark.parametrize("how", ["prompt", "pipe"])
def test_a_space_that_was_typed_is_told_to_move_into_a_module(tmp_path: Path, how: str) -> None:
    code = SPACE + UNGUARDED.format(more="jobs=2")
    done = run(tmp_path, "-c", code) if how == "prompt" else run(tmp_path, "-", text=code)
    assert done.returncode == 1
    *_, sentence = done.stderr.strip().splitlines()
    assert sentence.startswith("ValueError: Mine is defined in a notebook or at the prompt")
    assert "put it into a module" in sentence


def test_kilotunes_spaces_go_to_workers_from_the_prompt(tmp_path: Path) -> None:
    code = (
        "from kilotune.experiments.notebook.tuning import tune\n"
        "print('found', tune('memory', strategy='random', budget='6trials', jobs=2).best.number)\n"
    )
    done = run(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "found" in done.stdout


def test_a_space_that_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    local = "def made():\n    class Inner(Mixed):\n        pass\n    return Inner()\n\nMine = made\n"
    (tmp_path / "script.py").write_text(SPACE + local + GUARDED)
    done = run(tmp_path, "script.py")
    assert done.returncode == 1
    *_, sentence = done.stderr.strip().splitlines()
    assert sentence.startswith("ValueError: The space mixed cannot be sent to worker processes")
    assert "give it a class at the top of a module" in sentence
