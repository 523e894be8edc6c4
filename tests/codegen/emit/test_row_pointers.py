"""Compact code walks over rows of weights by pointers, of whole bytes and of codes of a few bits, and only where each row is read once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler

HERE = ir.Location("net.sd", 1, 1)
ROWS, TAPS = 5, 8


def both_halves(first: str, second: str, width: int) -> tuple[CSource, np.ndarray, np.ndarray]:
    """The sum of the products of two matrices with both halves of the input, in one loop, as compact C; its inputs and results."""
    random = np.random.default_rng(3)
    names = sorted({first, second})
    shapes = {
        "X": (2 * TAPS, 1),
        **dict.fromkeys(names, (ROWS, TAPS)),
        "a": (ROWS, 1),
        "b": (ROWS, 1),
        "sum": (ROWS, 1),
    }
    roles = {"X": ir.Role.INPUT, **dict.fromkeys(names, ir.Role.PARAMETER)}
    variables = tuple(ir.Variable(n, s, roles.get(n, ir.Role.TEMPORARY), HERE) for n, s in shapes.items())
    view = {variable.name: ir.whole(variable) for variable in variables}
    half = [ir.View("X", (TAPS, 1), (1, 1), ir.Affine(start)) for start in (0, TAPS)]
    body = (
        ir.MatMul(view["a"], HERE, view[first], half[0]),
        ir.MatMul(view["b"], HERE, view[second], half[1]),
        ir.Add(view["sum"], HERE, view["a"], view["b"]),
    )
    program = ir.Program("net", variables, body, view["sum"], ir.ResultKind.REAL)
    limit = 1 << (width - 1)
    parameters = {name: random.integers(-limit, limit, (ROWS, TAPS)) / 16.0 for name in names}
    encoded = np.array([[0 if name in names else -1 for name in shapes]], dtype=np.int32)
    scales = [[4 if name in names else 3 for name in shapes]]
    stored = (encoded, (ParameterEncoding(width, 0),)) if width < 8 else (None, ())
    batch = ShiftryLowering(program, parameters).lower([[8] * len(shapes)], scales, *stored)
    inputs = random.uniform(-15, 15, (12, 2 * TAPS))
    return emit_c(batch, parameters, shape=SHAPES["compact"]), inputs, run_reference(batch, parameters, inputs)[0]


@needs_compiler
@pytest.mark.parametrize("width", [8, 4, 1])
@pytest.mark.parametrize("second", ["V", "U"])
def test_rows_are_walked_over_where_each_is_read_once(second: str, width: int, tmp_path: Path) -> None:
    source, inputs, expected = both_halves("U", second, width)
    np.testing.assert_array_equal(compile_sources([source], tmp_path).run(0, inputs), expected)
    steps = source.source.count(f"_0 += {TAPS * width // 8};")
    assert steps == (0 if second == "U" else 2)
