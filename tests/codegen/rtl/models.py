"""Bundled models as candidates: every variable of the same width, at the largest scale that its training values allow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.fixed.arithmetic import get_scale
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.profile import profile

MODELS = Path(__file__).parents[3] / "experiments" / "models"


def candidate(name: str, bits: int = 16) -> tuple[Bundle, FixedBatch]:
    """A bundled model and its candidate."""
    bundle = load_bundle(MODELS / name)
    features = bundle.train.features[:100] if bundle.train else np.zeros((1, 0))
    seen, _ = profile(bundle.program, bundle.parameters, features)
    scales = np.array([[get_scale(seen.magnitude(v.name), bits) for v in bundle.program.variables]])
    largest = {row: float(values.max()) for row, values in seen.exponents.items()}
    return bundle, ShiftryLowering(bundle.program, largest).lower(np.full_like(scales, bits), scales)
