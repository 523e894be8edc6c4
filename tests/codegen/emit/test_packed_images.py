"""Convolutions whose image is a parameter that is packed in codes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler

HERE = ir.Location("net.sd", 1, 1)


@needs_compiler
@pytest.mark.parametrize("shape", ["compact", "plain", "rows4"])
@pytest.mark.parametrize("weights", [-1, 0])
def test_codes_are_taken_apart_as_pixels_too(shape: str, weights: int) -> None:
    """Found by a reader: the C was given codes where it wanted pixels, and did not compile. `weights`: their encoding."""
    image, kernel, results = (1, 5, 4, 2), (1, 2, 3, 2, 3), (1, 4, 2, 3)
    x, w, p, y, z = (
        ir.Variable("X", results, ir.Role.INPUT, HERE),
        ir.Variable("W", kernel, ir.Role.PARAMETER, HERE),
        ir.Variable("P", image, ir.Role.PARAMETER, HERE),
        ir.Variable("y", results, ir.Role.TEMPORARY, HERE),
        ir.Variable("z", results, ir.Role.TEMPORARY, HERE),
    )
    body = (
        ir.Conv2D(ir.whole(y), HERE, ir.whole(p), ir.whole(w)),
        ir.Add(ir.whole(z), HERE, ir.whole(y), ir.whole(x)),
    )
    program = ir.Program("net", (x, w, p, y, z), body, ir.whole(z), ir.ResultKind.REAL)
    random = np.random.default_rng(0)
    parameters = {"W": random.normal(0, 0.3, kernel), "P": random.normal(0, 0.3, image)}
    features = random.normal(0, 1, (3, x.size))
    codes = np.array([[-1, weights, 0, -1, -1]], dtype=np.int32)
    lowering = ShiftryLowering(program, {})
    batch = lowering.lower([[16, 8, 8, 16, 16]], [[12, 6, 6, 11, 11]], codes, (ParameterEncoding(2, 0),))
    source = emit_c(batch, parameters, shape=SHAPES[shape])
    with tempfile.TemporaryDirectory() as folder:
        found = compile_sources([source], Path(folder)).run(0, features)
    np.testing.assert_array_equal(found, run_reference(batch, parameters, features)[0])
