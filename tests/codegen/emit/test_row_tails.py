"""Calls for all rows of weights go on to what becomes of their sums: the same integers as the definition's, stored once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.finished_products import finished_products

NAMES = ("places2", "rows4", "unrolled8", "vectors1")


@needs_compiler
def test_random_networks_agree(tmp_path: Path) -> None:
    """In every shape made for speed, under the undefined-behaviour sanitizer; most store fewer variables than as plain code."""
    made = [finished_products(seed) for seed in range(16)]
    sources = [
        emit_c(
            batch, model.parameters, shape=SHAPES[NAMES[seed % len(NAMES)]], name=f"m{seed}", function=f"predict{seed}"
        )
        for seed, (model, batch) in enumerate(made)
    ]
    library = compile_sources(sources, tmp_path, ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"))
    for seed, (model, batch) in enumerate(made):
        expected = run_reference(batch, model.parameters, model.features)[0]
        np.testing.assert_array_equal(library.run(seed, model.features), expected, err_msg=f"seed {seed}")
    assert sum("kt_tail0(" in source.source for source in sources) >= 4
    assert sum(bool(source.unstored) for source in sources) >= 12


@needs_compiler
@pytest.mark.parametrize("behind", [1, 3])
def test_a_chain_that_does_not_run_as_one_keeps_room_for_its_sums(behind: int, tmp_path: Path) -> None:
    """Its result lies some rows into a larger variable, which may lie over the image that the sums read only if these are stored beside."""
    place = ir.Location("stacked.sd", 1, 1)
    shapes = {"x": (1, 4, 4, 4), "image": (1, 4, 4, 4), "w": (1, 3, 3, 4, 4), "sums": (1, 4, 4, 4)}
    shapes["all"] = (1, 4 + behind, 4, 4)
    roles = {"x": ir.Role.INPUT, "w": ir.Role.PARAMETER}
    v = {name: ir.Variable(name, s, roles.get(name, ir.Role.TEMPORARY), place) for name, s in shapes.items()}
    image, sums, steps = ir.whole(v["image"]), ir.whole(v["sums"]), ir.row_major_strides(shapes["all"])
    below = ir.View("all", (1, 4, 4, 4), steps, ir.Affine(behind * 16))
    body = (
        ir.Relu(image, place, ir.whole(v["x"])),
        ir.Conv2D(sums, place, image, ir.whole(v["w"]), (1, 1), (1, 1, 1, 1)),
        ir.Relu(below, place, sums),
        ir.Fill(ir.View("all", (1, behind, 4, 4), steps), place, 0.5),
    )
    program = ir.Program("stacked", tuple(v.values()), body, ir.whole(v["all"]), ir.ResultKind.REAL)
    random = np.random.default_rng(1)
    parameters, features = {"w": random.uniform(-1, 1, shapes["w"])}, random.normal(0, 1, (3, 64))
    batch = ShiftryLowering(program, {}).lower([[16] * 5], [[12] * 5])
    sources = [
        emit_c(batch, parameters, shape=SHAPES[name], name=f"m{n}", function=f"predict{n}")
        for n, name in enumerate(NAMES)
    ]
    library = compile_sources(sources, tmp_path, ("-O1",))
    expected = run_reference(batch, parameters, features)[0]
    for number, name in enumerate(NAMES):
        np.testing.assert_array_equal(library.run(number, features), expected, err_msg=name)
