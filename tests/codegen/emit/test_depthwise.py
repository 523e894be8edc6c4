"""Filters of one channel each, with all taps written out: the definition's integers, also where padding is under the window."""

from __future__ import annotations

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.random_programs import RandomModel
from tests.codegen.emit.test_blocks import assert_agrees

_HERE = ir.Location("depthwise.sd", 1, 1)


def depthwise(
    bits: int, kernel: tuple[int, int], stride: int, padding: tuple[int, int, int, int], channels: int = 6
) -> tuple[RandomModel, FixedBatch]:
    """A depthwise convolution of a 5 x 4 image, weights of 8 bits, on two samples."""
    size = [(n + padding[2 * k] + padding[2 * k + 1] - kernel[k]) // stride + 1 for k, n in enumerate((5, 4))]
    shapes = {"X": (1, 5, 4, channels), "W": (channels, *kernel, 1, 1), "Y": (1, *size, channels)}
    roles = {"X": ir.Role.INPUT, "W": ir.Role.PARAMETER, "Y": ir.Role.TEMPORARY}
    x, w, y = (ir.Variable(name, shape, roles[name], _HERE) for name, shape in shapes.items())
    body = (ir.Conv2D(ir.whole(y), _HERE, ir.whole(x), ir.whole(w), (stride, stride), padding, groups=channels),)
    program = ir.Program("depthwise", (x, w, y), body, ir.whole(y), ir.ResultKind.REAL)
    random = np.random.default_rng(bits + channels)
    model = RandomModel(program, {"W": random.uniform(-2, 2, shapes["W"])}, random.uniform(-2, 2, (2, x.size)))
    return model, ShiftryLowering(program, {}).lower([[bits, 8, 16]], [[bits - 2, 6, 8]])


@needs_compiler
@pytest.mark.parametrize(
    ("bits", "kernel", "stride", "padding"),
    [
        (16, (3, 3), 1, (1, 1, 1, 1)),
        (8, (3, 2), 2, (0, 1, 1, 0)),
        (16, (2, 3), 1, (0, 0, 0, 0)),
        (8, (5, 4), 1, (2, 2, 1, 2)),
        (8, (1, 3), 1, (0, 0, 1, 1)),
    ],
)
def test_same_integers(bits: int, kernel: tuple[int, int], stride: int, padding: tuple[int, int, int, int]) -> None:
    source = assert_agrees(*depthwise(bits, kernel, stride, padding), "rows4")
    assert "pixels + i3" in source
    assert ("kt_clear(" in source) == any(padding)


@needs_compiler
@pytest.mark.parametrize("shape", sorted(name for name, shape in SHAPES.items() if not shape.rows))
def test_other_shapes_and_large_filters_stay_loops(shape: str) -> None:
    assert "pixels + i3" not in assert_agrees(*depthwise(16, (3, 3), 1, (1, 1, 1, 1)), shape)
    assert "pixels + i3" not in assert_agrees(*depthwise(16, (7, 4), 1, (3, 3, 1, 2)), "rows4")
