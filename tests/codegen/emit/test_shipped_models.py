"""Every bundled model: the emitted C computes what the simulator does on its data, and takes the bytes it said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.arithmetic import get_scale
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.profile import profile
from kilotune.evaluators.fixed_point.simulator import Simulator
from tests.codegen.emit.compiled import compile_sources, needs_compiler

pytestmark = pytest.mark.slow

MODELS = Path(__file__).parents[3] / "experiments" / "models"
BUNDLES = sorted(path.parent.name for path in MODELS.glob("*/model.sd"))


@needs_compiler
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("name", BUNDLES)
def test_emitted_model_is_the_simulated_one(name: str, bits: int, tmp_path: Path) -> None:
    bundle = load_bundle(MODELS / name)
    features = bundle.train.features[:100] if bundle.train else np.zeros((1, 0))
    seen, _ = profile(bundle.program, bundle.parameters, features)
    widths = np.full((1, len(bundle.program.variables)), bits)
    scales = np.array([[get_scale(seen.magnitude(v.name), bits) for v in bundle.program.variables]])
    largest = {row: float(values.max()) for row, values in seen.exponents.items()}
    batch = ShiftryLowering(bundle.program, largest).lower(widths, scales)
    source = emit_c(batch, bundle.parameters)
    expected = Simulator(bundle.program, bundle.parameters, features).run(batch)[0]
    compiled = compile_sources([source], tmp_path, ("-O2",))
    np.testing.assert_array_equal(compiled.run(0, features), expected)
    footprint = Footprint(bundle.program, bundle.parameters)
    held = batch.bits.astype(np.int64)
    assert source.flash_bytes == int(footprint.flash_bytes(held, footprint.table_bytes(batch))[0])
    bound = int(footprint.ram_bytes(held)[0])
    assert bound == source.variable_bytes <= source.ram_bytes <= 1.1 * bound + source.scratch_bytes
