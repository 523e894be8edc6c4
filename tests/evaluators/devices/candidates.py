"""Candidates of the bundled models, lowered, emitted and simulated, for comparison with devices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.fixed.arithmetic import get_scale
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.profile import profile
from kilotune.evaluators.fixed_point.simulator import Simulator

MODELS = Path(__file__).parents[3] / "experiments" / "models"
BUNDLES = tuple(sorted(path.parent.name for path in MODELS.glob("*/model.sd")))
ON_AN_UNO = tuple(name for name in BUNDLES if name != "lenet-mnist")
"""Those that fit its RAM whatever the formats, and in floats; the images of 28 x 28 pixels do a row at a time."""


@dataclass(frozen=True)
class Candidate:
    """A lowered program with float samples [samples, features] and what the batch simulator computes on them."""

    batch: FixedBatch
    parameters: dict[str, FloatArray]
    features: FloatArray
    source: CSource
    expected: IntArray


def bundled(name: str, samples: int = 40, seed: int | None = None) -> Candidate:
    """16 bits for everything, or with a seed 8 bits for about half of the variables."""
    bundle = load_bundle(MODELS / name)
    features = bundle.train.features[:samples] if bundle.train else np.zeros((1, 0))
    program = bundle.program
    seen, _ = profile(program, bundle.parameters, features)
    widths = np.full((1, len(program.variables)), 16)
    if seed is not None:
        widths = np.random.default_rng(seed).choice([8, 16], widths.shape)
    scales = [[get_scale(seen.magnitude(v.name), int(b)) for v, b in zip(program.variables, widths[0], strict=True)]]
    largest = {row: float(values.max()) for row, values in seen.exponents.items()}
    batch = ShiftryLowering(program, largest).lower(widths, np.array(scales))
    expected = Simulator(program, bundle.parameters, features).run(batch)[0]
    parameters = dict(bundle.parameters)
    return Candidate(batch, parameters, features, emit_c(batch, parameters), expected)
