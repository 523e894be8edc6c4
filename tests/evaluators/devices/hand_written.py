"""Programs of a few instructions, whose cost a manual says."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.evaluators.simulated import Artefact

NO_SAMPLE = np.zeros((1, 0), dtype=np.int64)


def hand_written(body: str, result: str = "0") -> Artefact:
    """`body` and then `return result` as a program without input."""
    return Artefact(
        "hand",
        "int predict(void);\n",
        f'#include "hand.h"\n#include <stdint.h>\nint predict(void)\n{{\n{body}\nreturn {result};\n}}\n',
        "predict",
        ir.ResultKind.CLASS,
        0,
        np.dtype("<i1"),
        1,
        np.dtype("<i2"),
    )
