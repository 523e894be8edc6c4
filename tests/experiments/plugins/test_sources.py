"""A measurement of yesterday's code of somebody else's space is not used today."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SPACE = """
import time
from dataclasses import dataclass

from kilotune.search.flat_state import FlatState
from kilotune.search.space import Decision, Measurement, Objective


@dataclass(frozen=True)
class Slow:
    name = "slow"
    objectives = (Objective("value"),)
    constraints = ()
    fingerprint = "always the same"
    decisions = (Decision("x", (1, 2)),)

    def start(self):
        return FlatState(self.decisions, -100.0)

    def evaluate(self, batch):
        time.sleep(0.01 * len(batch))
        print("measured", len(batch))
        return [Measurement({"value": FACTOR * c["x"]}) for c in batch]
"""
SEARCH = """
from kilotune.experiments.notebook.tuning import tune
from slow_space import Slow
print("best", tune(Slow(), strategy="random", budget="2trials", cache=True).best.metrics["value"])
"""


def printed(folder: Path, factor: int) -> str:
    (folder / "slow_space.py").write_text(SPACE.replace("FACTOR", str(factor)))
    variables = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", SEARCH],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def test_a_change_of_the_module_is_a_change_of_the_key(tmp_path: Path) -> None:
    assert "measured" in printed(tmp_path, 3)
    again = printed(tmp_path, 3)
    assert "measured" not in again
    assert "best 3" in again
    changed = printed(tmp_path, 5)
    assert "measured" in changed
    assert "best 5" in changed
