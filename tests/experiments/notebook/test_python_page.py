"""docs/python.md: its blocks, one after another as in a notebook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import blocks

pytestmark = pytest.mark.slow


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    page = blocks("python.md", "python")
    assert len(page) == 7
    (tmp_path / "page.py").write_text("\n".join(page))
    variables = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    variables.pop("KILOTUNE_STORAGE", None)
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "paper's procedure" in done.stdout
    assert "How the search went Figure" in done.stdout
    assert "\n300\n" in done.stdout  # 200 trials, then 100
    assert (tmp_path / "shiftry.html").stat().st_size > 1e6
    assert (tmp_path / "shiftry-program" / "model.c").exists()
    assert (tmp_path / "studies.db").exists()
    assert not (tmp_path / "data").exists()
