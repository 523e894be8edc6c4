"""kill -9 at every moment of an export: the next one loses nothing of the user's, and is not stuck."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_at_every_call_of_the_system(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.experiments.artefacts.killing", str(tmp_path)]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    first, again = map(int, done.stdout.split())
    assert min(first, again) > 20
