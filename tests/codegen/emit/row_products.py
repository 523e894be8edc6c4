"""Random programs of one sum of products with a parameter whose rows have shifts of their own, in every form that sums have."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Accumulator, Rounding
from kilotune.codegen.fixed.encoding import LAYOUTS, ParameterEncoding, RowShifts
from kilotune.codegen.fixed.parameter_rows import parameter_rows
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from tests.codegen.emit.random_programs import RandomModel

_HERE = ir.Location("rows.sd", 1, 1)
FORMS = ("left", "right", "sparse", "filters", "groups")


@st.composite
def row_products(draw: st.DrawFn, form: str | None = None, width: int | None = None) -> tuple[RandomModel, FixedBatch]:
    """A model on 4 samples and one candidate. `form`: a member of FORMS; `width`: in which the parameter is stored."""
    form = form or draw(st.sampled_from(FORMS))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    length, many, few = (draw(st.integers(1, 13)) for _ in range(3))
    sparse, stored = form == "sparse", width or draw(st.sampled_from([*LAYOUTS, 8]))
    stored = max(stored, 2) if sparse else stored
    if form in ("left", "sparse"):
        shapes = {"X": (length, few), "W": (many + 1, length), "y": (many + 1, few)}
    elif form == "right":
        shapes = {"X": (few, length), "W": (length, many + 1), "y": (few, many + 1)}
    else:
        groups, channels = (2, 1) if form == "groups" else (1, draw(st.integers(1, 4)))
        outputs = 1 + many % 3
        shapes = {
            "X": (1, 4, 3, groups * channels),
            "W": (groups, 3, 2, channels, outputs),
            "y": (1, 4, 3, groups * outputs),
        }
    roles = {"X": ir.Role.INPUT, "W": ir.Role.PARAMETER, "y": ir.Role.TEMPORARY}
    x, w, y = (ir.Variable(n, s, roles[n], _HERE, sparse=sparse and n == "W") for n, s in shapes.items())
    operation: ir.Operation
    if form in ("filters", "groups"):
        operation = ir.Conv2D(ir.whole(y), _HERE, ir.whole(x), ir.whole(w), padding=(1, 1, 1, 0), groups=groups)
    else:
        pair = (ir.whole(x), ir.whole(w)) if form == "right" else (ir.whole(w), ir.whole(x))
        operation = ir.MatMul(ir.whole(y), _HERE, *pair, sparse=sparse)
    program = ir.Program("rows", (x, w, y), (operation,), ir.whole(y), ir.ResultKind.REAL)
    axes = parameter_rows(program).get("W")
    values = random.normal(0, 2.0, shapes["W"])
    values[random.random(shapes["W"]) < (0.5 if sparse else 0.0)] = 0.0
    count = 0 if axes is None else ir.count_elements(tuple(shapes["W"][axis] for axis in axes))
    shifts = tuple(random.integers(0, 17 - max(stored, 2), count).tolist())
    rows = RowShifts(axes, shifts) if axes is not None and any(shifts) else None
    encoding = ParameterEncoding(stored, rows=rows)
    bits = np.array([[int(random.choice([8, 16])), 16, int(random.choice([8, 16]))]])
    scales = bits - 4 + random.integers(-3, 4, bits.shape)
    lowering = ShiftryLowering(program, {}, draw(st.sampled_from(Rounding)), draw(st.sampled_from(Accumulator)))
    batch = lowering.lower(bits, scales, np.array([[-1, 0, -1]], dtype=np.int32), (encoding,))
    return RandomModel(program, {"W": values}, random.normal(0, 3, (4, x.size))), batch
