"""Divisions that compact code calls a function for are counted as calls exactly where the emitted C has that function."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.arithmetic import Rounding, get_scale
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.profile import profile
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.cost_features import FEATURES
from tests.spaces.small_network import small_network

COMPACT = SHAPES["compact"]


@pytest.mark.parametrize("rounding", list(Rounding))
def test_calls_are_counted_where_there_are_functions(rounding: Rounding) -> None:
    task = small_network()
    program = task.program
    seen, _ = profile(program, task.parameters, task.features)
    largest = {row: float(values.max()) for row, values in seen.exponents.items()}
    lowering, features = ShiftryLowering(program, largest, rounding), CostFeatures(program, task.parameters, COMPACT)
    random = np.random.default_rng(0)
    met = set()
    for _ in range(12):
        widths = random.choice([8, 16], len(program.variables))
        scales = [
            get_scale(seen.magnitude(v.name), int(bits)) - int(random.integers(2))
            for v, bits in zip(program.variables, widths, strict=True)
        ]
        batch = lowering.lower([widths], [scales])
        emitted = emit_c(batch, task.parameters, shape=COMPACT).source
        counted = features.terms(batch).matrix()[0]
        for bits in (16, 32):
            has = re.search(rf"kt_down{bits}\(int", emitted) is not None
            prefix = f"called.{rounding.value}.{bits}."
            assert has == any(counted[n] for n, name in enumerate(FEATURES) if name.startswith(prefix)), (bits, widths)
            met.add((bits, has))
    assert len(met) > 2


def test_other_shapes_call_none() -> None:
    task = small_network()
    count = len(task.program.variables)
    batch = ShiftryLowering(task.program, {}).lower([[16] * count], [[8] * count])
    counted = CostFeatures(task.program, task.parameters).terms(batch).matrix()[0]
    assert not any(counted[n] for n, name in enumerate(FEATURES) if name.startswith("called."))
