"""The compiled placement is the definition's: every offset, the peak, the bound, for random programs and widths."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.interference import find_interference
from kilotune.codegen.placement import Placer
from kilotune.evaluators.fixed_point.first_fit import compiled_first_fit
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models

MODELS = Path(__file__).parents[3] / "experiments" / "models"


def assert_same_placements(placer: Placer, seed: int, count: int) -> int:
    random = np.random.default_rng(seed)
    names = [v.name for v in placer.interference.program.variables]
    many = [dict(zip(names, random.choice([8, 16, 32], len(names)).tolist(), strict=True)) for _ in range(count)]
    expected = placer.place_each(many)
    assert compiled_first_fit(placer)(many) == expected
    assert pickle.loads(pickle.dumps(compiled_first_fit(placer)))(many) == expected
    return sum(placed.peak_bytes > placed.bound_bytes for placed in expected)


@needs_compiler
@given(model=random_models(), seed=st.integers(0, 2**32 - 1), in_place=st.booleans())
@settings(max_examples=100, suppress_health_check=list(HealthCheck), database=None, deadline=None)
def test_random_programs(model: RandomModel, seed: int, in_place: bool) -> None:
    assert_same_placements(Placer(find_interference(model.program, in_place)), seed, 3)


@needs_compiler
@pytest.mark.parametrize("in_place", [True, False])
def test_a_program_whose_placements_need_repairs(in_place: bool) -> None:
    """Random moves are drawn as Python draws them."""
    program = load_bundle(MODELS / "fastgrnn16-digits").program
    repaired = assert_same_placements(Placer(find_interference(program, in_place)), 1, 20)
    assert repaired or not in_place
