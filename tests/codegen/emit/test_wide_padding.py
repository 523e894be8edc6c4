"""Convolutions whose padding is as wide as the kernel or wider: windows that lie in it alone sum nothing, in every shape of code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.random_programs import RandomModel

_HERE = ir.Location("padding.sd", 1, 1)
SANITISED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
CASES = [
    ((1, 1), 1, (1, 1, 1, 1)),
    ((1, 1), 1, (0, 0, 1, 0)),
    ((1, 1), 2, (0, 0, 0, 3)),
    ((2, 2), 1, (2, 0, 0, 0)),
    ((2, 3), 1, (0, 3, 4, 3)),
    ((3, 2), 2, (1, 1, 2, 2)),
]
"""Kernel, stride and padding (above, below, left, right) over an image of 3 x 4."""


def padded(
    channels: int, groups: int, kernel: tuple[int, int], stride: int, padding: tuple[int, int, int, int]
) -> RandomModel:
    size = [(n + padding[2 * k] + padding[2 * k + 1] - kernel[k]) // stride + 1 for k, n in enumerate((3, 4))]
    filters = 1 if groups > 1 else 2
    shapes = {"X": (1, 3, 4, channels), "W": (groups, *kernel, channels // groups, filters)}
    shapes["Y"] = (1, *size, groups * filters)
    roles = {"X": ir.Role.INPUT, "W": ir.Role.PARAMETER, "Y": ir.Role.TEMPORARY}
    x, w, y = (ir.Variable(name, shape, roles[name], _HERE) for name, shape in shapes.items())
    body = (ir.Conv2D(ir.whole(y), _HERE, ir.whole(x), ir.whole(w), (stride, stride), padding, groups=groups),)
    program = ir.Program("padding", (x, w, y), body, ir.whole(y), ir.ResultKind.REAL)
    random = np.random.default_rng(channels)
    return RandomModel(program, {"W": random.uniform(-2, 2, shapes["W"])}, random.uniform(-2, 2, (2, x.size)))


def candidate(model: RandomModel, bits: int) -> FixedBatch:
    return ShiftryLowering(model.program, {}).lower([[bits, 8, 16]], [[bits - 2, 6, 8]])


@needs_compiler
@pytest.mark.parametrize(("channels", "groups"), [(1, 1), (3, 1), (4, 4)])
@pytest.mark.parametrize("bits", [8, 16])
def test_windows_in_padding_alone_sum_nothing(channels: int, groups: int, bits: int, tmp_path: Path) -> None:
    models = [padded(channels, groups, *case) for case in CASES]
    batches = [candidate(model, bits) for model in models]
    made = [(number, shape) for number in range(len(CASES)) for shape in SHAPES]
    sources = [
        emit_c(batches[n], models[n].parameters, shape=SHAPES[s], name=f"m{k}", function=f"f{k}")
        for k, (n, s) in enumerate(made)
    ]
    built = compile_sources(sources, tmp_path, SANITISED)
    for place, (number, shape) in enumerate(made):
        model = models[number]
        expected = run_reference(batches[number], model.parameters, model.features)[0]
        np.testing.assert_array_equal(built.run(place, model.features), expected, err_msg=f"{CASES[number]} {shape}")
