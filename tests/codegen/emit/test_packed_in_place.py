"""Convolutions whose weights are packed in codes, with results over what they read: every place is read before results lie there."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler

HERE = ir.Location("net.sd", 1, 1)


@needs_compiler
@pytest.mark.parametrize("width", [1, 4])
def test_filters_are_not_taken_one_by_one_where_results_lie_over_the_image(width: int) -> None:
    """Found by a reader: half of the results were of an image that the first filter had overwritten."""
    random = np.random.default_rng(0)
    roles = {"X": ir.Role.INPUT, "W": ir.Role.PARAMETER}
    shapes = {"X": (1, 6, 6, 2), "a": (1, 6, 6, 2), "W": (1, 3, 3, 2, 4), "y": (1, 4, 4, 4), "z": (1, 4, 4, 4)}
    x, a, w, y, z = (ir.Variable(n, shape, roles.get(n, ir.Role.TEMPORARY), HERE) for n, shape in shapes.items())
    body = (
        ir.Relu(ir.whole(a), HERE, ir.whole(x)),
        ir.Conv2D(ir.whole(y), HERE, ir.whole(a), ir.whole(w)),
        ir.Relu(ir.whole(z), HERE, ir.whole(y)),
    )
    program = ir.Program("net", (x, a, w, y, z), body, ir.whole(z), ir.ResultKind.REAL)
    parameters, features = {"W": random.normal(0, 0.3, w.shape)}, random.normal(0, 1, (3, x.size))
    bits, scales = np.full((1, 5), 16), np.array([[12, 12, 12, 11, 11]])
    encoding = ParameterEncoding(width, 12 if width == 1 else 8)
    codes = np.array([[-1, -1, 0, -1, -1]], dtype=np.int32)
    batch = ShiftryLowering(program, {}).lower(bits, scales, codes, (encoding,))
    source = emit_c(batch, parameters)
    first, last = source.offsets["y"], source.offsets["y"] + 2 * y.size
    assert first < source.offsets["a"] < last
    with tempfile.TemporaryDirectory() as folder:
        found = compile_sources([source], Path(folder)).run(0, features)
    np.testing.assert_array_equal(found, run_reference(batch, parameters, features)[0])
