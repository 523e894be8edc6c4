"""Compact code takes codes that fill bytes from a byte one after the other in loops over whole bytes, and others by their number."""

from __future__ import annotations

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

HERE = ir.Location("loop.sd", 1, 1)


@needs_compiler
@pytest.mark.parametrize("length", [16, 12])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_codes_are_taken_one_after_the_other_from_whole_bytes(width: int, length: int, tmp_path: Path) -> None:
    """Rows of a parameter, one in each round of the program's loop, are added to what is held."""
    rounds, random = 3, np.random.default_rng(length)
    shapes = {"X": (length,), "P": (rounds, length), "held": (length,)}
    roles = {"X": ir.Role.INPUT, "P": ir.Role.PARAMETER, "held": ir.Role.TEMPORARY}
    variables = tuple(ir.Variable(name, shape, roles[name], HERE) for name, shape in shapes.items())
    held, row = ir.whole(variables[2]), ir.View("P", (length,), (1,), ir.Affine(0, (("t", length),)))
    loop = ir.Loop("t", 0, rounds, (ir.Add(held, HERE, held, row),), HERE)
    body = (ir.Copy(held, HERE, ir.whole(variables[0])), loop)
    program = ir.Program("loop", variables, body, held, ir.ResultKind.REAL)
    limit = 1 << (width - 1)
    parameters = {"P": random.integers(-limit, limit, (rounds, length)) / 4.0}
    encoded = np.array([[-1, 0, -1]], dtype=np.int32)
    batch = ShiftryLowering(program, parameters).lower([[8] * 3], [[2] * 3], encoded, (ParameterEncoding(width, 0),))
    inputs = random.uniform(-20, 20, (9, length))
    source = emit_c(batch, parameters, shape=SHAPES["compact"])
    found = compile_sources([source], tmp_path).run(0, inputs)
    np.testing.assert_array_equal(found, run_reference(batch, parameters, inputs)[0])
    fills_bytes = width != 3 and length * width % 8 == 0
    assert (f"kt_code{width}(" in source.source) == (not fills_bytes)
    assert (f"{length} * loop_t" in source.source) == (not fills_bytes)
