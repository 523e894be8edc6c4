"""docs/python.md: its blocks, one after another as in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documents import blocks, printed_by

pytestmark = pytest.mark.slow


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    page = blocks("python.md", "python")
    assert len(page) == 7
    (tmp_path / "page.py").write_text("\n".join(page))
    printed = printed_by(tmp_path / "page.py", tmp_path)
    assert "paper's procedure" in printed
    assert "How the search went Figure" in printed
    assert "\n300\n" in printed  # 200 trials, then 100
    assert (tmp_path / "shiftry.html").stat().st_size > 1e6
    assert (tmp_path / "shiftry-program" / "model.c").exists()
    assert (tmp_path / "studies.db").exists()
    assert not (tmp_path / "data").exists()
