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
@pytest.mark.parametrize(
    ("width", "last", "extents"), [(1, 16, (6, 2, 3, 4)), (4, 16, (6, 2, 3, 4)), (4, 8, (4, 1, 1, 2))]
)
def test_filters_are_not_taken_one_by_one_where_results_lie_over_the_image(
    width: int, last: int, extents: tuple[int, int, int, int]
) -> None:
    """Found by a reader: half of the results were of an image that the first filter had overwritten.

    `last`: the bits of a result that lies elsewhere, where those of the convolution stay in registers. `extents`: sides and channels of
    the image, sides of the kernel, filters.
    """
    side, channels, kernel, filters = extents
    image, results = (1, side, side, channels), (1, side - kernel + 1, side - kernel + 1, filters)
    random = np.random.default_rng(0)
    roles = {"X": ir.Role.INPUT, "W": ir.Role.PARAMETER}
    shapes = {"X": image, "a": image, "W": (1, kernel, kernel, channels, filters), "y": results, "z": results}
    x, a, w, y, z = (ir.Variable(n, shape, roles.get(n, ir.Role.TEMPORARY), HERE) for n, shape in shapes.items())
    body = (
        ir.Relu(ir.whole(a), HERE, ir.whole(x)),
        ir.Conv2D(ir.whole(y), HERE, ir.whole(a), ir.whole(w)),
        ir.Relu(ir.whole(z), HERE, ir.whole(y)),
    )
    program = ir.Program("net", (x, a, w, y, z), body, ir.whole(z), ir.ResultKind.REAL)
    parameters, features = {"W": random.normal(0, 0.3, w.shape)}, random.normal(0, 1, (3, x.size))
    bits, scales = np.array([[16, 16, 16, 16, last]]), np.array([[12, 12, 12, 11, last - 5]])
    encoding = ParameterEncoding(width, 12 if width == 1 else 8)
    codes = np.array([[-1, -1, 0, -1, -1]], dtype=np.int32)
    batch = ShiftryLowering(program, {}).lower(bits, scales, codes, (encoding,))
    source = emit_c(batch, parameters)
    over = source.offsets["z"], source.offsets["z"] + last // 8 * z.size
    assert (over[0] <= source.offsets["a"] < over[1]) == (last == 16)
    with tempfile.TemporaryDirectory() as folder:
        found = compile_sources([source], Path(folder)).run(0, features)
    np.testing.assert_array_equal(found, run_reference(batch, parameters, features)[0])
