"""What programs on a file's own integers are held by, on simulated Cortex-M (whole programs: `codegen/emit/test_requantising.py`)."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.requantising import HELD
from kilotune.evaluators.architectures.cortex.run import CortexTarget
from kilotune.evaluators.simulated import Artefact
from tests.evaluators.devices.toolchains import needs_cortex

pytestmark = [needs_cortex, pytest.mark.slow]
EDGES = (-(1 << 31), -129, -128, -127, -7, 0, 3, 9, 50, 126, 127, 128, (1 << 31) - 1)


@pytest.mark.parametrize("processor", ["cortex-m0plus", "cortex-m4"])
@pytest.mark.parametrize("level", ["-O0", "-Os"])
def test_results_are_held_within_any_bounds(processor: str, level: str) -> None:
    """At both ends of 8 bits, at one, at none: by an instruction where the processor has one."""
    bounds = [(-128, 127), (-128, 50), (3, 127), (-7, 9)]
    calls = "\n".join(f"*result++ = kt_held(({v}), ({low}), ({high}));" for low, high in bounds for v in _c(EDGES))
    source = (
        f'#include "held.h"\n#define KT_INLINE static inline\n{HELD}\nvoid predict(int8_t *result)\n{{\n{calls}\n}}\n'
    )
    header = "#include <stdint.h>\nvoid predict(int8_t *result);\n"
    kind, count = np.dtype("<i1"), len(bounds) * len(EDGES)
    artefact = Artefact("held", header, source, "predict", ir.ResultKind.REAL, 0, kind, count, kind)
    found = CortexTarget(processor, level).run(artefact, np.zeros((1, 0), dtype=np.int8))[1].outputs[0]
    np.testing.assert_array_equal(found, [min(max(v, low), high) for low, high in bounds for v in EDGES])


def _c(values: tuple[int, ...]) -> list[str]:
    return ["INT32_MIN" if value == -(1 << 31) else str(value) for value in values]
