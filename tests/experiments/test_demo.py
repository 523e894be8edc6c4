"""What a newcomer sees first: `make tune`, whose search must win."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_demo_halves_the_memory_of_the_papers_procedure_at_the_same_accuracy_with_a_proof(tmp_path: Path) -> None:
    listed = subprocess.run(
        ["make", "--dry-run", "--always-make", "tune", "BUDGET=2000trials"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (command,) = (line for line in listed.splitlines() if "/tune " in line)
    done = subprocess.run(
        [sys.executable, "-m", "kilotune.experiments", *shlex.split(command)[1:], "--no-output", "--json", "-"],
        cwd=tmp_path,
        env={**os.environ, "KILOTUNE_STORAGE": str(tmp_path / "studies.db")},
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    best, paper = result["best"]["metrics"], result["procedure"]["metrics"]
    assert (paper["memory_bytes"], best["memory_bytes"]) == (4370, 2288)
    assert result["proved"]
    assert best["accuracy_percent"] == paper["accuracy_percent"] == result["float"]["train"]["accuracy_percent"] == 100
    assert best["disagreements"] == paper["disagreements"] == 0
