"""Convolutions at the ends of what their code counts, in every shape of it: windows in padding alone, kernels of more than 255 places."""

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
    channels: int,
    groups: int,
    kernel: tuple[int, int],
    stride: int,
    padding: tuple[int, int, int, int],
    image: tuple[int, int] = (3, 4),
) -> RandomModel:
    size = [(n + padding[2 * k] + padding[2 * k + 1] - kernel[k]) // stride + 1 for k, n in enumerate(image)]
    filters = 1 if groups > 1 else 2
    shapes = {"X": (1, *image, channels), "W": (groups, *kernel, channels // groups, filters)}
    shapes["Y"] = (1, *size, groups * filters)
    roles = {"X": ir.Role.INPUT, "W": ir.Role.PARAMETER, "Y": ir.Role.TEMPORARY}
    x, w, y = (ir.Variable(name, shape, roles[name], _HERE) for name, shape in shapes.items())
    body = (ir.Conv2D(ir.whole(y), _HERE, ir.whole(x), ir.whole(w), (stride, stride), padding, groups=groups),)
    program = ir.Program("padding", (x, w, y), body, ir.whole(y), ir.ResultKind.REAL)
    random = np.random.default_rng(channels)
    return RandomModel(program, {"W": random.uniform(-2, 2, shapes["W"])}, random.uniform(-2, 2, (2, x.size)))


def candidate(model: RandomModel, bits: int) -> FixedBatch:
    return ShiftryLowering(model.program, {}).lower([[bits, 8, 16]], [[bits - 2, 6, 8]])


def assert_all_shapes_agree(models: list[RandomModel], bits: int, folder: Path) -> None:
    batches = [candidate(model, bits) for model in models]
    made = [(number, shape) for number in range(len(models)) for shape in SHAPES]
    sources = [
        emit_c(batches[n], models[n].parameters, shape=SHAPES[s], name=f"m{k}", function=f"f{k}")
        for k, (n, s) in enumerate(made)
    ]
    built = compile_sources(sources, folder, SANITISED)
    for place, (number, shape) in enumerate(made):
        model = models[number]
        expected = run_reference(batches[number], model.parameters, model.features)[0]
        np.testing.assert_array_equal(built.run(place, model.features), expected, err_msg=f"{number} {shape}")


@needs_compiler
@pytest.mark.parametrize(("channels", "groups"), [(1, 1), (3, 1), (4, 4)])
@pytest.mark.parametrize("bits", [8, 16])
def test_windows_in_padding_alone_sum_nothing(channels: int, groups: int, bits: int, tmp_path: Path) -> None:
    assert_all_shapes_agree([padded(channels, groups, *case) for case in CASES], bits, tmp_path)


@needs_compiler
@pytest.mark.parametrize("bits", [8, 16])
def test_kernels_may_have_more_than_255_rows_and_columns(bits: int, tmp_path: Path) -> None:
    """Counted in 8 bits 300 rows were 44 (found by a reader)."""
    models = [
        padded(channels, 1, kernel, 150, padding, image)
        for channels in (1, 2)
        for kernel, padding, image in (
            ((300, 1), (10, 0, 299, 0), (300, 1)),
            ((300, 1), (0, 0, 0, 0), (300, 1)),
            ((1, 300), (0, 10, 0, 299), (1, 300)),
            ((257, 2), (1, 1, 1, 1), (257, 3)),
        )
    ]
    assert_all_shapes_agree(models, bits, tmp_path)


@needs_compiler
@pytest.mark.parametrize("channels", [1, 2])
def test_windows_that_reach_over_the_image_at_every_place_are_not_asked_whether(channels: int, tmp_path: Path) -> None:
    """avr-gcc warns of a comparison of a counter with a number below zero, and warnings are errors (found by a reader)."""
    model = padded(channels, 1, (4, 4), 1, (1, 3, 1, 2), (2, 2))
    for shape in SHAPES.values():
        assert "> -" not in emit_c(candidate(model, 16), model.parameters, shape=shape).source
    assert_all_shapes_agree([model], 16, tmp_path)
