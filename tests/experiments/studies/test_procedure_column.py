"""The paper's answer stands beside the best, also where a search ends before the procedure has taken its last step."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.problem import resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.procedure import run_procedure
from tests.commands import tune

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("strategy", ["exhaustive", "greedy"])
def test_a_space_that_is_exhausted_before_the_procedures_last_step(strategy: str, tmp_path: Path) -> None:
    """SeeDot's procedure measures every maxscale, which is the whole space, and then names one of them."""
    asked = ("--space", "seedot", "--input", "mlp-diabetes", "--strategy", strategy, "--budget", "60s")
    done = tune(tmp_path, dict(os.environ), *asked, "--no-output", "--storage", "s.db", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    space = build_problem(TuneRequest("seedot", str(resolve_input("mlp-diabetes")), strategy)).space
    expected = run_procedure(space, space.evaluate)
    assert expected is not None
    assert result["procedure"]["metrics"] == pytest.approx(dict(expected.measurement.metrics))
    assert "did not end" not in done.stderr
