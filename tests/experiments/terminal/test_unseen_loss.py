"""A program of numbers that keeps its permitted loss on the training data alone says so."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.commands import tune


@pytest.mark.parametrize(("permitted", "told"), [("0.00042", True), ("0.0006", False)])
def test_a_loss_on_test_data_that_was_not_permitted_is_told(permitted: str, told: bool, tmp_path: Path) -> None:
    asked = ("--space", "shiftry", "--input", "mlp-diabetes", "--loss", permitted, "--budget", "3trials")
    done = tune(tmp_path, dict(os.environ), *asked, "--no-output", "--storage", "s.db", "--json", "-")
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["best"]
    assert best["metrics"]["precision_loss"] < float(permitted)
    assert (best["test_metrics"]["precision_loss"] > float(permitted)) == told
    assert (f"where {permitted} was permitted" in done.stderr) == told
