"""Flash and RAM that the search reports are those of the C that it writes."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.experiments.models.catalogue import model_names
from kilotune.experiments.problems.fixed_point.export import emit_program
from kilotune.experiments.problems.fixed_point.problem import build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.candidates import random_candidate


@pytest.mark.parametrize("space", ["shiftry", "seedot"])
@pytest.mark.parametrize("model", model_names())
def test_bytes(model: str, space: str) -> None:
    problem = build_problem(TuneRequest(space, str(resolve_input(model)), "random"))
    rng = np.random.default_rng(0)
    candidates = [random_candidate(problem.space, rng) for _ in range(6)]
    for candidate, measured in zip(candidates, problem.space.evaluate(candidates), strict=True):
        source = emit_program(problem, problem.lower(candidate))
        assert measured.metrics["flash_bytes"] == source.flash_bytes
        assert source.ram_bytes <= measured.metrics["ram_bytes"]
        if space == "shiftry":
            assert source.ram_bytes == measured.metrics["ram_bytes"]
