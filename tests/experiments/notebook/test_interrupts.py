"""Ctrl-C, by a real signal to a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from kilotune.experiments.notebook.tuning import tune
from tests.experiments.notebook.spaces import Mixed

def watch(progress):
    print("at", progress.trials, flush=True)

if __name__ == "__main__":
    study = tune(Mixed(sleep_s={sleep_s}), strategy="random", budget="60s", progress=watch, {more})
    print("status", study.status.value, len(study.trials), len(study.to_dataframe()), study.best is not None, flush=True)
    study.resume("5trials")
    print("then", study.status.value, len(study.trials), flush=True)
"""


def start(sleep_s: float, more: str, folder: Path) -> subprocess.Popen[str]:
    script = folder / "search.py"
    script.write_text(SCRIPT.format(sleep_s=sleep_s, more=more))
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal sends Ctrl-C to the whole group, workers among them
    )


def read_until(running: subprocess.Popen[str], word: str) -> list[str]:
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith(word):
            return line.split()
    running.kill()
    raise AssertionError(f"no {word!r}; {running.communicate()[1]}")


def interrupted(sleep_s: float, more: str, folder: Path) -> tuple[int, int]:
    """How many trials were there at the interrupt, and how many the study holds."""
    running = start(sleep_s, more, folder)
    seen = int(read_until(running, "at")[1])
    os.killpg(running.pid, signal.SIGINT)
    _, *status, trials, rows, has_best = read_until(running, "status")
    assert status == ["interrupted"]
    assert trials == rows
    assert has_best == "True"
    *_, then = read_until(running, "then")
    assert int(then) == int(trials) + 5
    assert running.wait(30) == 0
    return seen, int(trials)


def test_the_first_one_returns_what_was_found(tmp_path: Path) -> None:
    seen, kept = interrupted(0.15, "", tmp_path)
    assert seen >= 1
    assert seen <= kept < 40


def test_with_workers_too(tmp_path: Path) -> None:
    seen, kept = interrupted(0.3, "jobs=2", tmp_path)
    assert seen >= 1
    assert seen <= kept < 40


def test_the_second_one_raises(tmp_path: Path) -> None:
    """The evaluation that is running can't be abandoned, takes half a minute, and the user does not want to wait."""
    running = start(0.0, "", tmp_path)
    running.kill()
    running.communicate()
    (tmp_path / "search.py").write_text(
        SCRIPT.format(sleep_s=0.0, more="")
        .replace(
            "if __name__",
            "class Endless(Mixed):\n"
            "    def evaluate(self, batch):\n"
            "        import time\n"
            "        from kilotune.search.abandoning import uninterrupted\n"
            "        with uninterrupted():\n"
            "            print('begun', flush=True)\n"
            "            time.sleep(30)\n\n"
            "if __name__",
        )
        .replace("Mixed(sleep_s=0.0)", "Endless()")
    )
    running = subprocess.Popen(
        [sys.executable, "search.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    read_until(running, "begun")
    os.killpg(running.pid, signal.SIGINT)
    assert running.poll() is None
    try:
        running.wait(1)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGINT)
    said = running.communicate(timeout=20)[1]
    assert running.returncode != 0
    assert "KeyboardInterrupt" in said
