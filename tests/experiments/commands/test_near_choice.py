"""A mistyped name among a few is told the nearest one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kilotune.experiments.commands.exit_status import ExitStatus
from tests.commands import tune


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (("list", "spacs"), "spaces"),
        (("report", "study", "--format", "pgn"), "png"),
        (("export", "study", "--target", "ardiuno"), "arduino"),
    ],
)
def test_the_nearest_name_is_said(words: tuple[str, ...], nearest: str, tmp_path: Path) -> None:
    done = tune(tmp_path, dict(os.environ), *words)
    assert done.returncode == ExitStatus.BAD_INPUT
    assert done.stderr.rstrip().endswith(f"(did you mean {nearest!r}?).")


def test_nothing_is_guessed_where_nothing_is_near(tmp_path: Path) -> None:
    done = tune(tmp_path, dict(os.environ), "list", "quaternions")
    assert done.returncode == ExitStatus.BAD_INPUT
    assert "did you mean" not in done.stderr
